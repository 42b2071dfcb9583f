// WebSockets: upstream's websocket transport, and its terminal addon for xterm.js.
import { assert, events, eventsUntil, overWebSocket, rejects } from './client.mjs';

const S = 'sandbox-default';

export async function websocket_transport_does_what_http_does(box) {
  const ws = overWebSocket(box);
  try {
    const r = await ws.commands.execute('echo over $((6*7))', S);
    assert.equal(r.stdout, 'over 42\n');
    const content = 'grüße '.repeat(700000); // 5 MB in one frame
    await ws.files.writeFile('/workspace/f.txt', content, S);
    assert.equal((await ws.files.readFile('/workspace/f.txt', S)).content, content);
    await rejects(ws.files.readFile('/workspace/none', S), 'FILE_NOT_FOUND', 404);
    const all = await Promise.all([1, 2, 3, 4, 5].map((i) => ws.commands.execute(`echo ${i}`, `s${i}`)));
    assert.deepEqual(all.map((a) => a.stdout), ['1\n', '2\n', '3\n', '4\n', '5\n']);
  } finally {
    ws.disconnect();
  }
}

export async function websocket_transport_streams(box) {
  const ws = overWebSocket(box);
  try {
    await ws.files.writeFile('/workspace/s.txt', 'ä'.repeat(100000), S);
    const file = await events(ws.files.readFileStream('/workspace/s.txt', S));
    assert.equal(file[0].type, 'metadata');
    assert.equal(file.at(-1).bytesRead, 200000);
    const stream = await ws.watch.watch({ path: '/workspace' });
    await ws.files.writeFile('/workspace/seen', '', S);
    const seen = await eventsUntil(stream, (e) => e.type === 'event');
    assert.equal(seen.at(-1).path, '/workspace/seen');
    await assert.rejects(ws.watch.watch({ path: '/etc' }), /PERMISSION_DENIED/);
    assert.equal((await ws.files.exists('/workspace/seen', S)).exists, true);
  } finally {
    ws.disconnect();
  }
}

/** As much of an xterm.js terminal as the addon uses: bytes that were written, and a keyboard. */
class Screen {
  cols = 97;
  rows = 31;
  text = '';
  #decoder = new TextDecoder();
  #waiting = [];
  onData(typed) {
    this.type = typed;
    return { dispose() {} };
  }
  onResize(resized) {
    this.resized = resized;
    return { dispose() {} };
  }
  write(bytes) {
    this.text += this.#decoder.decode(bytes, { stream: true });
    this.#waiting = this.#waiting.filter(([pattern, done]) => !(pattern.test(this.text) && (done(), true)));
  }
  clear() {
    this.text = '';
  }
  focus() {}
  shows(pattern) {
    if (pattern.test(this.text)) return Promise.resolve();
    return new Promise((done) => this.#waiting.push([pattern, done]));
  }
}

function connect(box, SandboxAddon, states) {
  const { ATOLL_URL, ATOLL_TOKEN } = process.env;
  const url = `${ATOLL_URL.replace(/^http/, 'ws')}/v1/sandboxes/${box.id}/ws/pty`;
  const screen = new Screen();
  let connected;
  const ready = new Promise((done) => (connected = done));
  const addon = new SandboxAddon({
    reconnect: false,
    getWebSocketUrl: ({ sessionId }) => `${url}?sessionId=${sessionId}&token=${ATOLL_TOKEN}`,
    onStateChange: (state, error) => {
      states.push(error ? error.message : state);
      if (state === 'connected') connected();
    },
  });
  addon.activate(screen);
  addon.connect({ sandboxId: box.id, sessionId: 'term' });
  return { screen, addon, ready };
}

export async function terminal_addon_types_resizes_and_comes_back(box) {
  globalThis.location = new URL(process.env.ATOLL_URL);
  const { SandboxAddon } = await import('@cloudflare/sandbox/xterm');
  const states = [];
  const first = connect(box, SandboxAddon, states);
  await first.ready;
  first.screen.type('X=kept; stty size; echo sum$((6*7))\r');
  await first.screen.shows(/31 97[^]*sum42\r\n[^]*[#$] /); // readline writes the old size back before its prompt
  first.screen.resized({ cols: 120, rows: 40 });
  first.screen.type('stty size\r');
  await first.screen.shows(/40 120/);
  first.addon.disconnect();

  const second = connect(box, SandboxAddon, states);
  await second.ready;
  assert.match(second.screen.text, /sum42/); // scroll-back came before "connected"
  second.screen.type('echo $X; exit 3\r');
  await second.screen.shows(/kept\r\n/);
  while (!states.some((s) => /exited with code 3/.test(s))) await new Promise((r) => setImmediate(r));
  second.addon.dispose();
}
