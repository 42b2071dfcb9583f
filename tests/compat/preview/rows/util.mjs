import assert from 'node:assert/strict';

export { assert };

/** Errors cross a Durable Object's RPC as plain ones; upstream puts the class's name in front of the message. */
export async function rejects(promise, pattern) {
  try {
    await promise;
  } catch (error) {
    assert.match(`${error.name}: ${error.message}`, pattern);
    return error;
  }
  assert.fail(`expected ${pattern}, but it succeeded`);
}

export async function until(what, condition, seconds = 45) {
  const end = Date.now() + seconds * 1000;
  for (;;) {
    const value = await condition();
    if (value) return value;
    assert.ok(Date.now() < end, `waited ${seconds} s for ${what}`);
    await new Promise((done) => setTimeout(done, 50));
  }
}

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

/** The messages of a WebSocket, one after the other. */
export function messages(socket) {
  const come = [];
  const asked = [];
  const give = (item) => (asked.length ? asked.shift()(item) : come.push(item));
  socket.addEventListener('message', ({ data }) => give({ data }));
  socket.addEventListener('close', ({ code, reason }) => give({ closed: { code, reason } }));
  socket.accept();
  const next = () => (come.length ? Promise.resolve(come.shift()) : new Promise((done) => asked.push(done)));
  return {
    async next(what = 'a message') {
      const late = AbortSignal.timeout(45_000);
      const item = await Promise.race([
        next(),
        new Promise((_, reject) => late.addEventListener('abort', () => reject(new Error(`waited in vain for ${what}`)))),
      ]);
      return item.data instanceof Blob ? { data: await item.data.arrayBuffer() } : item;
    },
  };
}
