import { until } from '../../rowtools.mjs';

export { assert, messages, rejects, until } from '../../rowtools.mjs';
export { events, eventsUntil, text } from '../../stream.mjs';

/** A server for HTTP and WebSockets in plain Node, to run in a box on $PORT. */
export const SERVER = String.raw`
const http = require('node:http');
const crypto = require('node:crypto');
const server = http.createServer((request, response) => {
  const chunks = [];
  if (request.url === '/redirect') return response.writeHead(302, { Location: '/elsewhere' }).end();
  if (request.url === '/stream') {
    response.writeHead(200, { 'Content-Type': 'text/event-stream' });
    response.write('data: first\n\n');
    return server.once('go', () => response.end('data: second\n\n'));
  }
  if (request.url === '/gzip') {
    const body = require('node:zlib').gzipSync('squeezed '.repeat(1000));
    return response.writeHead(200, { 'Content-Type': 'text/plain', 'Content-Encoding': 'gzip' }).end(body);
  }
  if (request.url === '/go') { server.emit('go'); return response.end('gone'); }
  request.on('data', (chunk) => chunks.push(chunk));
  request.on('end', () => {
    const body = Buffer.concat(chunks);
    response.writeHead(request.url === '/teapot' ? 418 : 200, { 'Content-Type': 'application/json', 'X-App': 'yes' });
    response.end(JSON.stringify({ method: request.method, url: request.url, headers: request.headers, length: body.length,
      sha: crypto.createHash('sha256').update(body).digest('hex') }));
  });
});
server.on('upgrade', (request, socket) => {
  const accept = crypto.createHash('sha1').update(request.headers['sec-websocket-key'] + '258EAFA5-E914-47DA-95CA-C5AB0DC85B11');
  const protocol = request.headers['sec-websocket-protocol'];
  socket.write('HTTP/1.1 101 Switching Protocols\r\nUpgrade: websocket\r\nConnection: Upgrade\r\nSec-WebSocket-Accept: ' +
    accept.digest('base64') + (protocol ? '\r\nSec-WebSocket-Protocol: ' + protocol : '') + '\r\n\r\n');
  let have = Buffer.alloc(0);
  socket.on('error', () => {});
  socket.on('data', (data) => {
    have = Buffer.concat([have, data]);
    for (;;) {
      if (have.length < 2) return;
      let n = have[1] & 127, at = 2;
      if (n === 126) { if (have.length < 4) return; n = have.readUInt16BE(2); at = 4; }
      if (have.length < at + 4 + n) return;
      const mask = have.subarray(at, at + 4), body = Buffer.from(have.subarray(at + 4, at + 4 + n));
      for (let i = 0; i < n; i++) body[i] ^= mask[i & 3];
      const opcode = have[0] & 15;
      have = have.subarray(at + 4 + n);
      const head = n < 126 ? Buffer.from([0x80 | opcode, n]) : Buffer.from([0x80 | opcode, 126, n >> 8, n & 255]);
      socket.write(Buffer.concat([head, body]));
      if (opcode === 8) return socket.end();
    }
  });
});
server.listen(Number(process.env.PORT), '0.0.0.0', () => console.log('listening'));
`;

/** Starts SERVER in a sandbox and waits until it listens. */
export async function serve(sandbox, port) {
  await sandbox.writeFile('/tmp/server.cjs', SERVER);
  const server = await sandbox.startProcess('node /tmp/server.cjs', { env: { PORT: String(port) } });
  await server.waitForPort(port);
  return server;
}
