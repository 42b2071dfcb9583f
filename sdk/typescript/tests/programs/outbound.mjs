// An outbound handler in any runtime: answers, streams and forwards WebSockets. `outbound.mjs ID PORT`, then commands on standard input.
import { forwardWebSocket, getSandbox } from 'atoll-sandbox';

const [id, port] = process.argv.slice(2);
const sandbox = getSandbox(undefined, id);
await sandbox.setOutboundHandler((request) => {
  const { hostname, pathname, protocol } = new URL(request.url);
  if (request.headers.get('upgrade') === 'websocket')
    return forwardWebSocket(new Request(`http://127.0.0.1:${port}${pathname}`, request));
  if (pathname === '/echo') return new Response(request.body);
  return new Response(`${protocol} ${hostname} ${request.method}\n`, { status: 203 });
});
const run = async (command) => {
  const { stdout, stderr } = await sandbox.exec(command);
  process.stdout.write(stdout + stderr);
};
await run('curl -sS -w "%{http_code}\\n" http://one.example/ https://two.example/x');
await run('python3 /workspace/client.py');
await sandbox.setOutboundHandler(null);
process.exit(0);
