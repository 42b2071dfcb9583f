// Rows that need an S3 server outside of the box, for the Worker and the box alike (test_preview_storage.py). It refuses what is not signed rightly.
import { assert, rejects, run, sh } from './util.mjs';

/** The box trusts the server's certificate, as an image for such a server would. */
async function trusting(t, namespace) {
  const { id, sandbox } = t.box(undefined, namespace);
  await sandbox.writeFile('/tmp/ca.pem', t.env.S3_CA);
  await ok(sandbox, 'cat /tmp/ca.pem >>/etc/ssl/certs/ca-certificates.crt');
  return { id, sandbox };
}

const keys = (t) => ({ accessKeyId: t.env.R2_ACCESS_KEY_ID, secretAccessKey: t.env.R2_SECRET_ACCESS_KEY });
const wrong = { accessKeyId: 'NOBODY', secretAccessKey: 'wrong' };

async function ok(sandbox, command) {
  const { exitCode, stdout, stderr } = await sh(sandbox, command);
  assert.equal(exitCode, 0, `${command}: ${stdout}${stderr}`);
  return stdout;
}
const sum = (sandbox, dir) => ok(sandbox, `cd '${dir}' && find . -type f -print0 | sort -z | xargs -0 sha256sum; readlink link; stat -c %a big`);

async function backedUp(t, megabytes) {
  const { sandbox } = await trusting(t, t.env.Remote);
  await ok(sandbox, `mkdir -p '/workspace/a b/src'; cd '/workspace/a b'; head -c ${megabytes}M /dev/urandom >big; echo one >'src/it is'; ln -s big link; chmod 640 big`);
  const before = await sum(sandbox, '/workspace/a b');
  const backup = await sandbox.createBackup({ dir: '/workspace/a b', name: 'with a blank', ttl: 600 });
  assert.equal(await ok(sandbox, 'ls /var/backups'), '');
  await ok(sandbox, "rm -r '/workspace/a b'");
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

  async 'mountBucket: endpoint with TLS'(t) {
    const { sandbox } = await trusting(t);
    const options = { endpoint: t.env.BACKUP_BUCKET_ENDPOINT, credentials: keys(t) };
    await sandbox.mountBucket('data', '/mnt/a b', { ...options, s3fsOptions: ['connect_timeout=20'] });
    await ok(sandbox, "mkdir -p '/mnt/a b/d e' && head -c 12M /dev/urandom | tee '/mnt/a b/d e/tls big' | sha256sum >/tmp/sum && sha256sum <'/mnt/a b/d e/tls big' | cmp - /tmp/sum");
    await sandbox.unmountBucket('/mnt/a b');
    await rejects(sandbox.mountBucket('data', '/mnt/x', { ...options, credentials: wrong }), /invalid credentials|403/);
    await rejects(sandbox.mountBucket('none-such', '/mnt/x', options), /not found|404/);
    // Keys of the Worker's environment.
    await sandbox.mountBucket('data', '/mnt/env', { endpoint: options.endpoint, readOnly: true });
    assert.match(await ok(sandbox, 'ls /mnt/env'), /d e/);
    assert.notEqual((await run(sandbox, 'touch', '/mnt/env/no')).exitCode, 0);
    await sandbox.unmountBucket('/mnt/env');
    assert.equal(await ok(sandbox, 'ls -d /mnt/x 2>/dev/null; grep -c s3fs /proc/self/mounts || true; ls -A /tmp | grep -c passwd || true'), '0\n0\n');
  },

  async 'mountBucket: credentialProxy'(t) {
    const { sandbox } = t.box();
    const options = { endpoint: t.env.BACKUP_BUCKET_ENDPOINT, credentials: keys(t), credentialProxy: true };
    await sandbox.mountBucket('data', '/mnt/proxied', options);
    await ok(sandbox, "mkdir -p '/mnt/proxied/proxied dir' && head -c 12M /dev/urandom | tee '/mnt/proxied/proxied dir/big' | sha256sum >/tmp/sum && sha256sum <'/mnt/proxied/proxied dir/big' | cmp - /tmp/sum");
    // No key is in the box.
    const [a, ...rest] = t.env.R2_SECRET_ACCESS_KEY;
    assert.equal(await ok(sandbox, `(cat /proc/*/environ /proc/*/cmdline /tmp/.passwd* /tmp/.s3fs*) 2>/dev/null | grep -ac '[${a}]${rest.join('')}' || true`), '0\n');
    await sandbox.unmountBucket('/mnt/proxied');
    assert.equal(await ok(sandbox, 'grep -c s3fs /proc/self/mounts || true'), '0\n');
  },

  async 'mountBucket: R2 binding'(t) {
    const { sandbox } = t.box();
    await t.env.FILES.put('seed/from outside.txt', 'outside');
    await sandbox.mountBucket('FILES', '/mnt/r2', {});
    assert.equal(await ok(sandbox, "cat '/mnt/r2/seed/from outside.txt'"), 'outside');
    await ok(sandbox, "echo inside >'/mnt/r2/seed/from inside.txt'");
    assert.equal(await (await t.env.FILES.get('seed/from inside.txt')).text(), 'inside\n');
    await sandbox.unmountBucket('/mnt/r2');
    assert.equal(await ok(sandbox, 'grep -c s3fs /proc/self/mounts || true'), '0\n');
  },
};
