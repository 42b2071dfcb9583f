/*
 * A development environment: a project in a sandbox, its server behind a preview URL, restarted when a file changes.
 *
 *   bun examples/dev-environment.ts          prints the preview URL and follows changes until Ctrl-C
 *   bun examples/dev-environment.ts --demo   makes a change itself, looks at the preview, and ends
 */
import { type FileWatchSSEEvent, getSandbox, type Process, parseSSEStream, type Sandbox } from 'atoll-sandbox';

const PORT = 8080;
const files = {
  'package.json': JSON.stringify({ name: 'demo', type: 'module' }),
  'greeting.js': "export const greeting = 'Hello';\n",
  'server.js': `import http from 'node:http';
import { greeting } from './greeting.js';
http.createServer((request, response) => response.end(greeting + ' from ' + request.headers.host)).listen(${PORT}, () => console.log('listening'));
`,
};

async function startServer(sandbox: Sandbox): Promise<Process> {
  const server = await sandbox.startProcess('node server.js', {
    cwd: '/workspace/app',
    onOutput: (_stream, data) => process.stdout.write(`  server: ${data}`),
  });
  await server.waitForPort(PORT, { timeout: 60_000 });
  return server;
}

/** Restarts the server after every change to a source file; calls back when the new one answers. */
async function followChanges(
  sandbox: Sandbox,
  server: Process,
  changed: (path: string) => void,
  signal: AbortSignal,
): Promise<void> {
  let running = server;
  const changes = await sandbox.watch('/workspace/app', { include: ['*.js'] });
  for await (const event of parseSSEStream<FileWatchSSEEvent>(changes, signal)) {
    if (event.type !== 'event' || !['modify', 'create', 'move_to'].includes(event.eventType)) continue;
    await running.kill().catch(() => {}); // it may have ended by itself
    running = await startServer(sandbox);
    changed(event.path);
  }
}

const sandbox = getSandbox(undefined, `dev-${process.pid}`, { labels: { purpose: 'development' } });
const stop = new AbortController();
process.once('SIGINT', () => stop.abort());
try {
  for (const [name, content] of Object.entries(files)) await sandbox.writeFile(`/workspace/app/${name}`, content);
  const server = await startServer(sandbox);
  const { url } = await sandbox.exposePort(PORT, { name: 'web' });
  console.log(`preview: ${url}`);

  // A browser finds *.localhost by itself; a program is better off asking through the sandbox.
  const look = async (): Promise<string> => {
    const response = await sandbox.containerFetch('http://preview/', PORT);
    // Between two servers nobody listens.
    return response.ok ? response.text() : look();
  };
  console.log(`shows: ${await look()}`);

  let restarted = () => {};
  const seen = new Promise<void>((done) => {
    restarted = done;
  });
  const following = followChanges(
    sandbox,
    server,
    (path) => {
      console.log(`changed: ${path}`);
      restarted();
    },
    stop.signal,
  );
  following.catch(() => {});
  if (process.argv.includes('--demo')) {
    await sandbox.exec("sed -i 's/Hello/Good morning/' greeting.js", { cwd: '/workspace/app' });
    await seen;
    console.log(`shows: ${await look()}`);
    stop.abort();
  }
  await following.catch((error: Error) => {
    if (error.name !== 'AbortError') throw error;
  });
} finally {
  await sandbox.destroy();
}
