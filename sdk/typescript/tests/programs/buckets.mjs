// mountBucket with keys, run by tests/sdk/test_buckets.py, which starts an S3 server that refuses what is not signed rightly.
import assert from 'node:assert/strict';
import { readFileSync } from 'node:fs';
import process from 'node:process';
import {
  getSandbox,
  getSecrets,
  InvalidMountConfigError,
  MissingCredentialsError,
  S3FSMountError,
} from 'atoll-sandbox';

const { S3_ENDPOINT: endpoint, KEY_ID: accessKeyId, KEY_SECRET: secretAccessKey, S3_CERT } = process.env;
const credentials = { accessKeyId, secretAccessKey };
const wrong = { accessKeyId: 'NOBODY', secretAccessKey: 'wrong' };
const sandbox = getSandbox(undefined, 'buckets');

async function sh(command) {
  const { exitCode, stdout, stderr } = await sandbox.exec(command);
  assert.equal(exitCode, 0, `${command}: ${stdout}${stderr}`);
  return stdout;
}
const mounted = async () => (await sh('findmnt -t fuse.s3fs -n -o TARGET || true')).trim();
/** Whether a text is in a variable, a command line or a new file of the box. */
const found = async (text) => {
  const everything =
    '(cat /proc/*/environ /proc/*/cmdline; find / -xdev -type f -newer /proc/1 -exec cat {} +) 2>/dev/null';
  return (await sh(`${everything} | grep -ac '${text.slice(0, -1)}[${text.slice(-1)}]' || true`)).trim() !== '0';
};
const names = async () => (await getSecrets().list()).map(({ name }) => name);

// As upstream: the keys are in a file of the box while it is mounted.
await sandbox.writeFile('/tmp/ca.pem', readFileSync(S3_CERT, 'utf8'));
await sh('cat /tmp/ca.pem >>/etc/ssl/certs/ca-certificates.crt');
await sandbox.mountBucket('data', '/mnt/a b', { endpoint, credentials });
await sh("mkdir '/mnt/a b/d e' && echo plain >'/mnt/a b/d e/f'");
await assert.rejects(sandbox.mountBucket('data', '/mnt/a b', { endpoint, credentials }), InvalidMountConfigError);
await sandbox.mountBucket('data', '/mnt/ro', {
  endpoint,
  credentials,
  prefix: '/d e',
  readOnly: true,
  s3fsOptions: ['stat_cache_expire=5'],
});
assert.equal(await sh('cat /mnt/ro/f'), 'plain\n');
assert.notEqual((await sandbox.exec('touch /mnt/ro/no')).exitCode, 0);
assert.equal(await sh("stat -c '%a %U' /tmp/.passwd-s3fs-* | sort -u"), '600 root\n');
for (const path of ['/mnt/a b', '/mnt/ro']) await sandbox.unmountBucket(path);
assert.equal(await mounted(), '');
assert.equal(await found(secretAccessKey), false);

// With credentialProxy: a secret of the daemon's, and no key in the box.
await sandbox.mountBucket('data', '/mnt/proxied', { endpoint, credentials, credentialProxy: true });
assert.equal(
  await sh(
    "cat '/mnt/proxied/d e/f'; echo signed >/mnt/proxied/g; head -c 12M /dev/urandom | tee /mnt/proxied/big | sha256sum >/tmp/sum",
  ),
  'plain\n',
);
assert.equal(await sh('sha256sum </mnt/proxied/big | cmp - /tmp/sum && echo same'), 'same\n');
assert.equal(await found(secretAccessKey), false);
assert.equal((await names()).length, 1);
await sandbox.unmountBucket('/mnt/proxied');
assert.deepEqual(await names(), []);

// Errors in s3fs's own words, and never a plain directory in the bucket's place.
for (const credentialProxy of [false, true]) {
  const options = { endpoint, credentialProxy };
  await assert.rejects(
    sandbox.mountBucket('data', '/mnt/x', { ...options, credentials: wrong }),
    /invalid credentials|403/,
  );
  await assert.rejects(sandbox.mountBucket('none', '/mnt/x', { ...options, credentials }), /not found|404/);
  await assert.rejects(
    sandbox.mountBucket('data', '/mnt/x', { ...options, credentials, endpoint: 'https://away.test' }),
    /s3fs|mount/i,
  );
  await sh('mkdir -p /mnt/full; touch /mnt/full/f');
  await assert.rejects(sandbox.mountBucket('data', '/mnt/full', { ...options, credentials }), /not empty/);
}
await assert.rejects(sandbox.mountBucket('data', '/mnt/x', { endpoint, credentials: wrong }), S3FSMountError);
await assert.rejects(sandbox.mountBucket('data', '/mnt/x', { endpoint }), MissingCredentialsError);
for (const options of [
  {},
  { localBucket: true },
  { endpoint: 'no' },
  { endpoint, prefix: 'rel' },
  { endpoint, s3fsOptions: ['url=http://x'] },
])
  await assert.rejects(sandbox.mountBucket('data', '/mnt/x', { credentials, ...options }), InvalidMountConfigError);
await assert.rejects(sandbox.mountBucket('A_B', '/mnt/x', { endpoint, credentials }), InvalidMountConfigError);
await assert.rejects(sandbox.mountBucket('data', 'rel', { endpoint, credentials }), InvalidMountConfigError);
await assert.rejects(sandbox.unmountBucket('/mnt/x'), InvalidMountConfigError);
assert.equal(await sh('ls -d /mnt/x 2>/dev/null; ls /mnt/full; ls -A /tmp | grep -c passwd || true'), 'f\n0\n');
assert.deepEqual([await mounted(), await names()], ['', []]);
await sandbox.destroy();
console.log('done');
