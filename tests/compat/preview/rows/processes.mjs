import { assert, gather, rejects, run, serve, sh, text, until } from './util.mjs';

export default {
  async exec(t) {
    const { sandbox } = t.box();
    const p = await sandbox.exec(['sh', '-c', 'echo out; echo err >&2; exit 3']);
    assert.ok(p.id.length > 0 && p.pid > 0);
    const done = await p.output({ encoding: 'utf8' });
    assert.deepEqual([done.stdout, done.stderr, done.exitCode, done.timedOut, done.truncated], ['out\n', 'err\n', 3, false, false]);
    assert.equal(done.signal, undefined);
    assert.equal(await p.exitCode, 3);
  },

  async 'exec: exactly its words'(t) {
    const { sandbox } = t.box();
    const words = ['$HOME', '*', '; false', 'a  b', '', "'", 'é\n'];
    const done = await run(sandbox, 'printf', '[%s]', ...words);
    assert.equal(done.stdout, words.map((w) => `[${w}]`).join(''));
    assert.equal((await run(sandbox, 'cat')).stdout, ''); // stdin is empty
  },

  async 'exec: cwd, env'(t) {
    const { sandbox } = t.box();
    await sandbox.setEnvVars({ A: 'sandbox', B: 'both', GONE: 'x' });
    await sandbox.setEnvVars({ GONE: undefined });
    const p = await sandbox.exec(['sh', '-c', 'echo $PWD $A $B $C [$GONE]'], { cwd: '/tmp', env: { B: 'call', C: 'c' } });
    assert.equal((await p.output({ encoding: 'utf8' })).stdout, '/tmp sandbox call c []\n');
    assert.equal((await run(sandbox, 'pwd')).stdout, '/workspace\n');
    await rejects(sandbox.exec(['true'], { cwd: '/none' }), /INVALID_PROCESS_CWD|InvalidProcessCwdError|directory/);
    await rejects(sandbox.exec(['true'], { env: { 'A=B': 'x' } }), /InvalidProcessEnvironmentError|variable/);
    await rejects(sandbox.exec(['true'], { env: { A: 1 } }), /InvalidProcessEnvironmentError|variable/);
  },

  async 'exec: errors'(t) {
    const { sandbox } = t.box();
    await rejects(sandbox.exec([]), /non-empty argv/);
    await rejects(sandbox.exec(['']), /non-empty executable/);
    await rejects(sandbox.exec('ls'), /array of strings/);
    await rejects(sandbox.exec(['no-such-program']), /No such file/);
    await rejects(sandbox.exec(['/etc/passwd']), /Permission denied/);
    await rejects(sandbox.exec(['true'], { timeout: 0 }), /timeout/);
    await rejects(sandbox.exec(['true', 'a\0b']), /NUL/);
    assert.deepEqual(await sandbox.listProcesses(), []);
  },

  async 'exec: timeout'(t) {
    const { sandbox } = t.box();
    const p = await sandbox.exec(['sh', '-c', 'sleep 600 & sleep 601; wait'], { timeout: 300 });
    const exit = await p.waitForExit();
    assert.deepEqual([exit.timedOut, exit.signal, exit.code], [true, 15, 143]);
    assert.equal((await p.output()).timedOut, true);
    assert.equal((await sh(sandbox, 'pgrep -xc sleep')).stdout, '0\n');
  },

  async 'exec: a group that outlives its program'(t) {
    const { sandbox } = t.box();
    const p = await sandbox.exec(['sh', '-c', '(while [ ! -e /tmp/go ]; do sleep 0.05; done; echo late) & echo early; exit 4']);
    await p.waitForLog('early');
    assert.equal((await p.status()).state, 'running');
    await sandbox.writeFile('/tmp/go', '');
    const done = await p.output({ encoding: 'utf8' });
    assert.deepEqual([done.stdout, done.exitCode], ['early\nlate\n', 4]);
  },

  async 'process.status'(t) {
    const { sandbox } = t.box();
    const p = await sandbox.exec(['sleep', '600'], { cwd: '/tmp' });
    const running = await p.status();
    assert.deepEqual([running.id, running.pid, running.command, running.cwd, running.state], [p.id, p.pid, ['sleep', '600'], '/tmp', 'running']);
    assert.ok(new Date(running.startedAt).getTime() > 0);
    await p.kill(9);
    await p.waitForExit();
    const over = await p.status();
    assert.deepEqual([over.state, over.exit], ['exited', { code: 137, signal: 9, timedOut: false }]);
    assert.ok(over.endedAt >= over.startedAt);
  },

  async 'process.kill'(t) {
    const { sandbox } = t.box();
    const p = await sandbox.exec(['sleep', '600']);
    await p.kill();
    assert.deepEqual(await p.waitForExit(), { code: 143, signal: 15, timedOut: false });
    await p.kill(); // it is over: nothing happens
    // A program that handles the signal decides by itself, and is not killed later.
    const q = await sandbox.exec(['bash', '-c', 'trap "echo got; exit 5" USR1; trap "" TERM; echo ready; while :; do sleep 0.05; done']);
    await q.waitForLog('ready');
    await q.kill(15);
    assert.equal((await q.status()).state, 'running');
    await q.kill(10);
    assert.deepEqual(await q.waitForExit(), { code: 5, timedOut: false });
    const r = await sandbox.exec(['sh', '-c', 'sleep 600 & sleep 601; wait']);
    await r.kill(9);
    assert.equal((await r.waitForExit()).signal, 9);
    assert.equal((await sh(sandbox, 'pgrep -xc sleep')).stdout, '0\n');
    const s = await sandbox.exec(['sleep', '600']);
    await rejects(s.kill(0), /signal/);
    await rejects(s.kill(65), /signal/);
  },

  async 'process.logs'(t) {
    const { sandbox } = t.box();
    const p = await sandbox.exec(['sh', '-c', 'echo one; echo two >&2; while [ ! -e /tmp/go ]; do sleep 0.05; done; echo three; exit 6']);
    await p.waitForLog('two');
    const now = await gather(p.logs()); // what is there, without waiting
    assert.deepEqual([text(now, 'stdout'), text(now, 'stderr'), now.length], ['one\n', 'two\n', 2]);
    assert.ok(now.every((e) => typeof e.cursor === 'string' && new Date(e.timestamp).getTime() > 0));
    assert.deepEqual(await gather(p.logs({ replay: false })), []);
    const live = gather(p.logs({ replay: false, follow: true }));
    const after = gather(p.logs({ since: now[0].cursor, follow: true }));
    const some = await gather(p.logs({ follow: true }), (_, all) => all.length === 2); // cancelled
    assert.deepEqual(text(some, 'stdout'), 'one\n');
    await sandbox.writeFile('/tmp/go', '');
    assert.deepEqual([text(await live, 'stdout'), (await live).at(-1).type], ['three\n', 'terminal']);
    const rest = await after;
    assert.deepEqual([text(rest, 'stderr'), text(rest, 'stdout')], ['two\n', 'three\n']);
    const end = rest.at(-1);
    assert.deepEqual([end.type, end.state, end.exit], ['terminal', 'exited', { code: 6, timedOut: false }]);
    assert.deepEqual(await gather(p.logs({ since: end.cursor, follow: true })), []);
    assert.equal((await gather(p.logs({ since: rest.at(-2).cursor }))).length, 1);
    await rejects(gather(p.logs({ since: 'none' })), /InvalidProcessCursorError|cursor/);
    await rejects(gather(p.logs({ since: '' })), /InvalidProcessCursorError|cursor/);
    const q = await sandbox.exec(['true']);
    await rejects(gather(q.logs({ since: now[0].cursor })), /InvalidProcessCursorError|another log/);
  },

  async 'process.logs: bytes as they are'(t) {
    const { sandbox } = t.box();
    const p = await sandbox.exec(['node', '-e', 'process.stdout.write(Buffer.from(Array.from({ length: 256 }, (_, i) => i)))']);
    const done = await p.output();
    assert.deepEqual([...done.stdout], Array.from({ length: 256 }, (_, i) => i));
  },

  async 'process.logs: many at once, a slow one'(t) {
    const { sandbox } = t.box();
    const slow = await sandbox.exec(['sh', '-c', 'head -c 12000000 /dev/zero | tr "\\0" x']);
    const reader = (await slow.logs({ follow: true })).getReader();
    await reader.read(); // and nothing more for now
    const all = await Promise.all(Array.from({ length: 20 }, (_, i) => run(sandbox, 'sh', '-c', `echo ${i}; exit ${i}`)));
    assert.deepEqual(all.map((o) => [o.stdout, o.exitCode]), Array.from({ length: 20 }, (_, i) => [`${i}\n`, i]));
    await slow.waitForExit();
    await reader.cancel();
  },

  async 'process.output'(t) {
    const { sandbox } = t.box();
    const p = await sandbox.exec(['sh', '-c', 'printf 1234567890; printf abc >&2']);
    const whole = await p.output();
    assert.ok(whole.stdout instanceof Uint8Array);
    assert.equal((await p.output({ encoding: 'utf8' })).stdout, '1234567890'); // again
    const cut = await p.output({ encoding: 'utf8', maxBytes: 4 });
    assert.deepEqual([(cut.stdout + cut.stderr).length, cut.truncated], [4, true]);
    const q = await sandbox.exec(['sleep', '600']);
    await rejects(q.output({ timeout: 200 }), /ProcessWaitTimeoutError|did not complete/);
    await rejects(q.output({ signal: AbortSignal.abort() }), /ProcessAbortedError|aborted/);
    assert.equal((await q.status()).state, 'running');
  },

  async 'process.waitForLog'(t) {
    const { sandbox } = t.box();
    const p = await sandbox.exec(['sh', '-c', 'echo starting; echo "ready on port 8080" >&2; sleep 600']);
    assert.deepEqual(Object.keys(await p.waitForLog('starting')).sort(), ['cursor', 'match', 'stream', 'text']);
    const found = await p.waitForLog(/port \d+/);
    assert.deepEqual([found.match, found.stream], ['port 8080', 'stderr']);
    assert.deepEqual((await gather(p.logs({ since: found.cursor }))).length, 0);
    await rejects(p.waitForLog('never', { timeout: 200 }), /ProcessWaitTimeoutError|did not complete/);
    await rejects(p.waitForLog('ready', { stream: 'stdout', timeout: 200 }), /did not complete/);
    const q = await sandbox.exec(['echo', 'no']);
    await rejects(q.waitForLog('yes'), /ProcessExitedBeforeLogError|exited before/);
  },

  async 'process.waitForPort'(t) {
    const { sandbox } = t.box();
    const p = await serve(sandbox, 8080);
    await p.waitForPort(8080, { mode: 'http' });
    await p.waitForPort(8080, { mode: 'http', path: '/teapot', status: 418 });
    await p.waitForPort(8080, { mode: 'http', path: '/teapot', status: { min: 400, max: 499 }, interval: 100 });
    await rejects(p.waitForPort(8080, { mode: 'http', path: '/teapot', timeout: 300 }), /ProcessReadyTimeoutError|did not become ready/);
    await rejects(p.waitForPort(8081, { timeout: 300 }), /did not become ready/);
    const q = await sandbox.exec(['sh', '-c', 'exit 9']);
    await rejects(q.waitForPort(8081), /ProcessExitedBeforeReadyError|exited with code 9/);
    await rejects(p.waitForPort(0), /port/i);
  },

  async 'process.waitForExit, process.exitCode'(t) {
    const { sandbox } = t.box();
    assert.deepEqual(await (await sandbox.exec(['sh', '-c', 'exit 9'])).waitForExit(), { code: 9, timedOut: false });
    const p = await sandbox.exec(['sleep', '600']);
    await rejects(p.waitForExit({ timeout: 200 }), /ProcessWaitTimeoutError|did not complete/);
    const gone = new AbortController();
    const waits = p.waitForExit({ signal: gone.signal });
    gone.abort();
    await rejects(waits, /ProcessAbortedError|aborted/);
    const code = p.exitCode;
    await p.kill(9);
    assert.equal(await code, 137);
  },

  async getProcess(t) {
    const { id, sandbox } = t.box();
    assert.equal(await sandbox.getProcess('none'), null); // nothing runs, and nothing is started
    assert.equal(await t.inspect(id), null);
    const p = await sandbox.exec(['sh', '-c', 'echo kept; sleep 600']);
    const found = await sandbox.getProcess(p.id);
    assert.deepEqual([found.id, found.pid], [p.id, p.pid]);
    assert.equal((await found.waitForLog('kept')).match, 'kept');
    assert.equal(await sandbox.getProcess('none'), null);
  },

  async listProcesses(t) {
    const { sandbox } = t.box();
    assert.deepEqual(await sandbox.listProcesses(), []);
    const p = await sandbox.exec(['sleep', '600']);
    const q = await sandbox.exec(['true']);
    await q.waitForExit();
    const all = await sandbox.listProcesses();
    assert.deepEqual(all.map((s) => [s.id, s.state]), [[p.id, 'running'], [q.id, 'exited']]);
    assert.deepEqual(all[0].command, ['sleep', '600']);
  },

  async 'a process beside one of 0.12'(t) {
    const { id, sandbox } = t.box();
    const p = await sandbox.exec(['sleep', '600']);
    const response = await t.atoll('POST', `${id}/api/process/start`, { command: 'sleep 601' });
    const other = await response.json();
    const listed = await (await t.atoll('GET', `${id}/api/process/list`)).json();
    assert.deepEqual(listed.processes.map((q) => q.id).sort(), [p.id, other.processId].sort());
    assert.deepEqual((await sandbox.listProcesses()).map((q) => q.id), [p.id]);
    assert.equal(await sandbox.getProcess(other.processId), null);
    await t.atoll('DELETE', `${id}/api/process/${p.id}`);
    assert.equal((await until('its end', async () => (await p.status()).exit)).signal, 15);
  },
};
