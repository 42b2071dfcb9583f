import { asyncIterableToSSEStream, isExecResult, parseSSEStream, responseToAsyncIterable } from '@cloudflare/sandbox';
import { assert, events, eventsUntil, text, until } from './util.mjs';

export default {
  async exec(t) {
    const { sandbox } = t.box();
    const r = await sandbox.exec('echo out; echo err >&2; (exit 3)');
    assert.deepEqual([r.success, r.exitCode, r.stdout, r.stderr], [false, 3, 'out\n', 'err\n']);
    assert.equal(r.command, 'echo out; echo err >&2; (exit 3)');
    assert.match(r.timestamp, /^\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d\.\d{3}Z$/);
    assert.ok(r.duration >= 0);
    assert.ok(isExecResult(r));
    await sandbox.exec('cd /tmp; export KEPT=1');
    assert.equal((await sandbox.exec('echo $KEPT $PWD')).stdout, '1 /tmp\n');
  },

  async 'exec: cwd, env, timeout'(t) {
    const { sandbox } = t.box();
    assert.equal((await sandbox.exec('echo $A $PWD', { env: { A: 'x y' }, cwd: '/tmp' })).stdout, 'x y /tmp\n');
    assert.equal((await sandbox.exec('echo "[$A]" $PWD')).stdout, '[] /workspace\n');
    await assert.rejects(sandbox.exec('sleep 60', { timeout: 300 }), /timeout/i);
    assert.equal((await sandbox.exec('pgrep -c sleep')).stdout, '0\n');
  },

  async 'exec: stream, onOutput, onComplete'(t) {
    const { sandbox } = t.box();
    const seen = [];
    let completed;
    const r = await sandbox.exec('echo a; echo b >&2; echo c', {
      stream: true,
      onOutput: (stream, data) => void seen.push([stream, data]),
      onComplete: (result) => void (completed = result.exitCode),
    });
    assert.equal(r.stdout, 'a\nc\n');
    assert.equal(await until('onComplete', () => completed !== undefined && String(completed)), '0');
    const of = (stream) => seen.filter((s) => s[0] === stream).map((s) => s[1]).join('');
    assert.deepEqual([of('stdout'), of('stderr')], ['a\nc\n', 'b\n']);
  },

  async 'exec: enableDefaultSession false'(t) {
    const { sandbox } = t.box({ enableDefaultSession: false });
    assert.equal((await sandbox.exec('cd /tmp && export A=1 && pwd')).stdout, '/tmp\n');
    assert.equal((await sandbox.exec('echo "[$A]" $PWD')).stdout, '[] /workspace\n');
    const late = await sandbox.exec('sleep 60', { timeout: 300 });
    assert.equal(late.exitCode, 124);
  },

  async execStream(t) {
    const { sandbox } = t.box();
    const all = await events(sandbox.execStream('echo one; echo two >&2; (exit 4)'));
    assert.equal(all[0].type, 'start');
    assert.deepEqual([text(all, 'stdout'), text(all, 'stderr')], ['one\n', 'two\n']);
    assert.deepEqual([all.at(-1).type, all.at(-1).exitCode], ['complete', 4]);
    // Output comes while the command runs, and who goes away ends it.
    const ticks = sandbox.execStream("sh -c 'while echo tick; do sleep 0.2; done'");
    const some = await eventsUntil(ticks, (e) => e.type === 'stdout');
    assert.equal(some.at(-1).data, 'tick\n');
    // workerd stops to read a stream of JavaScript that it passed on, and does not cancel it: over rpc nobody is told.
    if (t.env.SANDBOX_TRANSPORT === 'rpc') return;
    await until('the command to end with its reader', async () => (await sandbox.exec('pgrep -fc "[w]hile echo tick"')).stdout === '0\n');
  },

  async parseSSEStream(t) {
    const { sandbox } = t.box();
    const kinds = [];
    for await (const event of parseSSEStream(await sandbox.execStream('echo x'))) kinds.push(event.type);
    assert.deepEqual(kinds, ['start', 'stdout', 'complete']);
  },

  async 'asyncIterableToSSEStream, responseToAsyncIterable'(t) {
    const { sandbox } = t.box();
    const again = asyncIterableToSSEStream(parseSSEStream(await sandbox.execStream('echo x')));
    const kinds = [];
    for await (const event of responseToAsyncIterable(new Response(again))) kinds.push(event.type);
    assert.deepEqual(kinds, ['start', 'stdout', 'complete']);
  },

  async setEnvVars(t) {
    const { sandbox } = t.box();
    await sandbox.setEnvVars({ BEFORE: 'seeded' });
    assert.equal((await sandbox.exec('echo $BEFORE')).stdout, 'seeded\n');
    await sandbox.setEnvVars({ AFTER: "it's", BEFORE: undefined });
    assert.equal((await sandbox.exec('echo "$AFTER[$BEFORE]"')).stdout, "it's[]\n");
    const session = await sandbox.createSession({ id: 'other' });
    assert.equal((await session.exec('echo "$AFTER"')).stdout, "it's\n");
  },
};
