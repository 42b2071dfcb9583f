// Rows that need a client outside of workerd: plain HTTP and WebSockets to the Worker's port, as a browser makes them.
import assert from 'node:assert/strict';
import http from 'node:http';
import { gunzipSync } from 'node:zlib';
import WebSocket from 'ws';

let boxes = 0;

/** One request to the Worker's own port with a preview's host name. */
function request(port, host, path, { method = 'GET', body, headers = {} } = {}) {
  return new Promise((resolve, reject) => {
    const asked = http.request({ port, method, path, headers: { ...headers, Host: host } }, (response) => {
      const chunks = [];
      response.on('data', (chunk) => chunks.push(chunk));
      response.on('end', () => {
        const whole = Buffer.concat(chunks);
        resolve({ status: response.statusCode, headers: response.headers, body: whole, text: whole.toString() });
      });
    });
    asked.on('error', reject);
    asked.end(body);
  });
}

/** Opens a WebSocket there; its messages come from `next()`. */
async function open(port, host, path, protocols = []) {
  const socket = new WebSocket(`ws://127.0.0.1:${port}${path}`, protocols, { headers: { Host: host } });
  const come = [];
  const asked = [];
  socket.on('message', (data, binary) => {
    const item = binary ? data : data.toString();
    if (asked.length) asked.shift()(item);
    else come.push(item);
  });
  await new Promise((resolve, reject) => socket.once('open', resolve).once('error', reject));
  return { socket, next: () => (come.length ? come.shift() : new Promise((done) => asked.push(done))) };
}

/** A sandbox with the test's server on 8080, exposed for the Worker's own address. */
async function preview(miniflare) {
  const { port } = await miniflare.ready;
  const id = `o${++boxes}-preview`;
  const answer = await miniflare.dispatchFetch(`http://atoll.test/expose/${id}?hostname=localhost:${port}`);
  const { url, error } = await answer.json();
  assert.ok(url, error);
  return { port, id, host: new URL(url).host };
}

const close = (miniflare, id) => miniflare.dispatchFetch(`http://atoll.test/destroy/${id}`);

export const outside = {
  'proxyToSandbox: from a browser': {
    area: 'Ports and previews',
    async run(miniflare) {
      const { port, id, host } = await preview(miniflare);
      try {
        const seen = await request(port, host, '/a?b=c', { method: 'POST', body: 'x'.repeat(500_000) });
        assert.equal(seen.status, 200);
        assert.deepEqual([JSON.parse(seen.text).url, JSON.parse(seen.text).length], ['/a?b=c', 500_000]);
        const moved = await request(port, host, '/redirect');
        assert.deepEqual([moved.status, moved.headers.location], [302, '/elsewhere']);
        const squeezed = await request(port, host, '/gzip', { headers: { 'Accept-Encoding': 'gzip' } });
        assert.equal(squeezed.headers['content-encoding'], 'gzip');
        assert.equal(gunzipSync(squeezed.body).toString(), 'squeezed '.repeat(1000));
        const { socket, next } = await open(port, host, '/ws', ['vite-hmr']);
        assert.equal(socket.protocol, 'vite-hmr');
        socket.send('from outside');
        assert.equal(await next(), 'from outside');
        socket.send(Buffer.alloc(3000, 1));
        assert.equal((await next()).length, 3000);
        socket.close(1000);
      } finally {
        await close(miniflare, id);
      }
    },
  },

  'terminal: from a browser': {
    area: 'Terminals',
    async run(miniflare) {
      const { port } = await miniflare.ready;
      const id = `o${++boxes}-terminal`;
      try {
        const { socket, next } = await open(port, `localhost:${port}`, `/terminal/${id}`);
        socket.send(Buffer.from('stty size; echo $((6*7))\n'));
        let seen = '';
        while (!/30 100\r\n42/.test(seen)) seen += (await next()).toString();
        socket.close(1000);
      } finally {
        await close(miniflare, id);
      }
    },
  },
};
