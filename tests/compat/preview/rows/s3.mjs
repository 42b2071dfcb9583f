// Rows that need an S3 server outside of the box, for the Worker and the box alike (test_preview_storage.py). It refuses what is not signed rightly.
import { keys, s3Tools, wrong } from '../../s3rows.mjs';
import { assert, rejects, run, sh as script } from './util.mjs';

const { sh, trusting, files, sum, keysIn } = s3Tools(script);

async function backedUp(t, megabytes) {
  const { sandbox } = await trusting(t, t.env.Remote);
  await files(sandbox, megabytes);
  const before = await sum(sandbox, '/workspace/a b');
  const backup = await sandbox.createBackup({ dir: '/workspace/a b', name: 'with a blank', ttl: 600 });
  assert.equal(await sh(sandbox, 'ls /var/backups'), '');
  await sh(sandbox, "rm -r '/workspace/a b'");
  return { sandbox, before, backup };
}

export default {
  async 'createBackup, restoreBackup: presigned URL'(t) {
    const { sandbox, before, backup } = await backedUp(t, 2);
    await sandbox.restoreBackup(backup);
    assert.equal(await sum(sandbox, '/workspace/a b'), before);
    // A fresh box, as after the loss of the first one.
    const other = (await trusting(t, t.env.Remote)).sandbox;
    await other.restoreBackup(backup);
    assert.equal(await sum(other, '/workspace/a b'), before);
    await rejects(sandbox.restoreBackup({ ...backup, id: crypto.randomUUID() }), /BackupNotFoundError|not found/i);
  },

  async 'createBackup, restoreBackup: parts'(t) {
    const { sandbox, before, backup } = await backedUp(t, 26);
    await sandbox.restoreBackup(backup);
    assert.equal(await sum(sandbox, '/workspace/a b'), before);
  },

  async 'mountBucket: endpoint with TLS'(t) {
    const { sandbox } = await trusting(t);
    const options = { endpoint: t.env.BACKUP_BUCKET_ENDPOINT, credentials: keys(t) };
    await sandbox.mountBucket('data', '/mnt/a b', { ...options, s3fsOptions: ['connect_timeout=20'] });
    await sh(sandbox, "mkdir -p '/mnt/a b/d e' && head -c 12M /dev/urandom | tee '/mnt/a b/d e/tls big' | sha256sum >/tmp/sum && sha256sum <'/mnt/a b/d e/tls big' | cmp - /tmp/sum");
    await sandbox.unmountBucket('/mnt/a b');
    await rejects(sandbox.mountBucket('data', '/mnt/x', { ...options, credentials: wrong }), /invalid credentials|403/);
    await rejects(sandbox.mountBucket('none-such', '/mnt/x', options), /not found|404/);
    // Keys of the Worker's environment.
    await sandbox.mountBucket('data', '/mnt/env', { endpoint: options.endpoint, readOnly: true });
    assert.match(await sh(sandbox, 'ls /mnt/env'), /d e/);
    assert.notEqual((await run(sandbox, 'touch', '/mnt/env/no')).exitCode, 0);
    await sandbox.unmountBucket('/mnt/env');
    assert.equal(await sh(sandbox, 'ls -d /mnt/x 2>/dev/null; grep -c s3fs /proc/self/mounts || true; ls -A /tmp | grep -c passwd || true'), '0\n0\n');
  },

  async 'mountBucket: credentialProxy'(t) {
    const { sandbox } = t.box();
    const options = { endpoint: t.env.BACKUP_BUCKET_ENDPOINT, credentials: keys(t), credentialProxy: true };
    await sandbox.mountBucket('data', '/mnt/proxied', options);
    await sh(sandbox, "mkdir -p '/mnt/proxied/proxied dir' && head -c 12M /dev/urandom | tee '/mnt/proxied/proxied dir/big' | sha256sum >/tmp/sum && sha256sum <'/mnt/proxied/proxied dir/big' | cmp - /tmp/sum");
    // No key is in the box.
    assert.equal(await keysIn(t, sandbox), '0\n');
    await sandbox.unmountBucket('/mnt/proxied');
    assert.equal(await sh(sandbox, 'grep -c s3fs /proc/self/mounts || true'), '0\n');
  },

  async 'mountBucket: R2 binding'(t) {
    const { sandbox } = t.box();
    await t.env.FILES.put('seed/from outside.txt', 'outside');
    await sandbox.mountBucket('FILES', '/mnt/r2', {});
    assert.equal(await sh(sandbox, "cat '/mnt/r2/seed/from outside.txt'"), 'outside');
    await sh(sandbox, "echo inside >'/mnt/r2/seed/from inside.txt'");
    assert.equal(await (await t.env.FILES.get('seed/from inside.txt')).text(), 'inside\n');
    await sandbox.unmountBucket('/mnt/r2');
    assert.equal(await sh(sandbox, 'grep -c s3fs /proc/self/mounts || true'), '0\n');
  },
};
