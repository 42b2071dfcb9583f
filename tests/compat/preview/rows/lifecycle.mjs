import { assert, rejects, run, serve, until } from './util.mjs';

export default {
  async 'start, startAndWaitForPorts'(t) {
    const { id, sandbox } = t.box();
    await sandbox.start();
    assert.equal((await t.inspect(id)).state, 'running');
    await serve(sandbox, 8080);
    await sandbox.startAndWaitForPorts([8080]);
    await rejects(sandbox.startAndWaitForPorts({ ports: 8081, cancellationOptions: { portReadyTimeoutMS: 200 } }), /./);
  },

  async stop(t) {
    const { id, sandbox } = t.box();
    const p = await sandbox.exec(['sleep', '600']);
    await sandbox.writeFile('/workspace/kept', 'yes');
    await sandbox.stop();
    await until('its end', async () => (await t.inspect(id))?.state === 'stopped' && /stopped/.test((await sandbox.getState()).status));
    await rejects(p.status(), /StaleProcessHandleError|previous runtime/);
    assert.equal(await sandbox.getProcess(p.id), null);
    assert.equal((await run(sandbox, 'cat', '/workspace/kept')).stdout, 'yes');
    await rejects(p.kill(), /StaleProcessHandleError|previous runtime/);
    assert.deepEqual((await sandbox.listProcesses()).map((q) => q.command[0]), ['cat']);
  },

  async destroy(t) {
    const { id, sandbox } = t.box();
    const p = await sandbox.exec(['sleep', '600']);
    const logs = (await p.logs({ follow: true })).getReader().read();
    const failed = rejects(logs, /./);
    const terminal = await sandbox.createTerminal({ command: ['sh'] });
    await sandbox.destroy();
    await failed;
    assert.equal(await t.inspect(id), null);
    await rejects(p.status(), /StaleProcessHandleError|previous runtime/);
    await rejects(terminal.getSnapshot(), /StaleTerminalHandleError|previous runtime/);
  },

  async 'an object that was evicted'(t) {
    const { id, sandbox } = t.box();
    const p = await sandbox.exec(['sh', '-c', 'echo here; sleep 600']);
    await sandbox.evict().catch(() => {});
    const again = t.again(id);
    const found = await until('the process', () => again.getProcess(p.id).catch(() => null));
    assert.deepEqual([found.pid, (await found.waitForLog('here')).match], [p.pid, 'here']);
  },

  async 'setKeepAlive, setSleepAfter, setContainerTimeouts, setEnvVars'(t) {
    const { id, sandbox } = t.box({ keepAlive: true, sleepAfter: '5m', containerTimeouts: { waitIntervalMS: 200 } });
    await sandbox.setEnvVars({ X: '1' });
    assert.equal((await run(sandbox, 'sh', '-c', 'echo $X')).stdout, '1\n');
    await sandbox.setSleepAfter('3m');
    await sandbox.setContainerTimeouts({ portReadyTimeoutMS: 20000 });
    await sandbox.expired(); // kept alive
    assert.equal((await t.inspect(id)).state, 'running');
    await sandbox.setKeepAlive(false);
    const p = await sandbox.exec(['sleep', '600']);
    await sandbox.expired(); // something runs
    assert.equal((await t.inspect(id)).state, 'running');
    await p.kill(9);
    await p.waitForExit();
    await sandbox.expired();
    await until('its end', async () => (await t.inspect(id)).state === 'stopped');
  },
};
