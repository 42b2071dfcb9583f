// exec, streams, sessions, environment, background processes: through the unmodified client.
import { assert, events, eventsUntil, rejects, text } from './client.mjs';

const S = 'sandbox-default';

export async function exec_returns_the_whole_result(box) {
  const r = await box.commands.execute('echo out; echo err >&2; exit_code() { return 3; }; exit_code', S);
  assert.equal(r.success, false);
  assert.equal(r.exitCode, 3);
  assert.equal(r.stdout, 'out\n');
  assert.equal(r.stderr, 'err\n');
  assert.match(r.command, /exit_code/);
  assert.match(r.timestamp, /^\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d\.\d{3}Z$/);
  assert.equal(r.sessionId, S);
  assert.ok(r.duration >= 0);
}

export async function exec_options_apply_to_that_command_only(box) {
  const r = await box.commands.execute('echo $A-$PWD', S, { env: { A: 'x y' }, cwd: '/tmp' });
  assert.equal(r.stdout, 'x y-/tmp\n');
  assert.equal((await box.commands.execute('echo "[$A]$PWD"', S)).stdout, '[]/workspace\n');
}

export async function exec_timeout_kills_and_the_session_lives(box) {
  await box.commands.execute('cd /tmp; export KEPT=1', S);
  const error = await rejects(
    box.commands.execute('sleep 60 & sleep 61', S, { timeoutMs: 300 }), 'COMMAND_EXECUTION_ERROR', 500);
  assert.match(error.message, /timeout/i);
  const r = await box.commands.execute('echo $KEPT $PWD; pgrep -x sleep | wc -l', S);
  assert.equal(r.stdout, '1 /tmp\n0\n');
}

export async function exec_without_a_session_leaves_no_state(box) {
  const none = '__DISABLE_SESSION__';
  assert.equal((await box.commands.execute('cd /tmp && export A=1 && pwd', none)).stdout, '/tmp\n');
  assert.equal((await box.commands.execute('echo "[$A]" $PWD', none)).stdout, '[] /workspace\n');
  const late = await box.commands.execute('sleep 60', none, { timeoutMs: 300 });
  assert.equal(late.exitCode, 124);
  assert.match(late.stderr, /timed out after 300ms/);
  await rejects(box.commands.execute('', none), 'INVALID_COMMAND', 400);
}

export async function exec_missing_cwd_and_bad_env_are_told(box) {
  const r = await box.commands.execute('true', S, { cwd: '/nope' });
  assert.equal(r.exitCode, 1);
  assert.match(r.stderr, /Failed to change directory to '\/nope'/);
  const error = await rejects(box.commands.execute('true', S, { env: { 'A-B': '1' } }), 'COMMAND_EXECUTION_ERROR', 500);
  assert.match(error.message, /Invalid environment variable name: A-B/);
}

export async function session_state_persists(box) {
  await box.commands.execute('cd /tmp; export A=1; b=2; f() { echo fun; }; shopt -s extglob; set -o pipefail', S);
  const r = await box.commands.execute('echo $A $b $PWD; f; shopt -q extglob && echo ext; set -o | grep pipefail', S);
  assert.match(r.stdout, /^1 2 \/tmp\nfun\next\npipefail\s+on\n$/);
}

export async function session_survives_syntax_errors(box) {
  await box.commands.execute('x=kept', S);
  for (const bad of ['if', 'echo "open', 'for (', "echo 'open"]) {
    const r = await box.commands.execute(bad, S);
    assert.equal(r.exitCode, 2, bad);
    assert.notEqual(r.stderr, '');
  }
  assert.equal((await box.commands.execute('echo $x', S)).stdout, 'kept\n');
}

export async function session_exit_ends_it_and_the_next_is_fresh(box) {
  await box.commands.execute('x=1', S);
  const error = await rejects(box.commands.execute('exit 3', S), 'SESSION_TERMINATED', 410);
  assert.equal(error.context.exitCode, 3);
  assert.equal((await box.commands.execute('echo "[$x]"', S)).stdout, '[]\n');
}

export async function session_that_died_is_told_before_anything_runs(box) {
  const pid = (await box.commands.execute('cd /tmp; x=1; echo $$', S)).stdout.trim();
  await box.commands.execute(`kill -9 ${pid}; while [ -d /proc/${pid} ]; do :; done`, '__DISABLE_SESSION__');
  const error = await rejects(box.commands.execute('touch elsewhere', S), 'SESSION_TERMINATED', 410);
  assert.equal(error.name, 'SessionTerminatedError');
  assert.deepEqual([error.context.sessionId, error.context.exitCode], [S, 137]);
  assert.equal((await box.commands.execute('echo "[$x]"; ls elsewhere 2>&1 | grep -c "No such"', S)).stdout, '[]\n1\n');
}

export async function session_hard_cases_do_not_wedge(box) {
  const run = (c, o) => box.commands.execute(c, S, o);
  assert.equal((await run('cat')).stdout, '');
  assert.equal((await run('printf nonewline')).stdout, 'nonewline');
  assert.equal((await run('sleep 300 & echo started')).stdout, 'started\n');
  assert.equal((await run('(sleep 300; echo late) & echo held')).stdout, 'held\n');
  assert.equal((await run('setsid sleep 300 >/dev/null 2>&1 & echo daemon')).stdout, 'daemon\n');
  assert.equal((await run('cat <<X\nhere $((1+1))\nX')).stdout, 'here 2\n');
  assert.equal((await run('set -e; false; echo not reached').catch((e) => e)).stdout ?? '', '');
  assert.equal((await run('printf "a\\0b"')).stdout.length, 3);
  const big = await run("head -c 5000000 /dev/zero | tr '\\0' x");
  assert.equal(big.stdout.length, 5000000);
  assert.equal((await run('echo alive')).stdout, 'alive\n');
}

export async function session_create_list_delete(box) {
  const made = await box.utils.createSession({ id: 's1', env: { A: '1' }, cwd: '/tmp' });
  assert.equal(made.success, true);
  assert.equal((await box.commands.execute('echo $A $PWD', 's1')).stdout, '1 /tmp\n');
  await rejects(box.utils.createSession({ id: 's1' }), 'SESSION_ALREADY_EXISTS', 409);
  const list = await (await box.raw('GET', '/api/session/list')).json();
  assert.ok(list.data.includes('s1'));
  const gone = await box.utils.deleteSession('s1');
  assert.equal(gone.sessionId, 's1');
  const unknown = await rejects(box.utils.deleteSession('nope'), 'INTERNAL_ERROR', 500);
  assert.match(unknown.message, /Session 'nope' not found/);
}

export async function sessions_run_in_parallel_and_each_in_order(box) {
  // One /ws takes 64 requests at once.
  const many = Array.from({ length: box.over === 'websocket' ? 3 : 16 }, (_, i) => `p${i}`);
  await Promise.all(many.map(async (s) => {
    const runs = Array.from({ length: 20 }, (_, i) => box.commands.execute(`n=$((n+1)); echo $n ${i}`, s));
    const out = (await Promise.all(runs)).map((r) => Number(r.stdout.split(' ')[0]));
    assert.deepEqual([...out].sort((a, b) => a - b), Array.from({ length: 20 }, (_, i) => i + 1));
  }));
}

export async function session_command_timeout_is_a_default(box) {
  await box.utils.createSession({ id: 'slow', commandTimeoutMs: 300 });
  await rejects(box.commands.execute('sleep 60', 'slow'), 'COMMAND_EXECUTION_ERROR', 500);
  assert.equal((await box.commands.execute('echo ok', 'slow', { timeoutMs: 20000 })).stdout, 'ok\n');
}

export async function stream_has_start_output_complete(box) {
  const all = await events(box.commands.executeStream('echo a; echo b >&2; echo c; exit 7', S));
  assert.equal(all[0].type, 'start');
  assert.equal(all[0].command, 'echo a; echo b >&2; echo c; exit 7');
  assert.equal(text(all, 'stdout'), 'a\nc\n');
  assert.equal(text(all, 'stderr'), 'b\n');
  const last = all.at(-1);
  assert.equal(last.type, 'complete');
  assert.equal(last.exitCode, 7);
  for (const e of all) assert.ok(!Number.isNaN(Date.parse(e.timestamp)));
}

export async function stream_of_a_missing_cwd_or_dying_shell_ends(box) {
  const missing = await events(box.commands.executeStream('true', S, { cwd: '/nope' }));
  assert.ok(['complete', 'error'].includes(missing.at(-1).type));
  if (missing.at(-1).type === 'complete') assert.notEqual(missing.at(-1).exitCode, 0);
  const killed = await events(box.commands.executeStream('kill -9 $BASHPID', S));
  assert.equal(killed.at(-1).exitCode, 137);
  const exec = await events(box.commands.executeStream('exec echo replaced', S));
  assert.equal(text(exec, 'stdout'), 'replaced\n');
  assert.equal(exec.at(-1).exitCode, 0);
}

export async function stream_is_live_and_big(box) {
  const stream = box.commands.executeStream('echo first; sleep 300', S);
  const seen = await eventsUntil(stream, (e) => e.type === 'stdout');
  assert.equal(text(seen, 'stdout'), 'first\n');
  const big = await events(box.commands.executeStream('seq 1 400000', S));
  const want = Array.from({ length: 400000 }, (_, i) => i + 1).join('\n') + '\n';
  assert.equal(text(big, 'stdout'), want);
  assert.equal(big.at(-1).exitCode, 0);
}

export async function stream_does_not_leak_state_into_the_session(box) {
  await events(box.commands.executeStream('cd /tmp; export LEAK=1', S));
  assert.equal((await box.commands.execute('echo "$PWD[$LEAK]"', S)).stdout, '/workspace[]\n');
}

export async function process_life(box) {
  const p = await box.processes.startProcess('echo hello; echo oops >&2; sleep 0.2; exit 5', S, { processId: 'mine' });
  assert.equal(p.processId, 'mine');
  assert.ok(p.pid > 0);
  const live = await box.processes.getProcess('mine');
  assert.equal(live.process.command, 'echo hello; echo oops >&2; sleep 0.2; exit 5');
  const log = await events(box.processes.streamProcessLogs('mine'));
  assert.equal(log[0].type, 'process_info');
  assert.equal(text(log, 'stdout'), 'hello\n');
  assert.equal(text(log, 'stderr'), 'oops\n');
  assert.equal(log.at(-1).type, 'exit');
  assert.equal(log.at(-1).exitCode, 5);
  const done = await box.processes.getProcess('mine');
  assert.equal(done.process.status, 'failed');
  assert.equal(done.process.exitCode, 5);
  assert.ok(done.process.endTime);
  const logs = await box.processes.getProcessLogs('mine');
  assert.equal(logs.stdout, 'hello\n');
  assert.equal(logs.stderr, 'oops\n');
  await rejects(box.processes.killProcess('mine'), 'COMMAND_NOT_FOUND', 404);
}

export async function process_kill_takes_the_tree(box) {
  await box.processes.startProcess('sleep 301 & (sleep 302 & wait) & wait', S, { processId: 'tree' });
  await eventsUntilRunning(box, 'sleep 302');
  const r = await box.processes.killProcess('tree');
  assert.equal(r.processId, 'tree');
  const after = await box.commands.execute("pgrep -f 'sleep 30[12]' | wc -l", '__DISABLE_SESSION__');
  assert.match(after.stdout, /^[01]\n$/); // pgrep -f may see its own shell
  assert.equal((await box.processes.getProcess('tree')).process.status, 'killed');
}

async function eventsUntilRunning(box, what) {
  const r = await box.commands.execute(`until pgrep -fx '${what}' >/dev/null; do :; done`, 'waiter', { timeoutMs: 20000 });
  assert.equal(r.exitCode, 0);
}

export async function process_list_kill_all_and_unknown(box) {
  await box.processes.startProcess('sleep 300', S, { processId: 'a' });
  await box.processes.startProcess('sleep 300', S);
  const list = await box.processes.listProcesses();
  assert.equal(list.processes.length, 2);
  assert.ok(list.processes.some((p) => /^proc_\d+_[a-z0-9]{6}$/.test(p.id)));
  assert.ok(list.processes.every((p) => p.status === 'running' && p.pid > 0 && p.startTime));
  const all = await box.processes.killAllProcesses();
  assert.equal(all.cleanedCount, 2);
  await rejects(box.processes.getProcess('nope'), 'PROCESS_NOT_FOUND', 404);
  await rejects(box.processes.getProcessLogs('nope'), 'PROCESS_NOT_FOUND', 404);
}

export async function process_that_ends_by_exit_or_exec_completes(box) {
  for (const [command, code] of [['exit 4', 4], ['exec sh -c "exit 6"', 6], ['set -e; false; true', 1], ['kill -9 $BASHPID', 137]]) {
    const p = await box.processes.startProcess(command, S);
    const log = await events(box.processes.streamProcessLogs(p.processId));
    assert.equal(log.at(-1).exitCode, code, command);
  }
}

export async function port_watch_sees_a_server_come_and_a_process_end(box) {
  const server = 'sleep 0.2; exec /usr/bin/python3 -m http.server 8123 --bind 127.0.0.1';
  const p = await box.processes.startProcess(server, S);
  for (const mode of ['http', 'tcp']) {
    const watch = { port: 8123, mode, path: '/', statusMin: 200, statusMax: 399, processId: p.processId, interval: 100 };
    const seen = await events(box.ports.watchPort(watch));
    assert.equal(seen[0].type, 'watching');
    assert.equal(seen.at(-1).type, 'ready', JSON.stringify(seen));
    if (mode === 'http') assert.equal(seen.at(-1).statusCode, 200);
  }
  const dying = await box.processes.startProcess('sleep 0.1; exit 9', S);
  const seen = await events(
    box.ports.watchPort({ port: 8124, mode: 'tcp', processId: dying.processId, interval: 100 }));
  assert.equal(seen.at(-1).type, 'process_exited');
  assert.equal(seen.at(-1).exitCode, 9);
}

export async function port_watch_finds_a_server_that_was_told_localhost(box) {
  // In a box, as on most machines, that name is ::1 first.
  const server = "require('http').createServer((q, r) => r.end('hi')).listen(8125, 'localhost')";
  const p = await box.processes.startProcess(`exec node -e "${server}"`, S);
  for (const mode of ['http', 'tcp']) {
    const seen = await events(box.ports.watchPort({ port: 8125, mode, processId: p.processId, interval: 100 }));
    assert.equal(seen.at(-1).type, 'ready', JSON.stringify(seen));
  }
  const unknown = await events(box.ports.watchPort({ port: 8126, mode: 'tcp', processId: 'nobody' }));
  assert.equal(unknown.at(-1).type, 'error');
}

export async function process_that_waits_for_its_session_can_be_killed(box) {
  await box.commands.execute('cd /', S);
  const busy = box.commands.execute('until [ -e /tmp/go ]; do sleep 0.02; done', S);
  const started = assert.rejects(box.processes.startProcess('sleep 300', S, { processId: 'late' }));
  for (;;) {
    const found = (await box.processes.listProcesses()).processes.find((p) => p.id === 'late');
    if (found?.status === 'starting') break;
  }
  await box.processes.killProcess('late');
  await started;
  assert.equal((await box.processes.getProcess('late')).process.status, 'killed');
  await box.commands.execute('touch /tmp/go', 'other');
  assert.equal((await busy).exitCode, 0);
}

export async function ping_and_version(box) {
  const ping = await (await box.raw('GET', '/api/ping')).json();
  assert.equal(ping.success, true);
  assert.equal(ping.status, 'healthy');
  assert.equal(await box.utils.getVersion(), '0.12.10');
  const unknown = await box.raw('GET', '/api/nothing');
  assert.equal(unknown.status, 404);
  assert.equal((await unknown.json()).httpStatus, 404);
}
