import { collectFile } from '@cloudflare/sandbox';
import { assert, events, eventsUntil, rejects, text } from './util.mjs';

/** A session of a sandbox of its own, in a directory of its own. */
async function open(t) {
  const { sandbox } = t.box();
  await sandbox.mkdir('/workspace/mine', { recursive: true });
  return sandbox.createSession({ id: 'mine', cwd: '/workspace/mine', env: { WHO: 'me' } });
}

export default {
  async createSession(t) {
    const { sandbox } = t.box();
    const a = await sandbox.createSession({ id: 'a', env: { WHO: 'a' }, cwd: '/tmp' });
    const b = await sandbox.createSession({ id: 'b', env: { WHO: 'b' } });
    assert.equal(a.id, 'a');
    await a.exec('cd /; X=1');
    assert.equal((await a.exec('echo $WHO $X $PWD')).stdout, 'a 1 /\n');
    assert.equal((await b.exec('echo $WHO "[$X]" $PWD')).stdout, 'b [] /workspace\n');
    await rejects(sandbox.createSession({ id: 'a' }), /SessionAlreadyExistsError/);
    assert.match((await sandbox.createSession()).id, /^session-/);
  },

  async getSession(t) {
    const { sandbox } = t.box();
    await (await sandbox.createSession({ id: 'kept' })).exec('cd /tmp');
    assert.equal((await (await sandbox.getSession('kept')).exec('pwd')).stdout, '/tmp\n');
  },

  async deleteSession(t) {
    const { sandbox } = t.box();
    const s = await sandbox.createSession({ id: 'gone' });
    await s.exec('X=1');
    const r = await sandbox.deleteSession('gone');
    assert.deepEqual([r.success, r.sessionId], [true, 'gone']);
    assert.equal((await s.exec('echo "[$X]"')).stdout, '[]\n');
    await rejects(sandbox.deleteSession('never'), /never/);
  },

  async 'session.exec'(t) {
    const s = await open(t);
    assert.equal((await s.exec('echo $WHO $PWD')).stdout, 'me /workspace/mine\n');
  },

  async 'session.execStream'(t) {
    const s = await open(t);
    const all = await events(s.execStream('echo $WHO $PWD'));
    assert.equal(text(all, 'stdout'), 'me /workspace/mine\n');
  },

  async 'session.startProcess, getProcess, listProcesses'(t) {
    const s = await open(t);
    const p = await s.startProcess('echo $WHO $PWD; sleep 600');
    assert.equal((await p.waitForLog('me')).line, 'me /workspace/mine');
    assert.equal((await s.getProcess(p.id)).status, 'running');
    assert.deepEqual((await s.listProcesses()).map((q) => q.id), [p.id]);
  },

  async 'session.killProcess, killAllProcesses, cleanupCompletedProcesses'(t) {
    const s = await open(t);
    const [p] = [await s.startProcess('sleep 600'), await s.startProcess('sleep 601')];
    await s.killProcess(p.id);
    assert.equal((await s.getProcess(p.id)).status, 'killed');
    assert.equal(await s.killAllProcesses(), 1);
    assert.equal(typeof (await s.cleanupCompletedProcesses()), 'number');
  },

  async 'session.getProcessLogs, streamProcessLogs'(t) {
    const s = await open(t);
    const p = await s.startProcess('echo $WHO; echo e >&2');
    await p.waitForExit();
    const logs = await s.getProcessLogs(p.id);
    assert.deepEqual([logs.stdout, logs.stderr], ['me\n', 'e\n']);
    assert.equal(text(await events(s.streamProcessLogs(p.id)), 'stdout'), 'me\n');
  },

  async 'session.writeFile, readFile, readFileStream'(t) {
    const s = await open(t);
    await s.writeFile('rel.txt', 'content');
    assert.equal((await s.readFile('/workspace/mine/rel.txt')).content, 'content');
    assert.equal((await collectFile(await s.readFileStream('rel.txt'))).content, 'content');
  },

  async 'session.mkdir, renameFile, moveFile, deleteFile, exists, listFiles'(t) {
    const s = await open(t);
    await s.mkdir('d/e', { recursive: true });
    await s.writeFile('d/a', '');
    await s.renameFile('d/a', 'd/b');
    await s.moveFile('d/b', 'd/e/c');
    const names = (await s.listFiles('d', { recursive: true })).files.map((f) => f.relativePath).sort();
    assert.deepEqual(names, ['e', 'e/c']);
    await s.deleteFile('d/e/c');
    assert.equal((await s.exists('d/e/c')).exists, false);
  },

  async 'session.watch, checkChanges'(t) {
    const s = await open(t);
    const first = await s.checkChanges('/workspace/mine');
    const stream = await s.watch('/workspace/mine');
    await s.writeFile('seen', '');
    const all = await eventsUntil(stream, (e) => e.type === 'event');
    assert.equal(all.at(-1).path, '/workspace/mine/seen');
    assert.equal((await s.checkChanges('/workspace/mine', { since: first.version })).status, 'changed');
  },

  async 'session.setEnvVars'(t) {
    const s = await open(t);
    await s.setEnvVars({ LATER: 'yes', WHO: undefined });
    assert.equal((await s.exec('echo "$LATER[$WHO]"')).stdout, 'yes[]\n');
  },
};
