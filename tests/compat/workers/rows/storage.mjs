import { assert, rejects } from './util.mjs';

/** A project in the box: files, a link, an empty directory, things to leave out. */
async function project(sandbox) {
  const made = await sandbox.exec(
    `set -e; mkdir -p /workspace/p/src /workspace/p/empty /workspace/p/node_modules /workspace/p/build; cd /workspace/p; git init -q
     printf '*.log\\nbuild/\\n' >.gitignore; echo one >src/a; ln -s a src/link; echo l >x.log; echo o >build/o; echo n >node_modules/n
     head -c 300000 /dev/urandom >big; chmod 640 src/a; set +e; cd /workspace`);
  assert.equal(made.exitCode, 0, made.stderr);
}

const sum = async (sandbox, dir) =>
  (await sandbox.exec(`cd ${dir} && find . -path ./.git -prune -o -type f -print0 | sort -z | xargs -0 sha256sum`)).stdout;

/** An S3 server (s3rver) in the box itself; the keys are its own. */
async function bucketServer(t, sandbox) {
  await sandbox.writeFile('/srv/s3rver.cjs', t.env.S3RVER);
  const server = await sandbox.startProcess('node /srv/s3rver.cjs');
  await server.waitForPort(4568, { mode: 'tcp' });
}

const s3 = { endpoint: 'http://127.0.0.1:4568', credentials: { accessKeyId: 'S3RVER', secretAccessKey: 'S3RVER' } };

export default {
  async createBackup(t) {
    assert(t.env.BACKUP_BUCKET);
    const { sandbox } = t.box();
    await project(sandbox);
    const plain = await sandbox.createBackup({ dir: '/workspace/p', name: 'all', localBucket: true });
    assert.match(plain.id, /^[0-9a-f-]{36}$/);
    assert.equal(plain.localBucket, true);
    const meta = await (await t.env.BACKUP_BUCKET.get(`backups/${plain.id}/meta.json`)).json();
    assert.deepEqual([meta.dir, meta.name, meta.ttl], ['/workspace/p', 'all', 259200]);
    assert.equal((await t.env.BACKUP_BUCKET.head(`backups/${plain.id}/data.sqsh`)).size, meta.sizeBytes);
    for (const format of ['gzip', 'lz4', 'zstd'])
      await sandbox.createBackup({ dir: '/workspace/p', localBucket: true, compression: { format, threads: 2 } });
    assert.equal((await sandbox.exec('ls /var/backups')).stdout, '');
    await rejects(sandbox.createBackup({ dir: '/workspace/none', localBucket: true }), /BackupCreateError|BACKUP_CREATE_FAILED|no directory/);
    await rejects(sandbox.createBackup({ dir: '/etc', localBucket: true }), /InvalidBackupConfigError|dir/);
    await rejects(sandbox.createBackup({ dir: '/workspace/p', ttl: 0, localBucket: true }), /InvalidBackupConfigError|ttl/);
  },

  async restoreBackup(t) {
    assert(t.env.BACKUP_BUCKET);
    const { sandbox } = t.box();
    await project(sandbox);
    const before = await sum(sandbox, '/workspace/p');
    const backup = await sandbox.createBackup({ dir: '/workspace/p', localBucket: true });
    await sandbox.exec('rm -rf /workspace/p/src /workspace/p/big');
    const done = await sandbox.restoreBackup(backup);
    assert.deepEqual([done.success, done.dir, done.id], [true, '/workspace/p', backup.id]);
    assert.equal(await sum(sandbox, '/workspace/p'), before);
    assert.equal((await sandbox.exec('cd /workspace; readlink p/src/link; stat -c %a p/src/a; ls -d p/empty')).stdout, 'a\n640\np/empty\n');
    const small = await sandbox.createBackup({ dir: '/workspace/p', localBucket: true, gitignore: true, excludes: ['node_modules'] });
    await sandbox.restoreBackup({ ...small, dir: '/workspace/q' });
    assert.equal((await sandbox.exec('ls -A /workspace/q')).stdout, '.git\n.gitignore\nbig\nempty\nsrc\n');
    await rejects(sandbox.restoreBackup({ ...backup, id: crypto.randomUUID() }), /BackupNotFoundError|not found/i);
    const short = await sandbox.createBackup({ dir: '/workspace/p', ttl: 1, localBucket: true });
    await rejects(sandbox.restoreBackup(short), /BackupExpiredError|expired/i);
  },

  async mountBucket(t) {
    const { sandbox } = t.box();
    await bucketServer(t, sandbox);
    await sandbox.mountBucket('data', '/mnt/data', s3);
    await sandbox.writeFile('/mnt/data/a.txt', 'through the bucket');
    await sandbox.exec('mkdir -p /mnt/data/sub && echo deep >/mnt/data/sub/b.txt');
    assert.match((await sandbox.exec('ls /srv/buckets/data')).stdout, /a\.txt/);
    await sandbox.mountBucket('data', '/mnt/ro', { ...s3, readOnly: true, prefix: '/sub/' });
    assert.equal((await sandbox.readFile('/mnt/ro/b.txt')).content, 'deep\n');
    assert.notEqual((await sandbox.exec('touch /mnt/ro/c')).exitCode, 0);
    // Errors in s3fs's own words, and never a plain directory in the bucket's place.
    const wrong = { ...s3, credentials: { accessKeyId: 'NOBODY', secretAccessKey: 'wrong' } };
    const refused = await rejects(sandbox.mountBucket('data', '/mnt/wrong', wrong), /S3FSMountError|s3fs/);
    assert.match(refused.message, /invalid credentials/);
    await rejects(sandbox.mountBucket('none', '/mnt/none', s3), /bucket or key not found/);
    assert.equal((await sandbox.exec("grep -c ' fuse.s3fs ' /proc/self/mounts; ls -d /mnt/none /mnt/wrong")).stdout, '2\n');
  },

  async unmountBucket(t) {
    const { sandbox } = t.box();
    await bucketServer(t, sandbox);
    await sandbox.mountBucket('data', '/mnt/data', s3);
    await sandbox.writeFile('/mnt/data/kept.txt', 'kept');
    await sandbox.unmountBucket('/mnt/data');
    assert.equal((await sandbox.exec("grep -c ' fuse' /proc/self/mounts; ls /tmp | grep -c passwd; ls /srv/buckets/data")).stdout.split('\n')[0], '0');
    await sandbox.mountBucket('data', '/mnt/data', s3);
    assert.equal((await sandbox.readFile('/mnt/data/kept.txt')).content, 'kept');
    await sandbox.unmountBucket('/mnt/data');
    await rejects(sandbox.unmountBucket('/mnt/data'), /InvalidMountConfigError|No active mount/i);
  },

  async 'session.createBackup, restoreBackup'(t) {
    assert(t.env.BACKUP_BUCKET);
    const { sandbox } = t.box();
    await project(sandbox);
    const session = await sandbox.createSession({ id: 's' });
    const backup = await session.createBackup({ dir: '/workspace/p/src', localBucket: true });
    await sandbox.exec('rm -r /workspace/p/src');
    assert.equal((await session.restoreBackup(backup)).success, true);
    assert.equal((await session.readFile('/workspace/p/src/a')).content, 'one\n');
  },

  async 'session.mountBucket, unmountBucket'(t) {
    const { sandbox } = t.box();
    await bucketServer(t, sandbox);
    const session = await sandbox.createSession({ id: 's' });
    await session.mountBucket('data', '/mnt/data', s3);
    await session.writeFile('/mnt/data/f', 'x');
    await session.unmountBucket('/mnt/data');
    assert.equal((await session.exec('ls -A /mnt/data 2>/dev/null | wc -l')).stdout, '0\n');
  },

  async 'mountBucket: localBucket'(t) {
    const { sandbox } = t.box();
    await t.env.BACKUP_BUCKET.put('seed/one.txt', 'from outside');
    await sandbox.mountBucket('BACKUP_BUCKET', '/workspace/local', { localBucket: true, prefix: '/seed/' });
    assert.equal((await sandbox.readFile('/workspace/local/one.txt')).content, 'from outside');
    await sandbox.writeFile('/workspace/local/two.txt', 'from inside');
    await t.until('the file to arrive in the bucket', async () => (await t.env.BACKUP_BUCKET.head('seed/two.txt')) !== null);
    await sandbox.unmountBucket('/workspace/local');
  },
};
