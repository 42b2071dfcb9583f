import { assert, rejects, until } from './util.mjs';

/**
 * The first call after a box has ended. The class learns of the end while it connects, and over rpc that call is then
 * rejected with an error which says that it may be tried again: upstream's own way.
 */
async function afterEnd(t, call) {
  try {
    return await call();
  } catch (error) {
    if (t.env.SANDBOX_TRANSPORT !== 'rpc') throw error;
    assert.match(`${error.message}`, /OperationInterruptedError: The sandbox container stopped/);
    return call();
  }
}

const stopped = (t, id) => until('the box to stop', async () => (await t.inspect(id))?.state === 'stopped');

export default {
  async getSandbox(t) {
    const { id, sandbox } = t.box();
    assert.equal((await sandbox.exec('hostname')).exitCode, 0);
    assert.equal((await t.inspect(id)).state, 'running');
    assert.equal((await t.again(id).exec('echo same > /tmp/f; cat /tmp/f')).stdout, 'same\n');
    const mixed = `W-Upper-${crypto.randomUUID()}`; // rows run side by side in several runtimes
    t.opened.push(mixed.toLowerCase());
    await t.again(mixed, { normalizeId: true }).exec('true');
    assert.equal((await t.inspect(mixed.toLowerCase())).state, 'running');
  },

  async destroy(t) {
    const { id, sandbox } = t.box();
    await sandbox.writeFile('/workspace/f', '1');
    await sandbox.destroy();
    assert.equal(await t.inspect(id), null);
    // The next use makes a new one.
    assert.equal((await afterEnd(t, () => sandbox.exists('/workspace/f'))).exists, false);
    await sandbox.destroy();
    await sandbox.destroy();
  },

  async stop(t) {
    const { id, sandbox } = t.box();
    await sandbox.exec('cd /tmp; echo 1 > /workspace/f');
    await sandbox.startProcess('sleep 600');
    await sandbox.stop();
    await stopped(t, id);
    await until('the object to know', async () => /^stopped/.test((await sandbox.getState()).status));
    // Processes and sessions are gone as in a container; files stay, which upstream's do not.
    const { stdout } = await afterEnd(t, () => sandbox.exec('pwd; pgrep -xc sleep; cat /workspace/f'));
    assert.equal(stdout, '/workspace\n0\n1\n');
  },

  async 'start, startAndWaitForPorts, getState'(t) {
    const { id, sandbox } = t.box();
    await sandbox.start();
    assert.equal((await t.inspect(id)).state, 'running');
    await sandbox.startAndWaitForPorts(3000);
    assert.equal((await sandbox.getState()).status, 'healthy');
  },

  async 'start: envVars, entrypoint, labels'(t) {
    const { id, sandbox } = t.box();
    const entrypoint = ['sh', '-c', 'echo "$0 $GIVEN"; sleep 600', "it's"];
    await sandbox.start({ envVars: { GIVEN: 'here' }, entrypoint, labels: { a: 'b' }, enableInternet: false });
    const process = await sandbox.getProcess('entrypoint');
    assert.equal((await process.waitForLog('here')).line, "it's here");
    assert.deepEqual((await t.inspect(id)).labels, { a: 'b' });
  },

  async sleepAfter(t) {
    const { id, sandbox } = t.box({ sleepAfter: 3 });
    await sandbox.writeFile('/workspace/f', '1');
    await stopped(t, id);
    assert.equal((await afterEnd(t, () => sandbox.readFile('/workspace/f'))).content, '1');
    await t.again(id, { sleepAfter: '10m' }).exec('true');
  },

  async keepAlive(t) {
    const awake = t.box({ sleepAfter: 3, keepAlive: true });
    const p = await awake.sandbox.startProcess('sleep 600');
    const other = t.box({ sleepAfter: 3 });
    await other.sandbox.exec('true');
    await stopped(t, other.id); // which shows that the time was over for both
    assert.equal((await awake.sandbox.getProcess(p.id)).status, 'running');
  },

  async 'setSleepAfter, setKeepAlive'(t) {
    const { id, sandbox } = t.box({ keepAlive: true });
    await sandbox.exec('true');
    await sandbox.setSleepAfter(1);
    await sandbox.setKeepAlive(false);
    await stopped(t, id);
  },

  async 'labels, setLabels'(t) {
    const { id, sandbox } = t.box({ labels: { tenant: 'acme' } });
    await sandbox.exec('true');
    assert.deepEqual((await t.inspect(id)).labels, { tenant: 'acme' });
    for (const labels of [{ tenant: 'other' }, {}]) {
      await sandbox.setLabels(labels);
      await sandbox.stop();
      await stopped(t, id);
      await until('the object to know', async () => /^stopped/.test((await sandbox.getState()).status));
      await afterEnd(t, () => sandbox.exec('true'));
      assert.deepEqual((await t.inspect(id)).labels, labels);
    }
  },

  async 'an existing box keeps its settings'(t) {
    const { id, sandbox } = t.box();
    await t.put(id, { env: { MADE: 'before' }, labels: { by: 'hand' }, limits: { pids: 99 } });
    assert.equal((await sandbox.exec('echo $MADE')).stdout, 'before\n');
    const { labels, limits } = await t.inspect(id);
    assert.deepEqual([labels, limits.pids], [{ by: 'hand' }, 99]);
  },

  async 'containerTimeouts, setContainerTimeouts'(t) {
    const { sandbox } = t.box({ containerTimeouts: { instanceGetTimeoutMS: 20000, portReadyTimeoutMS: 20000, waitIntervalMS: 100 } });
    await sandbox.exec('true');
    await rejects(sandbox.setContainerTimeouts({ waitIntervalMS: 1 }), /between 100-5000ms/);
  },

  async "transport: 'websocket', setTransport"(t) {
    const { sandbox } = t.box({ transport: 'websocket' });
    assert.equal((await sandbox.exec('echo $((6*7))')).stdout, '42\n');
    const content = 'ä'.repeat(1_000_000);
    await sandbox.writeFile('/workspace/f', content);
    assert.equal((await sandbox.readFile('/workspace/f')).content, content);
    await sandbox.setTransport('http');
    assert.equal((await sandbox.exec('echo http')).stdout, 'http\n');
  },

  async getContainerPlacementId(t) {
    const { sandbox } = t.box();
    assert.equal(await sandbox.getContainerPlacementId(), undefined);
    await sandbox.exec('true');
    assert.equal(await sandbox.getContainerPlacementId(), null);
  },

  async 'renewActivityTimeout, schedule'(t) {
    const { id, sandbox } = t.box();
    await sandbox.exec('true');
    await sandbox.renewActivityTimeout();
    await sandbox.schedule(0, 'destroy');
    await until('the alarm to run it', async () => (await t.inspect(id)) === null);
  },

  async 'a class of your own'(t) {
    const { sandbox } = t.box({}, t.env.Custom);
    assert.equal((await sandbox.exec('echo $FROM_CLASS')).stdout, 'yes\n');
  },

  async 'an evicted object finds its box again'(t) {
    const { id, sandbox } = t.box({}, t.env.Custom);
    await sandbox.exec('cd /tmp; export KEPT=1');
    const p = await sandbox.startProcess('sleep 600');
    await sandbox.evict().catch(() => {});
    const again = t.again(id, {}, t.env.Custom);
    assert.equal((await again.exec('echo $KEPT $PWD')).stdout, '1 /tmp\n');
    assert.equal((await again.getProcess(p.id)).status, 'running');
    await again.evict().catch(() => {});
    await t.destroyBehindItsBack(id); // while nobody watches
    const last = t.again(id, {}, t.env.Custom);
    const { stdout } = await afterEnd(t, () => last.exec('echo "[$KEPT]" $PWD $FROM_CLASS'));
    assert.equal(stdout, '[] /workspace yes\n');
  },

  async 'the end of a box is reported'(t) {
    const { id, sandbox } = t.box();
    await sandbox.exec('cd /tmp');
    await t.destroyBehindItsBack(id);
    await until('the object to know', async () => /^stopped/.test((await sandbox.getState()).status));
    assert.equal((await afterEnd(t, () => sandbox.exec('pwd'))).stdout, '/workspace\n');
  },

  async 'a failed destroy is reported'(t) {
    const refused = t.box({}, t.env.Refused);
    await rejects(refused.sandbox.destroy(), /is still there: Atoll answered 401 UNAUTHORIZED/);
    const nowhere = t.box({}, t.env.Nowhere);
    await rejects(nowhere.sandbox.destroy(), /may still be there: Atoll cannot be reached at http:\/\/127\.0\.0\.1:1/);
  },

  async 'a wrong token is reported at once'(t) {
    const { sandbox } = t.box({}, t.env.Refused);
    await rejects(sandbox.exec('true'), t.env.SANDBOX_TRANSPORT === 'rpc' ? /failed to start: .*UNAUTHORIZED/ : /permanent error/);
  },
};
