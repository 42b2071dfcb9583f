// node run.mjs --list            names of the scenarios
// node run.mjs NAME [TRANSPORT]  runs one against ATOLL_URL with ATOLL_TOKEN, in a sandbox of its own, over http (the
//                                default), websocket or rpc
import { register } from 'node:module';
register('./hooks.mjs', import.meta.url);
const scenarios = {
  ...(await import('./commands.mjs')),
  ...(await import('./files.mjs')),
  ...(await import('./sockets.mjs')),
  ...(await import('./rpc.mjs')),
  ...(await import('./code_python.mjs')),
  ...(await import('./code_js.mjs')),
};

const name = process.argv[2];
if (name === '--list') {
  console.log(Object.keys(scenarios).join('\n'));
} else {
  const { sandbox } = await import('./client.mjs');
  const transport = process.argv[3] ?? 'http';
  const box = await sandbox(`${transport[0]}-${name.toLowerCase().replaceAll('_', '-')}`.slice(0, 60).replace(/-+$/, ''), transport);
  try {
    await scenarios[name](box);
  } finally {
    await box.destroy();
  }
}
