import { assert, rejects, run, sh, until } from './util.mjs';

const sum = async (sandbox, dir) => (await sh(sandbox, `cd ${dir} && find . -type f -print0 | sort -z | xargs -0 sha256sum`)).stdout;

export default {
  async 'createBackup, restoreBackup'(t) {
    const { sandbox } = t.box();
    await sh(sandbox, 'mkdir -p p/src p/skip; echo one > p/src/a; ln -s a p/src/l; head -c 300000 /dev/urandom > p/big; echo x > p/skip/x');
    const before = await sum(sandbox, '/workspace/p/src');
    const backup = await sandbox.createBackup({ dir: '/workspace/p', localBucket: true, excludes: ['skip'] });
    assert.match(backup.id, /^[0-9a-f-]{36}$/);
    assert.equal((await run(sandbox, 'ls', '/var/backups')).stdout, '');
    await sh(sandbox, 'rm -rf /workspace/p');
    const done = await sandbox.restoreBackup(backup);
    assert.deepEqual([done.success, done.dir, done.id], [true, '/workspace/p', backup.id]);
    assert.equal(await sum(sandbox, '/workspace/p/src'), before);
    assert.equal((await sandbox.exists('/workspace/p/skip')).exists, false);
    await rejects(sandbox.createBackup({ dir: '/workspace/none', localBucket: true }), /BackupCreateError|no directory/);
    await rejects(sandbox.restoreBackup({ ...backup, id: crypto.randomUUID() }), /BackupNotFoundError|not found/i);
  },

  async 'mountBucket, unmountBucket'(t) {
    const { sandbox } = t.box();
    await t.env.FILES.put('in.txt', 'from the bucket');
    await sandbox.mountBucket('FILES', '/workspace/files', { localBucket: true });
    await until('the file', async () => (await sandbox.exists('/workspace/files/in.txt')).exists);
    assert.equal((await run(sandbox, 'cat', '/workspace/files/in.txt')).stdout, 'from the bucket');
    await sandbox.writeFile('/workspace/files/out.txt', 'from the box');
    await until('the object', async () => (await t.env.FILES.get('out.txt'))?.text().then((x) => x === 'from the box'));
    await sandbox.unmountBucket('/workspace/files');
    await rejects(sandbox.unmountBucket('/workspace/files'), /InvalidMountConfigError|No active mount/);
  },

  async 'cleanupMountDirectory'(t) {
    const { sandbox } = t.box();
    await sandbox.mkdir('/workspace/empty');
    await sandbox.cleanupMountDirectory('/workspace/empty');
    assert.equal((await sandbox.exists('/workspace/empty')).exists, false);
    await sandbox.writeFile('/workspace/full/x', '1').catch(() => sh(sandbox, 'mkdir full; echo 1 > full/x'));
    await sandbox.cleanupMountDirectory('/workspace/full');
    assert.equal((await sandbox.exists('/workspace/full/x')).exists, true);
  },
};
