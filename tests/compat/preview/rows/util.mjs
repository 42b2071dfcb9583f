export { assert, messages, rejects, until } from '../../rowtools.mjs';

/** All events of a stream, as far as `enough` does not end it before. */
export async function gather(stream, enough = () => false) {
  const all = [];
  const reader = (await stream).getReader();
  for (;;) {
    const { done, value } = await reader.read();
    if (done) return all;
    all.push(value);
    if (enough(value, all)) {
      await reader.cancel();
      return all;
    }
  }
}

export const text = (all, type) => {
  const decoder = new TextDecoder();
  return all.filter((e) => e.type === type).map((e) => decoder.decode(e.data, { stream: true })).join('');
};

export const bytes = (s) => new TextEncoder().encode(s);

/** Runs words to their end. */
export async function run(sandbox, ...argv) {
  return (await sandbox.exec(argv)).output({ encoding: 'utf8' });
}
export const sh = (sandbox, script) => run(sandbox, 'bash', '-c', script);

/** A server for HTTP and WebSockets in plain Node, to run in a box on $PORT. */
const SERVER = String.raw`
const http = require('node:http');
const crypto = require('node:crypto');
const server = http.createServer((request, response) => {
  response.writeHead(request.url === '/teapot' ? 418 : 200, { 'Content-Type': 'application/json', 'X-App': 'yes' });
  response.end(JSON.stringify({ method: request.method, url: request.url }));
});
server.on('upgrade', (request, socket) => {
  const accept = crypto.createHash('sha1').update(request.headers['sec-websocket-key'] + '258EAFA5-E914-47DA-95CA-C5AB0DC85B11');
  socket.write('HTTP/1.1 101 Switching Protocols\r\nUpgrade: websocket\r\nConnection: Upgrade\r\nSec-WebSocket-Accept: ' +
    accept.digest('base64') + '\r\n\r\n');
  socket.on('error', () => {});
  const hello = Buffer.from('hello ' + request.url);
  socket.write(Buffer.concat([Buffer.from([0x81, hello.length]), hello]));
});
server.listen(Number(process.env.PORT), '0.0.0.0', () => console.log('listening'));
`;

export async function serve(sandbox, port) {
  await sandbox.writeFile('/tmp/server.cjs', SERVER);
  const server = await sandbox.exec(['node', '/tmp/server.cjs'], { env: { PORT: String(port) } });
  await server.waitForPort(port);
  return server;
}

export const upgrade = (url = 'http://atoll.test/') => new Request(url, { headers: { Upgrade: 'websocket', Connection: 'Upgrade' } });
