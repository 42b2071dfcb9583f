/* Backups of whole sandboxes, buckets and tunnels, against a daemon. A mount that works is part of examples/data-analysis. */
import { getSandbox, getSecrets } from 'atoll-sandbox';
import { afterAll, expect, test } from 'vitest';
import { box, failure, until } from './support/boxes.js';

const text = async (sandbox: ReturnType<typeof box>) => (await sandbox.exec('cat /root/f')).stdout.trim();

test('a backup outlives its sandbox, and is restored into another', async () => {
  const sandbox = box();
  await sandbox.exec('echo one > /root/f');
  const made = await sandbox.storage.backup({ name: 'before', ttl: 3600 });
  expect(made).toMatchObject({ sandbox: sandbox.id, name: 'before', state: 'ready', parent: null, scheduled: false });
  expect(made.size).toBeGreaterThan(0);
  expect(Date.parse(made.expiresAt!)).toBeGreaterThan(Date.now());
  await sandbox.exec('echo two > /root/f');
  const next = await sandbox.storage.backup();
  expect(next).toMatchObject({ name: null, parent: made.id, expiresAt: null });
  expect((await sandbox.storage.backups()).map(({ id }) => id)).toEqual([made.id, next.id]);
  const usage = await sandbox.storage.backupUsage();
  expect(usage).toMatchObject({ bytes: made.size + next.size, hidden: 0, hiddenBytes: 0 });
  expect(usage.allowed).toBeGreaterThan(usage.bytes);

  await sandbox.storage.restoreFrom(made);
  expect(await text(sandbox)).toBe('one');
  await sandbox.destroy();
  const other = box();
  await other.storage.createFrom({ backup: next.id });
  expect(await text(other)).toBe('two');
  for (const backup of [next, made.id]) await other.storage.deleteBackup(backup);
  expect(await sandbox.storage.backups()).toEqual([]);
  expect(await failure(other.storage.restoreFrom(made))).toMatchObject({ code: 'BACKUP_NOT_FOUND' });
});

test('backups by the clock', async () => {
  const sandbox = box({ backup: { every: '1s', keep: 2 } });
  await sandbox.exec('true');
  expect(await sandbox.info()).toMatchObject({ backup: { every: '1s', keep: 2 } });
  await until('a scheduled backup', async () =>
    (await sandbox.storage.backups()).some(({ state, scheduled }) => state === 'ready' && scheduled),
  );
  await sandbox.configure({ backup: null });
  expect((await sandbox.info())?.backup ?? null).toBeNull();
  // One that was under way is made to its end.
  await until('the last one', async () => (await sandbox.storage.backups()).every(({ state }) => state !== 'making'));
  for (const backup of await sandbox.storage.backups()) await sandbox.storage.deleteBackup(backup);
  expect(await failure(box({ backup: { every: 'often' } }).exec('true'))).toMatchObject({ code: 'VALIDATION_FAILED' });
});

const secret = `sdk-bucket-${process.pid}`;
afterAll(() =>
  getSecrets()
    .delete(secret)
    .catch(() => {}),
);

test('buckets that cannot be mounted say why, and leave nothing', async () => {
  const sandbox = box();
  const endpoint = 'https://127.0.0.1:9';
  const mount = (options: Parameters<typeof sandbox.mountBucket>[2]) =>
    sandbox.mountBucket('data', '/mnt/data', options);
  expect((await failure(mount({ endpoint, secret: 'nobody' }))).message).toMatch(/nobody/);
  await getSecrets().put(secret, {
    value: 'x',
    hosts: ['s3.example'],
    aws: { accessKeyId: 'AKIA', region: 'r', service: 's3' },
  });
  expect((await failure(mount({ endpoint, secret }))).message).toMatch(/127\.0\.0\.1/);
  expect(await failure(mount({ endpoint: 'http://s3.example', secret }))).toMatchObject({ code: 'VALIDATION_FAILED' });
  expect(await failure(sandbox.unmountBucket('/mnt/data'))).toMatchObject({ code: 'INVALID_MOUNT_CONFIG' });
  expect((await sandbox.exists('/mnt/data')).exists).toBe(false);
});

test('tunnels give ports host names of their own', async () => {
  const sandbox = box();
  expect(await sandbox.tunnels.list()).toEqual([]);
  const quick = await sandbox.tunnels.get(8080);
  expect(quick).toMatchObject({ port: 8080, url: expect.stringContaining(quick.hostname) });
  expect(await sandbox.tunnels.get(8080)).toEqual(quick);
  const named = await sandbox.tunnels.get(8081, { name: `n${process.pid}` });
  expect(named).toMatchObject({ name: `n${process.pid}`, hostname: expect.stringContaining(`n${process.pid}.`) });
  expect(await sandbox.tunnels.list()).toEqual([quick, named]);
  await sandbox.tunnels.destroy(quick);
  await sandbox.tunnels.destroy(8081);
  await sandbox.tunnels.destroy(8081);
  expect(await sandbox.tunnels.list()).toEqual([]);
  expect(await getSandbox(undefined, 'nobody-has-this').tunnels.list()).toEqual([]);
});
