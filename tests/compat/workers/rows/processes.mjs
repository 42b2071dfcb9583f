import { isProcess, isProcessStatus } from '@cloudflare/sandbox';
import { assert, events, eventsUntil, rejects, serve, text, until } from './util.mjs';

export default {
  async startProcess(t) {
    const { sandbox } = t.box();
    const p = await sandbox.startProcess('echo $A $PWD; sleep 600', { processId: 'mine', env: { A: '1' }, cwd: '/tmp' });
    assert.equal(p.id, 'mine');
    assert.ok(p.pid > 0);
    assert.ok(new Date(p.startTime).getTime() > 0);
    assert.ok(isProcessStatus(p.status));
    assert.equal((await p.waitForLog('1')).line, '1 /tmp');
    assert.match((await sandbox.startProcess('true')).id, /^proc_/);
  },

  async 'startProcess: onStart'(t) {
    const { sandbox } = t.box();
    let started;
    // A Worker's callbacks end with the call that they were given to: onOutput and onExit would come too late.
    const p = await sandbox.startProcess('true', { onStart: (process) => void (started = process.id) });
    assert.equal(await until('onStart', () => started), p.id);
  },

  async listProcesses(t) {
    const { sandbox } = t.box();
    const p = await sandbox.startProcess('sleep 600');
    const all = await sandbox.listProcesses();
    assert.deepEqual(all.map((q) => [q.id, q.status, q.command]), [[p.id, 'running', 'sleep 600']]);
  },

  async getProcess(t) {
    const { sandbox } = t.box();
    const p = await sandbox.startProcess('sleep 600');
    const found = await sandbox.getProcess(p.id);
    assert.equal(found.status, 'running');
    assert.ok(isProcess({ id: found.id, command: found.command, status: found.status }));
    assert.equal(await sandbox.getProcess('none'), null);
  },

  async killProcess(t) {
    const { sandbox } = t.box();
    const p = await sandbox.startProcess('sleep 600 & sleep 601; wait');
    await sandbox.killProcess(p.id);
    assert.equal((await sandbox.getProcess(p.id)).status, 'killed');
    assert.equal((await sandbox.exec('pgrep -xc sleep')).stdout, '0\n');
  },

  async killAllProcesses(t) {
    const { sandbox } = t.box();
    await sandbox.startProcess('sleep 600');
    await sandbox.startProcess('sleep 601');
    assert.equal(await sandbox.killAllProcesses(), 2);
    assert.equal((await sandbox.exec('pgrep -xc sleep')).stdout, '0\n');
  },

  async cleanupCompletedProcesses(t) {
    const { sandbox } = t.box();
    await (await sandbox.startProcess('true')).waitForExit();
    // Upstream's client answers by itself and asks nobody: 0, here as there.
    assert.equal(typeof (await sandbox.cleanupCompletedProcesses()), 'number');
  },

  async getProcessLogs(t) {
    const { sandbox } = t.box();
    const p = await sandbox.startProcess('echo o; echo e >&2');
    await p.waitForExit();
    const logs = await sandbox.getProcessLogs(p.id);
    assert.deepEqual([logs.stdout, logs.stderr, logs.processId], ['o\n', 'e\n', p.id]);
  },

  async streamProcessLogs(t) {
    const { sandbox } = t.box();
    const p = await sandbox.startProcess('echo before; sleep 600');
    const live = await eventsUntil(sandbox.streamProcessLogs(p.id), (e) => e.type === 'stdout');
    assert.equal(text(live, 'stdout'), 'before\n');
    const q = await sandbox.startProcess('echo one; echo two >&2; (exit 7)');
    const all = await events(sandbox.streamProcessLogs(q.id));
    assert.deepEqual([text(all, 'stdout'), text(all, 'stderr')], ['one\n', 'two\n']);
    assert.deepEqual([all.at(-1).type, all.at(-1).exitCode], ['exit', 7]);
  },

  async 'process.kill'(t) {
    const { sandbox } = t.box();
    const p = await sandbox.startProcess('sleep 600');
    await p.kill();
    assert.equal(await p.getStatus(), 'killed');
  },

  async 'process.getStatus'(t) {
    const { sandbox } = t.box();
    const p = await sandbox.startProcess('(exit 2)');
    await p.waitForExit();
    assert.equal(await p.getStatus(), 'failed');
  },

  async 'process.getLogs'(t) {
    const { sandbox } = t.box();
    const p = await sandbox.startProcess('echo o; echo e >&2');
    await p.waitForExit();
    const logs = await p.getLogs();
    assert.deepEqual([logs.stdout, logs.stderr], ['o\n', 'e\n']);
  },

  async 'process.waitForLog'(t) {
    const { sandbox } = t.box();
    const p = await sandbox.startProcess('echo starting; echo "ready on port 8080"; sleep 600');
    assert.equal((await p.waitForLog('starting')).line, 'starting');
    const found = await p.waitForLog(/port (\d+)/, 60000);
    assert.equal(found.line, 'ready on port 8080');
    assert.equal(found.match[1], '8080');
    await rejects(p.waitForLog('never', 300), /ProcessReadyTimeoutError/);
    const q = await sandbox.startProcess('echo no');
    await rejects(q.waitForLog('yes', 60000), /ProcessExitedBeforeReadyError/);
  },

  async 'process.waitForPort'(t) {
    const { sandbox } = t.box();
    const p = await serve(sandbox, 8080);
    await p.waitForPort(8080, { mode: 'tcp' });
    await p.waitForPort(8080, { path: '/teapot', status: 418 });
    await rejects(p.waitForPort(8081, { mode: 'tcp', timeout: 300 }), /ProcessReadyTimeoutError/);
    const q = await sandbox.startProcess('true');
    await rejects(q.waitForPort(8081, { timeout: 60000 }), /ProcessExitedBeforeReadyError/);
  },

  async 'process.waitForExit'(t) {
    const { sandbox } = t.box();
    assert.deepEqual(await (await sandbox.startProcess('(exit 9)')).waitForExit(60000), { exitCode: 9 });
    await rejects((await sandbox.startProcess('sleep 600')).waitForExit(300), /ProcessReadyTimeoutError/);
  },
};
