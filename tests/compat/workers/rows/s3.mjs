// Rows that need an S3 server outside of the box, for the Worker and the box alike (test_worker_storage.py). It refuses what is not signed rightly.
import { keys, s3Tools, wrong } from '../../s3rows.mjs';
import { assert, rejects } from './util.mjs';

const { sh, trusting, files, sum, keysIn } = s3Tools((sandbox, command) => sandbox.exec(command));

async function backedUp(t, megabytes, options) {
  const { sandbox } = await trusting(t, t.env.Remote);
  await files(sandbox, megabytes);
  const before = await sum(sandbox, '/workspace/a b');
  const backup = await sandbox.createBackup({ dir: '/workspace/a b', name: 'with a blank', ttl: 600, ...options });
  assert.deepEqual(Object.keys(backup).sort(), ['dir', 'id']);
  assert.equal(await sh(sandbox, 'ls /var/backups'), '');
  await sh(sandbox, "rm -r '/workspace/a b'");
  return { sandbox, before, backup };
}

export default {
  async 'createBackup, restoreBackup: presigned URL'(t) {
    const { sandbox, before, backup } = await backedUp(t, 2);
    assert.deepEqual(await sandbox.restoreBackup(backup), { success: true, dir: '/workspace/a b', id: backup.id });
    assert.equal(await sum(sandbox, '/workspace/a b'), before);
    // The archive lies below, what is written now above it: a second restore has the files of the backup again.
    await sh(sandbox, "cd '/workspace/a b' && echo two >src/new && rm link");
    await sandbox.restoreBackup(backup);
    assert.equal(await sum(sandbox, '/workspace/a b'), before);
    // A directory that holds other files is covered.
    await sh(sandbox, 'mkdir -p /workspace/elsewhere; touch /workspace/elsewhere/stale');
    await sandbox.restoreBackup({ ...backup, dir: '/workspace/elsewhere' });
    assert.equal(await sum(sandbox, '/workspace/elsewhere'), before);
    // A fresh box, as after the loss of the first one.
    const other = (await trusting(t, t.env.Remote)).sandbox;
    await other.restoreBackup(backup);
    assert.equal(await sum(other, '/workspace/a b'), before);
  },

  async 'createBackup, restoreBackup: parts'(t) {
    const { sandbox, before, backup } = await backedUp(t, 26, { compression: { format: 'zstd', threads: 2 } });
    await sandbox.restoreBackup(backup);
    assert.equal(await sum(sandbox, '/workspace/a b'), before);
    const single = await sandbox.createBackup({ dir: '/workspace/a b', multipart: false });
    await sandbox.restoreBackup({ ...single, dir: '/workspace/single' });
    assert.equal(await sum(sandbox, '/workspace/single'), before);
  },

  async 'createBackup, restoreBackup: errors'(t) {
    const { sandbox } = await trusting(t, t.env.Remote);
    await files(sandbox, 1);
    const dir = '/workspace/a b';
    await rejects(sandbox.createBackup({ dir: '/workspace/none' }), /BackupCreateError.*no directory|no directory/);
    await rejects(sandbox.createBackup({ dir: '/etc' }), /supported backup roots/);
    await rejects(sandbox.createBackup({ dir, ttl: -1 }), /ttl/);
    await rejects(sandbox.createBackup({ dir, compression: { format: 'xz' } }), /compression\.format/);
    await rejects(sandbox.restoreBackup({ id: crypto.randomUUID(), dir }), /Backup not found/);
    await rejects(sandbox.restoreBackup(await sandbox.createBackup({ dir, ttl: 1 })), /has expired/);
    // An archive that is no squashfs: the files that are there stay.
    const backup = await sandbox.createBackup({ dir });
    const key = `${t.env.BACKUP_BUCKET_ENDPOINT}/${t.env.BACKUP_BUCKET_NAME}/backups/${backup.id}/data.sqsh`;
    await t.s3('PUT', key, 'x'.repeat(5000));
    await rejects(sandbox.restoreBackup(backup), /superblock|squashfs|restore/i);
    assert.equal(await sh(sandbox, `cat '${dir}/src/it is'; ls /var/backups; grep -c fuse /proc/self/mounts || true`), 'one\nmounts\n0\n');
    await t.s3('DELETE', key);
    await rejects(sandbox.restoreBackup(backup), /archive not found/);
    // A store that cannot be reached: upstream's upload is a curl in the box.
    const stored = await sandbox.createBackup({ dir });
    await sh(sandbox, 'mv /etc/ssl/certs/ca-certificates.crt /tmp/trusted');
    await rejects(sandbox.createBackup({ dir }), /Presigned URL upload failed.*curl: \(/s);
    await rejects(sandbox.restoreBackup(stored), /Presigned URL download failed.*curl: \(/s);
    assert.equal(await sh(sandbox, `ls /var/backups; cat '${dir}/src/it is'`), 'mounts\none\n');
    // A disk that is full: the error says so, and no part of an archive is left.
    const { id, sandbox: full } = await trusting(t, t.env.Remote);
    await sh(full, 'mkdir -p /workspace/d && head -c 40M /dev/urandom >/workspace/d/f');
    assert.ok((await t.put(id, { limits: { disk: 64 << 20 } })).ok);
    await rejects(full.createBackup({ dir: '/workspace/d' }), /No space left|Disk quota exceeded|NO_SPACE/i);
    assert.equal(await sh(full, 'ls /var/backups'), '');
  },

  async 'mountBucket: endpoint with TLS'(t) {
    const { sandbox } = await trusting(t);
    const options = { endpoint: t.env.BACKUP_BUCKET_ENDPOINT, credentials: keys(t) };
    await sandbox.mountBucket('data', '/mnt/a b', { ...options, s3fsOptions: ['connect_timeout=20'] });
    await sh(sandbox, "mkdir -p '/mnt/a b/d e' && head -c 12M /dev/urandom | tee '/mnt/a b/d e/tls big' | sha256sum >/tmp/sum && sha256sum <'/mnt/a b/d e/tls big' | cmp - /tmp/sum");
    await sandbox.unmountBucket('/mnt/a b');
    await rejects(sandbox.mountBucket('data', '/mnt/x', { ...options, credentials: wrong }), /invalid credentials|403/);
    await rejects(sandbox.mountBucket('none-such', '/mnt/x', options), /not found|404/);
    await rejects(sandbox.mountBucket('data', '/mnt/x', { ...options, endpoint: 'https://away.test:9' }), /S3FSMountError|s3fs/i);
    // Keys of the Worker's environment.
    await sandbox.mountBucket('data', '/mnt/env', { endpoint: options.endpoint, readOnly: true });
    assert.match(await sh(sandbox, 'ls /mnt/env'), /d e/);
    await sandbox.unmountBucket('/mnt/env');
    await sh(sandbox, 'mkdir /mnt/full; touch /mnt/full/f');
    await rejects(sandbox.mountBucket('data', '/mnt/full', options), /not empty/);
    assert.equal(await sh(sandbox, 'ls -d /mnt/x 2>/dev/null; ls /mnt/full; ls -A /tmp | grep -c passwd || true'), 'f\n0\n');
  },

  async 'mountBucket: credentialProxy'(t) {
    const { sandbox } = t.box();
    const options = { endpoint: t.env.BACKUP_BUCKET_ENDPOINT, credentials: keys(t), credentialProxy: true };
    await sandbox.mountBucket('data', '/mnt/proxied', options);
    await sh(sandbox, "echo signed outside >'/mnt/proxied/proxied a+b' && mkdir -p '/mnt/proxied/proxied dir' && head -c 12M /dev/urandom | tee '/mnt/proxied/proxied dir/big' | sha256sum >/tmp/sum");
    assert.equal(await sh(sandbox, "cat '/mnt/proxied/proxied a+b' && sha256sum <'/mnt/proxied/proxied dir/big' | cmp - /tmp/sum && ls '/mnt/proxied/proxied dir'"), 'signed outside\nbig\n');
    // No key is in the box.
    assert.equal(await keysIn(t, sandbox), '0\n');
    await sandbox.mountBucket('data', '/mnt/ro', { ...options, prefix: '/proxied dir', readOnly: true });
    assert.equal(await sh(sandbox, 'ls /mnt/ro'), 'big\n');
    assert.notEqual((await sandbox.exec('touch /mnt/ro/no')).exitCode, 0);
    await sandbox.unmountBucket('/mnt/ro');
    await sandbox.unmountBucket('/mnt/proxied');
    assert.equal(await sh(sandbox, 'grep -c s3fs /proc/self/mounts || true; ls -d /mnt/proxied /mnt/ro 2>/dev/null || true'), '0\n');
    await sandbox.mountBucket('data', '/mnt/wrong', { ...options, credentials: wrong }).then(
      // Upstream answers the first look at a bucket itself; what follows is refused.
      async () => assert.notEqual((await sandbox.exec('ls /mnt/wrong && echo x >/mnt/wrong/f')).exitCode, 0),
      (error) => assert.match(error.message, /S3FS|s3fs/),
    );
  },

  async 'mountBucket: R2 binding'(t) {
    const { sandbox } = t.box();
    await t.env.FILES.put('seed/from outside.txt', 'outside');
    await sandbox.mountBucket('FILES', '/mnt/r2', {});
    assert.equal(await sh(sandbox, "cat '/mnt/r2/seed/from outside.txt'"), 'outside');
    await sh(sandbox, "echo inside >'/mnt/r2/seed/from inside.txt' && mkdir '/mnt/r2/new dir' && head -c 26M /dev/urandom | tee '/mnt/r2/new dir/big' | sha256sum >/tmp/sum");
    assert.equal(await (await t.env.FILES.get('seed/from inside.txt')).text(), 'inside\n');
    assert.equal((await t.env.FILES.head('new dir/big')).size, 26 << 20);
    assert.equal(await sh(sandbox, "sha256sum <'/mnt/r2/new dir/big' | cmp - /tmp/sum && mv '/mnt/r2/seed/from inside.txt' /mnt/r2/moved && ls /mnt/r2/seed && rm /mnt/r2/moved"), 'from outside.txt\n');
    await rejects(sandbox.mountBucket('FILES', '/mnt/other', { prefix: '/seed' }), /already mounted/);
    await sandbox.unmountBucket('/mnt/r2');
    await sandbox.mountBucket('FILES', '/mnt/r2', { prefix: '/seed', readOnly: true });
    assert.equal(await sh(sandbox, 'ls /mnt/r2'), 'from outside.txt\n');
    assert.notEqual((await sandbox.exec('touch /mnt/r2/no')).exitCode, 0);
    await rejects(sandbox.mountBucket('NOTHING', '/mnt/x', {}), /not found in Worker env/);
    await sandbox.unmountBucket('/mnt/r2');
    assert.equal(await sh(sandbox, 'grep -c s3fs /proc/self/mounts || true'), '0\n');
  },
};
