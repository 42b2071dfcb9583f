// The preview's own connection class in plain Node, without workerd: what a Worker cannot show, and bad input.
//
//   node plain.mjs --list      names of the scenarios
//   node plain.mjs [NAME...]   runs them against RPC_URL ({id} in it is a sandbox of the scenario's own), one line of JSON each
import assert from 'node:assert/strict';
import { readdirSync } from 'node:fs';
import { register } from 'node:module';
import WebSocket from 'ws';

register('./hooks.mjs', import.meta.url);
const dist = new URL('node_modules/@cloudflare/sandbox/dist/', import.meta.url);
const file = readdirSync(dist).find((name) => /^sandbox-.*\.js$/.test(name));
const { ContainerControlConnection } = await import(new URL(file, dist).href);

const headers = process.env.ATOLL_TOKEN ? { Authorization: `Bearer ${process.env.ATOLL_TOKEN}` } : {};

/** What a Durable Object's container gives the client: a fetch that answers an upgrade with a socket. */
function upgrade(url) {
  return new Promise((resolve, reject) => {
    const ws = new WebSocket(url.replace(/^http/, 'ws'), { headers, maxPayload: 1 << 28 });
    ws.accept = () => {};
    ws.once('open', () => resolve({ status: 101, webSocket: ws }));
    ws.once('error', reject);
  });
}

async function connect(url, localMain) {
  const connection = new ContainerControlConnection({ stub: { fetch: () => upgrade(url) }, localMain });
  const { runtimeIncarnationID } = await connection.getRuntimeMetadata();
  await connection.activateControlSession(runtimeIncarnationID);
  return { connection, rpc: connection.rpc(), runtimeIncarnationID };
}

async function rejects(promise, code) {
  const error = await promise.then(() => assert.fail(`expected ${code}, but it succeeded`), (e) => e);
  if (error.code === 'ERR_ASSERTION') throw error;
  assert.match(`${error.code} ${error.name} ${error.message}`, code);
  return error;
}

async function until(what, condition) {
  for (const end = Date.now() + 60_000; ; ) {
    const value = await condition();
    if (value) return value;
    assert.ok(Date.now() < end, `waited for ${what}`);
    await new Promise((done) => setTimeout(done, 20));
  }
}

async function collect(stream) {
  const all = [];
  for await (const event of stream) all.push(event);
  return all;
}

async function events(subscription) {
  const s = await subscription;
  const all = await collect(await s.stream());
  s[Symbol.dispose]();
  return all;
}
const text = (all) => Buffer.concat(all.filter((e) => e.data).map((e) => e.data)).toString();
const run = async (rpc, ...argv) => events(rpc.processes.openLogs((await rpc.processes.start(argv)).id, { follow: true }));

/** Frames by hand, on a socket of their own. */
async function raw(url) {
  const ws = new WebSocket(url.replace(/^http/, 'ws'), { headers });
  const frames = [];
  const pieces = [];
  ws.on('message', (data, binary) => (binary ? pieces.push(data) : frames.push(JSON.parse(data))));
  const closed = new Promise((done) => ws.once('close', (code, reason) => done({ code, reason: String(reason) })));
  await new Promise((resolve, reject) => ws.once('open', resolve).once('error', reject));
  return { ws, frames, closed, shown: () => Buffer.concat(pieces).toString(), send: (...frame) => ws.send(JSON.stringify(frame)) };
}

const scenarios = {
  async activation({ url, rpc, connection, runtimeIncarnationID }) {
    assert.deepEqual(await connection.getRuntimeMetadata(), { runtimeIncarnationID, sandboxVersion: '0.13.0-next.751.1', controlProtocolVersion: 1 });
    assert.equal(await rpc.utils.ping(), 'pong');
    await rejects(rpc.commands.execute('true'), /not a function/); // of 0.12
    const other = new ContainerControlConnection({ stub: { fetch: () => upgrade(url) } });
    assert.equal((await other.getRuntimeMetadata()).runtimeIncarnationID, runtimeIncarnationID);
    await rejects(other.activateControlSession('another'), /CONTROL_PROTOCOL_INCOMPATIBLE.*does not match/);
    // A socket that was not activated has the methods of 0.12 and no other.
    assert.equal((await other.stub.commands.execute('echo 12', 'default')).stdout, '12\n');
    await rejects(other.stub.processes.start(['true']), /not a function/);
    await rejects(other.stub.terminals.list(), /not a function/);
    other.disconnect();
  },

  async 'a socket that breaks off, and the rest by cursor'({ url, rpc }) {
    const first = await connect(url);
    const p = await first.rpc.processes.start(['sh', '-c', 'for i in 1 2 3 4 5; do echo $i; sleep 0.1; done; while [ ! -e go ]; do sleep 0.05; done; echo 6']);
    const subscription = await first.rpc.processes.openLogs(p.id, { follow: true });
    const reader = (await subscription.stream()).getReader();
    const { value } = await reader.read();
    first.connection.disconnect();
    const rest = events(rpc.processes.openLogs(p.id, { since: value.cursor, follow: true }));
    await rpc.files.writeFile('go', '');
    assert.equal(text([value, ...(await rest)]), '1\n2\n3\n4\n5\n6\n');
  },

  async 'a log that is full tells what is lost'({ rpc }) {
    const p = await rpc.processes.start(['sh', '-c', 'echo first; while [ ! -e on ]; do sleep 0.05; done; head -c 20000000 /dev/zero | tr "\\0" x; echo last']);
    const subscription = await rpc.processes.openLogs(p.id, { follow: true });
    const { value } = await (await subscription.stream()).getReader().read();
    subscription[Symbol.dispose]();
    await rpc.files.writeFile('on', '');
    await until('its end', async () => (await rpc.processes.get(p.id)).state === 'exited');
    const rest = await events(rpc.processes.openLogs(p.id, { since: value.cursor }));
    assert.deepEqual([rest[0].type, rest.at(-1).type], ['truncated', 'terminal']);
    const kept = text(rest).length;
    assert.ok(kept >= 8 << 20 && kept <= 17 << 20, String(kept));
    assert.ok(text(rest).endsWith('last\n'));
  },

  async 'one slow stream'({ rpc }) {
    const flood = await rpc.processes.start(['sh', '-c', 'yes | head -c 15000000']);
    const slow = await rpc.processes.openLogs(flood.id, { follow: true });
    const reader = (await slow.stream()).getReader();
    await reader.read();
    for (let i = 0; i < 50; i++) assert.equal(text(await run(rpc, 'echo', String(i))), `${i}\n`);
    let n = 2;
    for (let r = await reader.read(); !r.done; r = await reader.read()) n += r.value.data?.length ?? 0;
    assert.ok(n > 14_000_000, String(n));
    slow[Symbol.dispose]();
  },

  async subscriptions({ rpc, connection }) {
    const p = await rpc.processes.start(['sleep', '600']);
    const subscription = await rpc.processes.openLogs(p.id, { follow: true });
    const stream = await subscription.stream();
    await rejects(subscription.stream(), /opened before/);
    await rejects(subscription.other(), /not a function/);
    const read = stream.getReader().read();
    await subscription.cancel();
    assert.equal((await read).done, true);
    await subscription.cancel();
    subscription[Symbol.dispose]();
    // Pipelined: the stream is asked for before the subscription is there.
    const q = await rpc.processes.start(['echo', 'piped']);
    const promised = rpc.processes.openLogs(q.id, { follow: true });
    assert.match(text(await collect(await promised.stream())), /piped/);
    promised[Symbol.dispose]();
    // A client may hold so many and no more; those that it lets go of make room.
    const held = await Promise.all(Array.from({ length: 512 }, () => rpc.processes.openLogs(p.id, { follow: true })));
    await rejects(rpc.processes.openLogs(p.id), /512 subscriptions/);
    for (const s of held) s[Symbol.dispose]();
    await rpc.utils.ping();
    (await rpc.processes.openLogs(p.id))[Symbol.dispose]();
    await rpc.processes.kill(p.id, 9);
    await rpc.utils.ping();
    await until('an idle session', () => connection.getStats().imports <= 1);
  },

  async 'terminals: limits'({ rpc, url }) {
    const own = await connect(url);
    // The first one takes every byte, or none: a terminal that edits lines drops what does not fit.
    const all = [await rpc.terminals.create({ command: ['sh', '-c', 'stty raw -echo; echo ready; exec sleep 600'] })];
    const begins = await rpc.terminals.output(all[0].id, { follow: true });
    await (await begins.stream()).getReader().read();
    begins[Symbol.dispose]();
    for (;;) {
      const t = await own.rpc.terminals.create({ command: ['sleep', '600'] }).catch((e) => e);
      if (t instanceof Error) {
        assert.match(t.message, /too many terminals/);
        break;
      }
      all.push(t);
    }
    assert.equal(all.length, 64);
    assert.equal(await rpc.terminals.hasActive(), true);
    // A program that reads nothing: its input is bounded.
    const block = new Uint8Array(1 << 18).fill(65);
    let written = 0;
    await rejects((async () => { for (; written < 64; written++) await rpc.terminals.write(all[0].id, block); })(), /TERMINAL_CONTROL_ERROR.*does not read/);
    assert.ok(written >= 3 && written < 10, String(written));
    await rejects(rpc.terminals.write(all[0].id, 'text'), /Uint8Array/);
    await Promise.all(all.map((t) => rpc.terminals.terminate(t.id)));
    assert.equal(await rpc.terminals.hasActive(), false);
    const known = new Set((await rpc.terminals.list()).map((t) => t.id));
    assert.equal(known.size, 25);
    await rejects(rpc.terminals.write(all.find((t) => !known.has(t.id)).id, block), /TERMINAL_NOT_FOUND/);
    own.connection.disconnect();
  },

  async 'the terminal that ends last is remembered longest'({ rpc }) {
    const first = await rpc.terminals.create({ command: ['sleep', '600'] });
    for (let i = 0; i < 25; i++) await events(rpc.terminals.output((await rpc.terminals.create({ command: ['true'] })).id, { follow: true }));
    await rpc.terminals.terminate(first.id);
    assert.deepEqual((await rpc.terminals.get(first.id))?.exit, { code: 143, signal: 15, timedOut: false });
    assert.equal((await rpc.terminals.list()).length, 25);
  },

  async 'the WebSocket of a terminal'({ url, rpc, runtimeIncarnationID }) {
    const t = await rpc.terminals.create({ command: ['sh', '-c', 'stty -echo; echo ready; while read x; do echo "got $x"; done; exit 3'] });
    const open = async (query) => raw(`${url.replace(/rpc$/, 'ws/terminal')}?${new URLSearchParams(query)}`);
    for (const query of [{ terminalId: 'none' }, { terminalId: t.id, runtimeIncarnationID: 'x' }, { terminalId: t.id, cursor: 'x' }]) {
      const refused = await open(query);
      assert.equal((await refused.closed).code, 1008);
      assert.equal(refused.frames[0].type, 'error');
    }
    const all = { terminalId: t.id, runtimeIncarnationID };
    const one = await open(all);
    await until('ready', () => one.shown().includes('ready'));
    one.ws.send(Buffer.from('a\n'));
    await until('a', () => one.shown().includes('got a\r\n'));
    const { cursor } = one.frames.filter((f) => f.type === 'chunk').at(-1);
    one.ws.terminate();
    await rpc.terminals.write(t.id, Buffer.from('b\n'));
    const two = await open({ ...all, cursor });
    await until('b', () => two.shown().includes('got b\r\n'));
    assert.equal(two.shown(), 'got b\r\n'); // and nothing twice
    two.ws.send('{"type":"resize","cols":0,"rows":1}');
    await until('a complaint', () => two.frames.at(-1).type === 'error');
    two.ws.send(Buffer.from([4])); // the end of its input
    assert.equal((await two.closed).code, 1000);
    assert.deepEqual(two.frames.at(-1).exit, { code: 3, timedOut: false });
    const three = await open({ ...all, cursor }); // also when it is over
    assert.equal((await three.closed).code, 1000);
    assert.equal(three.shown(), 'got b\r\n');
    const four = await rpc.terminals.create({ command: ['sleep', '600'] });
    const five = await open({ terminalId: four.id });
    five.ws.send('{"type":"interrupt"}');
    await five.closed;
    assert.deepEqual(five.frames.at(-1).exit, { code: 130, signal: 2, timedOut: false });
  },

  async 'a box that stops while it is watched'({ url }) {
    let ws;
    const stub = { fetch: async () => ({ status: 101, webSocket: (ws = (await upgrade(url)).webSocket) }) };
    const connection = new ContainerControlConnection({ stub });
    await connection.activateControlSession((await connection.getRuntimeMetadata()).runtimeIncarnationID);
    const rpc = connection.rpc();
    const closed = new Promise((done) => ws.once('close', (code, reason) => done([code, String(reason)])));
    const ends = [];
    for (const subscription of [await rpc.ports.openWatch(1), await rpc.watch.watch({ path: '/workspace', recursive: true })]) {
      const reader = (await subscription.stream()).getReader();
      await reader.read();
      ends.push(reader.read().then((r) => r.done, () => true));
    }
    await rpc.processes.start(['sh', '-c', 'kill -TERM $PPID']).catch(() => {});
    // Not cut off when its time is up: told, and closed.
    assert.deepEqual(await closed, [1001, 'the sandbox stops']);
    assert.deepEqual(await Promise.all(ends), [true, true]);
  },

  async 'mounts'({ rpc }) {
    await rpc.mounts.ensureDirectory('/tmp/m m/n');
    assert.equal(await rpc.mounts.pathExists('/tmp/m m/n'), true);
    assert.equal(await rpc.mounts.pathExists('/tmp/m m/none'), false);
    assert.equal(await rpc.mounts.isMountpoint('/tmp/m m/n'), false);
    assert.equal(await rpc.mounts.isMountpoint('/'), true);
    await rpc.files.writeFile('/tmp/m m/f', 'x');
    await rpc.mounts.chmodOwnerOnly('/tmp/m m/f');
    assert.equal(text(await run(rpc, 'stat', '-c', '%a', '/tmp/m m/f')), '600\n');
    await rpc.mounts.deleteFile('/tmp/m m/f');
    const kept = await rpc.mounts.removeMountDirectory({ path: '/tmp/m m', onlyIfNotMountpoint: true });
    assert.deepEqual([kept.success, kept.exitCode > 0], [false, true]);
    assert.equal((await rpc.mounts.removeMountDirectory({ path: '/tmp/m m/n', onlyIfNotMountpoint: false })).success, true);
    assert.equal((await rpc.mounts.unmountFuse('/tmp/m m')).success, false);
    await rpc.mounts.unmountFuseIfMounted('/tmp/m m');
    await rejects(rpc.mounts.ensureDirectory('a\nb'), /VALIDATION_FAILED/);
    await rejects(rpc.mounts.ensureDirectory(), /VALIDATION_FAILED/);
    await rejects(rpc.mounts.mountS3FSAndVerify({ source: 'b', mountPath: '/tmp/m m', options: { a: 1 } }), /VALIDATION_FAILED/);
    const none = await rpc.mounts.mountS3FSAndVerify({ source: 'b', mountPath: '/tmp/m m/gone', options: { url: 'http://127.0.0.1:1', logfile: '/tmp/s3.log', ro: true } });
    assert.deepEqual([none.success, none.exitCode], [false, 2]);
  },

  async 'backups: parts over HTTP'({ rpc }) {
    const server = String.raw`
      const http = require('http'); const kept = new Map();
      http.createServer((q, r) => {
        if (q.method === 'PUT') { const c = []; q.on('data', (d) => c.push(d)); q.on('end', () => { kept.set(q.url, Buffer.concat(c)); r.setHeader('ETag', '"e"'); r.end(); }); return; }
        const all = kept.get(q.url); if (!all) return r.writeHead(404).end();
        const m = /bytes=(\d+)-(\d+)/.exec(q.headers.range ?? '');
        if (!m) return r.end(all);
        r.writeHead(206).end(all.subarray(+m[1], +m[2] + 1));
      }).listen(8123, '127.0.0.1', () => console.log('up'));`;
    const p = await rpc.processes.start(['node', '-e', server]);
    const log = await rpc.processes.openLogs(p.id, { follow: true });
    await (await log.stream()).getReader().read();
    log[Symbol.dispose]();
    const id = 'plain-backup-1', archivePath = `/var/backups/${id}.sqsh`, url = 'http://127.0.0.1:8123/a?secret=1';
    await run(rpc, 'sh', '-c', 'mkdir -p /tmp/bk/d && head -c 3000000 /dev/urandom > /tmp/bk/d/f');
    const sum = text(await run(rpc, 'sha256sum', '/tmp/bk/d/f'));
    const made = await rpc.backup.createArchive('/tmp/bk', archivePath, { excludes: [], gitignore: false, compression: { format: 'lz4' } });
    await rpc.backup.uploadArchive({ archivePath, url, timeoutMs: 60000 });
    await rejects(rpc.backup.uploadArchive({ archivePath, url: 'file:///tmp/x', timeoutMs: 60000 }), /BACKUP_CREATE_FAILED/);
    await rejects(rpc.backup.uploadParts({ archivePath, parts: [{ partNumber: 1, url: 'http://127.0.0.1:8123/p', offset: 0, size: 1000 }] }), /https/);
    await rpc.backup.cleanupArchive(archivePath);
    await run(rpc, 'rm', '-rf', '/tmp/bk');
    assert.deepEqual(await rpc.backup.prepareRestore({ dir: '/tmp/bk', backupId: id, archivePath }), { existingSize: 0 });
    const half = Math.floor(made.sizeBytes / 2);
    await rpc.backup.downloadArchive({
      archivePath, expectedSize: made.sizeBytes, timeoutMs: 60000,
      parts: [{ url, offset: 0, range: `bytes=0-${half - 1}` }, { url, offset: half, range: `bytes=${half}-${made.sizeBytes - 1}` }],
    });
    assert.deepEqual(await rpc.backup.prepareRestore({ dir: '/tmp/bk', backupId: id, archivePath }), { existingSize: made.sizeBytes });
    await rpc.backup.extractArchive('/tmp/bk', archivePath);
    assert.equal(text(await run(rpc, 'sha256sum', '/tmp/bk/d/f')), sum);
    await rpc.backup.cleanupArchive(archivePath);
    const failed = await rejects(rpc.backup.downloadArchive({ archivePath, expectedSize: 5, timeoutMs: 9000, parts: [{ url: 'http://127.0.0.1:8123/none', offset: 0 }] }), /BACKUP_RESTORE_FAILED.*404/);
    assert.ok(!failed.message.includes('secret'));
    await rejects(rpc.backup.downloadArchive({ archivePath, expectedSize: 5, timeoutMs: 9000, parts: [] }), /VALIDATION_FAILED/);
    await rejects(rpc.backup.cleanupArchive('/etc/passwd'), /VALIDATION_FAILED/);
    await rejects(rpc.backup.cleanupArchive('/var/backups/../x.sqsh'), /VALIDATION_FAILED/);
    await rpc.processes.kill(p.id, 9);
  },

  async 'bad input'({ rpc }) {
    for (const argv of [null, 'ls', {}, [1], [['a']], ['']]) await rejects(rpc.processes.start(argv), /INVALID_COMMAND/);
    for (const timeout of [0, -1, 'x', Number.NaN, Number.POSITIVE_INFINITY]) await rejects(rpc.processes.start(['true'], { timeout }), /INVALID_COMMAND/);
    for (const cwd of ['', 7, '/none', '/etc/passwd']) await rejects(rpc.processes.start(['true'], { cwd }), /INVALID_PROCESS_CWD/);
    await rejects(rpc.processes.start(['true'], { env: ['A'] }), /INVALID_PROCESS_ENVIRONMENT/);
    await rejects(rpc.processes.start(['true', ...Array.from({ length: 60000 }, () => 'x'.repeat(100))]), /PROCESS_SPAWN_FAILED.*long/i);
    for (const id of [undefined, 7, 'none', '']) {
      assert.equal(await rpc.processes.get(id), null);
      await rejects(rpc.processes.openLogs(id), /PROCESS_NOT_FOUND/);
      await rejects(rpc.processes.kill(id, 9), /PROCESS_NOT_FOUND/);
      await rejects(rpc.terminals.output(id), /TERMINAL_NOT_FOUND/);
    }
    const p = await rpc.processes.start(['true']);
    for (const since of ['', 'x', `${p.id}`, `${p.id}:`, `${p.id}:x`, `${p.id}:99`, `${p.id}:-1`, `${p.id}:18446744073709551616`, 5])
      await rejects(rpc.processes.openLogs(p.id, { since }), /INVALID_PROCESS_CURSOR/);
    for (const signal of [0, 65, 'TERM', 1.5, -9]) await rejects(rpc.processes.kill(p.id, signal), /PROCESS_ERROR/);
    for (const port of [0, 70000, 'x', undefined]) await rejects(rpc.ports.openWatch(port), /port/i);
    for (const cwd of ['', 7, '/none', '/etc/passwd', '/tmp\0/none']) await rejects(rpc.terminals.create({ command: ['true'], cwd }), /INVALID_TERMINAL_CWD/);
    const many = Object.fromEntries(Array.from({ length: 8193 }, (_, i) => [`V${i}`, '']));
    await rejects(rpc.terminals.create({ command: ['true'], env: many }), /not too many/);
    const archivePath = '/var/backups/none.sqsh', url = 'http://127.0.0.1:1/';
    const made = `/tmp/${p.id}`; // by a program in a number, if bash gets to see it
    for (const timeoutMs of [`a[$(touch ${made})]`, '1', -1, 1.5, true, null]) {
      await rejects(rpc.backup.uploadArchive({ archivePath, url, timeoutMs }), /VALIDATION_FAILED/);
      await rejects(rpc.backup.downloadArchive({ archivePath, timeoutMs: 1, expectedSize: timeoutMs, parts: [{ url, offset: 0 }] }), /VALIDATION_FAILED/);
    }
    assert.equal((await rpc.files.exists(made)).exists, false);
    for (const part of [{ range: {} }, { range: true }, { range: 'a b' }, { offset: '0 -' }])
      await rejects(rpc.backup.downloadArchive({ archivePath, timeoutMs: 1, expectedSize: 1, parts: [{ url, offset: 0, ...part }] }), /VALIDATION_FAILED/);
    await rejects(rpc.processes.nothing(), /not a function/);
    await rejects(rpc.interpreter.runCode('x', 'y'), /not a function/);
    assert.equal(text(await run(rpc, 'echo', 'still')), 'still\n');
  },

  async 'frames: too many, too deep, too long'({ url, rpc, runtimeIncarnationID }) {
    const activate = ['push', ['pipeline', 0, ['utils', 'activateControlSession'], [runtimeIncarnationID]]];
    // Ids that nobody gave, and releases of them.
    for (const frame of [['release', 7, 1], ['pull', 99], ['push', ['pipeline', 55, ['stream'], []]], ['release', 1, 5]]) {
      const a = await raw(url);
      a.send(...activate);
      a.send(...frame);
      assert.equal((await a.closed).code, 3000, JSON.stringify(frame));
    }
    // Results that are held for ever.
    const b = await raw(url);
    b.send(...activate);
    for (let i = 0; i < 6000; i++) b.send('push', ['pipeline', 0, ['processes', 'list'], []]);
    assert.match((await b.closed).reason, /held|too many/);
    // A chain of calls on results that are no objects.
    const c = await raw(url);
    c.send(...activate);
    c.send('push', ['pipeline', 0, ['processes', 'list'], []]);
    for (let i = 2; i < 1500; i++) c.send('push', ['pipeline', i, ['stream'], []]);
    c.send('pull', 1499);
    await until('the answer', () => c.frames.some((f) => f[0] === 'reject' && f[1] === 1499));
    c.ws.close();
    const d = await raw(url);
    d.ws.send(`["push",${'['.repeat(5000)}${']'.repeat(5000)}]`);
    assert.ok([3000, 1007].includes((await d.closed).code));
    const e = await raw(url);
    e.ws.on('error', () => {});
    e.ws.send(JSON.stringify(['push', ['pipeline', 0, ['processes', 'start'], [[['true', 'x'.repeat(100 << 20)]]]]]), () => {});
    assert.ok([1009, 1006].includes((await e.closed).code));
    assert.equal(text(await run(rpc, 'echo', 'still')), 'still\n');
  },
};

const names = process.argv.slice(2);
if (names[0] === '--list') {
  console.log(JSON.stringify(Object.keys(scenarios)));
} else {
  // Boxes are apart from each other; an agent alone has one table of processes and terminals for all.
  const apart = process.env.RPC_URL.includes('{id}');
  const one = async (name) => {
    const id = `plain-${name.replace(/[^a-z]+/g, '-')}`.slice(0, 40).replace(/-+$/, '');
    const url = process.env.RPC_URL.replace('{id}', id);
    const began = Date.now();
    const result = { ok: true };
    let session;
    try {
      session = await connect(url);
      await scenarios[name]({ url, ...session });
    } catch (error) {
      Object.assign(result, { ok: false, error: `${error.stack ?? error}` });
    }
    session?.connection.disconnect();
    if (apart) await fetch(url.replace(/\/rpc$/, ''), { method: 'DELETE', headers }).catch(() => {});
    console.log(JSON.stringify({ name, ms: Date.now() - began, ...result }));
  };
  const worker = async () => {
    for (let name = names.shift(); name !== undefined; name = names.shift()) await one(name);
  };
  await Promise.all(Array.from({ length: apart ? 4 : 1 }, worker));
  process.exit(0);
}
