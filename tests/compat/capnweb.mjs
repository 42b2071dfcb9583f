// The npm package capnweb against our library (build/…/capnweb-peer), in both roles.
//
//   node capnweb.mjs PEER roles             what the library must do as the called and as the calling side
//   node capnweb.mjs PEER oracle SEED N     N random sessions: both implementations must answer the same
import assert from 'node:assert/strict';
import { spawn } from 'node:child_process';
import { createInterface } from 'node:readline';
import { RpcSession, RpcTarget } from 'capnweb';

const [, , peer, mode, seed, times] = process.argv;

/** A transport over the lines of a process. */
function transportTo(child) {
  const lines = [];
  let waiting;
  createInterface({ input: child.stdout }).on('line', (line) => (waiting ? waiting(line) : lines.push(line)));
  return {
    send: async (text) => void child.stdin.write(`${text}\n`),
    receive: () => (lines.length ? Promise.resolve(lines.shift()) : new Promise((resolve) => (waiting = (l) => { waiting = undefined; resolve(l); }))),
    abort() {},
  };
}

class Main extends RpcTarget {
  square(n) { return n * n; }
  refuse() { throw new Error('refused'); }
  nested(x) { return { got: [x, null, undefined, new Date(5)] }; }
}

async function roles() {
  const child = spawn(peer);
  let said = '';
  child.stderr.on('data', (data) => (said += data));
  const session = new RpcSession(transportTo(child), new Main());
  const api = session.getRemoteMain();
  const values = [1, -1.5, 'x', '', 'grüße "\\ \u0000', true, null, undefined, [], [[]], [1, [2, [3]]], {}, { a: [{ b: [] }] }, NaN, Infinity,
    -Infinity, 10n ** 30n, new Date(1234), new Uint8Array([1, 2, 255]), new Uint8Array(0), 'y'.repeat(100000)];
  for (const value of values) assert.deepEqual(plain(await api.echo(value)), plain(value));
  const error = await api.echo(Object.assign(new TypeError('t'), { code: 'X', list: [1] }));
  assert.ok(error instanceof TypeError && error.code === 'X' && error.list[0] === 1);
  await assert.rejects(Promise.resolve(api.fail()), (e) => e instanceof RangeError && e.code === 'FAILED' && e.details.n[1] === 2);
  // Pipelines: a result as argument, a property, a call on an object that is not there yet, a chain.
  assert.equal(await api.add(api.add(1, 2), api.add(3, 4)), 10);
  assert.deepEqual(await api.echo({ a: { b: [5, 6] } }).a.b, [5, 6]);
  const made = api.counter(5);
  assert.equal(await made.increment(2), 7);
  made[Symbol.dispose]();
  let chain = api.add(0, 1);
  for (let i = 0; i < 200; i++) chain = api.add(chain, 1);
  assert.equal(await chain, 201);
  assert.deepEqual(await api.echo([1, 2, 3]).map((n) => ({ n, twice: api.add(n, n) })), [1, 2, 3].map((n) => ({ n, twice: 2 * n })));
  assert.equal(await api.echo(null).map((n) => n.x), null);
  // Objects live until they are disposed.
  const counter = await api.counter(1);
  assert.equal(await counter.increment(1), 2);
  const copy = counter.dup();
  counter[Symbol.dispose]();
  assert.equal(await copy.value(), 2);
  copy[Symbol.dispose]();
  while ((said.match(/dropped/g) ?? []).length < 2) await new Promise((resolve) => child.stderr.once('data', resolve));
  // Streams.
  const reader = (await api.numbers(1000)).getReader();
  let n = 0;
  for (;;) {
    const { done, value } = await reader.read();
    if (done) break;
    n += value.length;
  }
  assert.equal(n, 1000);
  await (await api.numbers(1e6)).cancel();
  const parts = Array.from({ length: 100 }, (_, i) => new Uint8Array(i * 100));
  const bytes = parts.reduce((sum, part) => sum + part.length, 0);
  assert.equal(await api.count(new ReadableStream({ pull: (c) => (parts.length ? c.enqueue(parts.pop()) : c.close()) })), bytes);
  await assert.rejects(Promise.resolve(api.count(new ReadableStream({ pull: (c) => c.error(new Error('lost')) }))));
  // The other role: our library calls.
  const seen = [];
  assert.equal(await api.twice((x) => (seen.push(x), seen.length), 'a'), 2);
  assert.deepEqual(seen, ['a', 'a']);
  assert.equal(await api.ask('square', 12), 144);
  assert.deepEqual(await api.ask('nested', [1]), { got: [[1], null, undefined, new Date(5)] });
  await assert.rejects(Promise.resolve(api.ask('refuse')), /the peer refused/);
  await assert.rejects(Promise.resolve(api.ask('nothing')), /the peer refused/);
  // What we gave it has been released. (Promises that were never awaited stay among the imports.)
  const idle = () => session.getStats().exports === 1;
  for (let i = 0; i < 50 && !idle(); i++) await api.echo(0);
  assert.ok(idle(), JSON.stringify(session.getStats()));
  child.kill();
}

const plain = (value) => (value instanceof Uint8Array ? [...value] : value);

// ---- oracle ----

class Oracle extends RpcTarget {
  echo(x) { return x; }
  add(a, b) { return (Number.isInteger(a) ? a : 0) + (Number.isInteger(b) ? b : 0); }
  fail() { throw new RangeError('as you wish'); }
}

function random(state) {
  return (n) => {
    state = (Math.imul(state, 1664525) + 1013904223) >>> 0;
    return Math.floor((state / 2 ** 32) * n);
  };
}

/** Frames of one session: mostly right, about ids that exist or not. */
function generate(r) {
  const id = (pushed) => (r(12) ? r(pushed + 1) : r(40) - 20);
  const value = (pushed, depth = 0) => {
    const kinds = [1, r(100), 'text', true, null, ['undefined'], ['nan'], ['inf'], ['bigint', '12'], ['date', r(9)], ['bytes', 'YWI']];
    const k = r(16);
    if (k < 8 || depth > 3) return kinds[r(kinds.length)];
    if (k < 10) return [Array.from({ length: r(4) }, () => value(pushed, depth + 1))];
    if (k < 12) return Object.fromEntries(Array.from({ length: r(3) }, () => ['abc'[r(3)], value(pushed, depth + 1)]));
    if (k < 13) return ['error', 'TypeError', 'm', null, { code: value(pushed, depth + 1) }];
    if (k < 15 && pushed) return ['pipeline', 1 + r(pushed), Array.from({ length: r(3) }, () => ['a', 'b', 0, 1][r(4)])];
    return r(20) ? 7 : [['huh'], ['bytes', 1], ['date', 'x'], [1, 2], ['pipeline', 99]][r(5)];
  };
  const frames = [];
  let pushed = 0;
  for (let i = 0, n = 3 + r(10); i < n; i++) {
    const k = r(20);
    if (k < 9) {
      const method = ['echo', 'echo', 'echo', 'add', 'fail', 'none'][r(6)];
      frames.push(['push', ['pipeline', 0, [method], Array.from({ length: r(3) }, () => value(pushed))]]);
      pushed++;
    } else if (k < 11) {
      frames.push(['push', value(pushed++)]);
    } else if (k < 12 && pushed) {
      frames.push(['push', ['remap', 1 + r(pushed), [], [], [{ n: ['pipeline', 0] }]]]);
      pushed++;
    } else if (k < 18 && pushed) {
      frames.push(['pull', r(30) ? 1 + r(pushed) : id(pushed) || 1]);
    } else if (k < 19 && pushed) {
      // Whether an answer that was pulled leaves before its release is a matter of turns.
      const which = r(30) ? 1 + r(pushed) : id(pushed) || 1;
      if (!frames.some((f) => f[0] === 'pull' && f[1] === which)) frames.push(['release', which, 1]);
    } else if (!r(10)) {
      frames.push([['nope'], ['push'], 7, {}, ['release', 1]][r(5)]);
    }
  }
  return frames;
}

/** What a peer can see: the answers by id, and whether the session was aborted. An answer may hold promises, whose values follow. */
function outcome(frames) {
  const values = new Map();
  for (const [kind, id, value] of frames) if (kind === 'resolve' || kind === 'reject') values.set(id, { kind, value });
  const REJECTED = {};
  const whole = (value) => {
    if (Array.isArray(value) && value[0] === 'promise' && values.has(value[1])) {
      const { kind, value: inner } = values.get(value[1]);
      if (kind === 'reject') throw REJECTED;
      return whole(inner);
    }
    if (Array.isArray(value)) return value.map(whole);
    return value && typeof value === 'object' ? Object.fromEntries(Object.entries(value).map(([k, v]) => [k, whole(v)])) : value;
  };
  const seen = { aborted: frames.some(([kind]) => kind === 'abort') };
  for (const [id, { kind, value }] of values) {
    if (id < 0) continue;
    seen[id] = 'reject';
    try {
      if (kind === 'resolve') seen[id] = JSON.stringify(whole(value));
    } catch (error) {
      if (error !== REJECTED) throw error;
    }
  }
  return seen;
}

async function theirs(frames) {
  const sent = [];
  const queue = frames.map((f) => JSON.stringify(f));
  const transport = {
    send: async (text) => void sent.push(JSON.parse(text)),
    receive: () => (queue.length ? Promise.resolve(queue.shift()) : new Promise(() => {})),
    abort() {},
  };
  new RpcSession(transport, new Oracle());
  for (let i = 0; i < 6; i++) await new Promise((resolve) => setImmediate(resolve));
  return outcome(sent);
}

function ours(frames) {
  return new Promise((resolve, reject) => {
    const child = spawn(peer);
    let out = '';
    child.stdout.on('data', (data) => (out += data));
    child.stdin.on('error', () => {});
    child.on('close', (code, signal) =>
      code === 0 ? resolve(outcome(out.split('\n').filter(Boolean).map((l) => JSON.parse(l)))) : reject(new Error(`ended with ${code ?? signal}`)));
    child.stdin.end(frames.map((f) => `${JSON.stringify(f)}\n`).join(''));
  });
}

async function oracle() {
  const r = random(Number(seed));
  for (let i = 0; i < Number(times); i++) {
    const frames = generate(r);
    const [a, b] = await Promise.all([theirs(frames), ours(frames)]);
    // Who aborts stops answering; how much was answered before is a matter of turns.
    if (a.aborted || b.aborted) assert.equal(a.aborted, b.aborted, `${i}: ${JSON.stringify(frames)}\n${JSON.stringify(a)}\n${JSON.stringify(b)}`);
    else assert.deepEqual(b, a, `${i}: ${JSON.stringify(frames)}\nnpm ${JSON.stringify(a)}\nwe ${JSON.stringify(b)}`);
  }
}

process.on('unhandledRejection', () => {});
await (mode === 'roles' ? roles() : oracle()).then(() => process.exit(0), (error) => {
  console.error(error);
  process.exit(1);
});
