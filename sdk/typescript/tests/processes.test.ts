import { ProcessReadyTimeoutError } from 'atoll-sandbox';
import { expect, test } from 'vitest';
import { LogMatcher } from '../src/api/log-matcher.js';
import { box, failure, until } from './support/boxes.js';

test('LogMatcher finds what comes in pieces', () => {
  const found = (pattern: string | RegExp, ...pieces: string[]) => {
    const matcher = new LogMatcher(pattern);
    return pieces.map((piece) => matcher.push(piece)).at(-1);
  };
  expect(found('ready', 'rea', 'dy\nmore')).toEqual({ result: { line: 'ready' }, whole: true });
  expect(found('ready', 'is ready')).toEqual({ result: { line: 'is ready' }, whole: false });
  expect(found(/port (\d+)/g, 'on port 80', '80\n')?.result.match?.[1]).toBe('8080');
  expect(found(/a\nb/, 'x a\n', 'b y\n')?.result.line).toBe('a\nb');
  expect(found('none', 'x'.repeat(500_000), 'y\n')).toBeUndefined();
  const long = new LogMatcher('needle');
  for (let i = 0; i < 50; i++) expect(long.push(`${'x'.repeat(10_000)}\n`)).toBeUndefined();
  expect(long.push('needle\n')?.result.line).toBe('needle');
});

test('waitForLog answers with the whole line, also when it comes in two writes', async () => {
  const sandbox = box();
  const p = await sandbox.startProcess('printf "listening on port 80"; sleep 0.05; echo 80; sleep 600');
  const { line, match } = await p.waitForLog(/port (\d+)/, 60_000);
  // On a busy machine the second write may be later than it is waited for: then the line is what was there.
  expect(line).toMatch(/^listening on port 80(80)?$/);
  expect(match![1]).toBe(line.slice('listening on port '.length));
  const q = await sandbox.startProcess('printf "Password: "; sleep 600');
  expect((await q.waitForLog('Password:', 60_000)).line).toBe('Password: ');
});

test('signals, sessions, cleaning up', async () => {
  const sandbox = box();
  const session = await sandbox.createSession({ id: 'mine' });
  const p = await session.startProcess('trap "echo got; exit 7" USR1; echo up; while :; do sleep 0.05; done');
  const q = await sandbox.startProcess('sleep 600', { processId: 'other' });
  await p.waitForLog('up', 60_000);
  expect(p.sessionId).toBe('mine');
  expect((await sandbox.listProcesses('mine')).map(({ id }) => id)).toEqual([p.id]);
  expect((await session.listProcesses()).map(({ id }) => id).sort()).toEqual([p.id, q.id].sort());
  await sandbox.killProcess(p.id, 'SIGUSR1');
  expect(await p.waitForExit(60_000)).toEqual({ exitCode: 7 });
  expect((await p.getLogs()).stdout).toBe('up\ngot\n');
  expect(await sandbox.cleanupCompletedProcesses()).toBe(1);
  expect(await sandbox.getProcess(p.id)).toBeNull();
  expect((await sandbox.listProcesses()).map(({ id }) => id)).toEqual([q.id]);
  expect((await sandbox.getProcess(q.id))?.startTime.getTime()).toBeGreaterThan(0);
});

test('time limits of waits are errors with all that is known', async () => {
  const sandbox = box();
  const p = await sandbox.startProcess('sleep 600');
  const error = await failure(p.waitForExit(50));
  expect(error).toBeInstanceOf(ProcessReadyTimeoutError);
  expect(error).toMatchObject({
    processId: p.id,
    command: 'sleep 600',
    condition: 'process exit',
    timeout: 50,
    httpStatus: 408,
  });
});

test('outside of sessions: nothing stays, variables of the sandbox are there', async () => {
  const sandbox = box({ enableDefaultSession: false });
  await sandbox.setEnvVars({ A: "it's", B: '2' });
  await sandbox.setEnvVars({ B: undefined });
  expect((await sandbox.exec('cd /tmp; echo "$A[$B]"')).stdout).toBe("it's[]\n");
  const result = await sandbox.exec('pwd; echo $A', { env: { A: 'mine' } });
  expect([result.stdout, result.sessionId]).toEqual(['/workspace\nmine\n', undefined]);
  const p = await sandbox.startProcess('echo $A');
  await p.waitForExit(60_000);
  expect([(await p.getLogs()).stdout, p.sessionId]).toEqual(["it's\n", undefined]);
  expect(await failure(sandbox.setEnvVars({ 'A-B': '1' }))).toMatchObject({ code: 'COMMAND_EXECUTION_ERROR' });
});

test('callbacks of a process', async () => {
  const sandbox = box();
  const seen: string[] = [];
  await sandbox.startProcess('echo out; echo err >&2; exit 2', {
    onStart: (p) => void seen.push(`start ${typeof p.pid}`),
    onOutput: (stream, data) => void seen.push(`${stream} ${data}`),
    onExit: (code) => void seen.push(`exit ${code}`),
  });
  await until('onExit', () => seen.at(-1)?.startsWith('exit') ?? false);
  expect(seen[0]).toBe('start number');
  expect(seen.at(-1)).toBe('exit 2');
  expect(seen.slice(1, -1).sort()).toEqual(['stderr err\n', 'stdout out\n']);
});

test('sleep, wake, stop, and a service that comes back', async () => {
  const sandbox = box();
  await sandbox.exec('echo kept > /workspace/f');
  await sandbox.startProcess('exec sleep 600', { processId: 'web', service: true, keepAlive: true });
  await sandbox.startProcess('exec sleep 600', { processId: 'plain' });
  // On a busy machine a freeze may take longer than it may.
  await until('the freeze', () => sandbox.sleep().then(() => true, () => false)); // biome-ignore format: one thought
  expect((await sandbox.info())?.state).toBe('asleep');
  await sandbox.wake();
  expect((await sandbox.info())?.state).toBe('running');
  expect((await sandbox.listProcesses()).map(({ id }) => id).sort()).toEqual(['plain', 'web']);
  await sandbox.stop();
  expect((await sandbox.info())?.state).toBe('stopped');
  expect((await sandbox.listProcesses()).map(({ id }) => id)).toEqual(['web']);
  expect((await sandbox.readFile('/workspace/f')).content).toBe('kept\n');
});
