// Backups, volumes and bucket mounts of a box, on the tab Snapshots.
import assert from 'node:assert/strict';
import { answer, open, row, shows } from './console-daemon.mjs';

export async function backups(t) {
  const { page, daemon } = t;
  await daemon.box('backups');
  await daemon.write('backups', '/workspace/a.txt', 'one');
  const tab = await open(t, 'backups', 'Snapshots'), part = tab.getByRole('region', { name: 'Backups', exact: true });
  await part.getByLabel('New backup').fill('before');
  await part.getByRole('button', { name: 'Back up now' }).click();
  await shows(row(part, 'before').locator('.state'), 'ready');
  const [made] = (await daemon.ask('GET', '/v1/sandboxes/backups/backups')).backups;
  assert.equal(made.name, 'before');
  await daemon.write('backups', '/workspace/a.txt', 'two');
  await row(part, 'before').getByRole('button', { name: 'Restore' }).click();
  await answer(page, 'Restore');
  await shows(page.locator('.notices'), 'The files are back');
  assert.equal(await daemon.read('backups', '/workspace/a.txt'), 'one');
  await part.getByLabel('Back up every').fill('1s');
  await part.getByLabel('Keep, of').fill('3');
  await part.getByRole('button', { name: 'Save the schedule' }).click();
  await shows(page.locator('.notices'), 'every 1s');
  await row(part, /by the clock/).first().waitFor();
  await page.reload();
  await page.waitForFunction(() => [...document.querySelectorAll('input')].some((input) => input.value === '1s'));
  await part.getByLabel('Back up every').fill('');
  await part.getByRole('button', { name: 'Save the schedule' }).click();
  await shows(page.locator('.notices'), 'No backups are made');
  await row(part, 'before').getByRole('button', { name: 'Delete' }).click();
  await answer(page, 'Delete');
  await row(part, 'before').waitFor({ state: 'detached' });
  for (const { id } of (await daemon.ask('GET', '/v1/sandboxes/backups/backups')).backups) await daemon.ask('DELETE', `/v1/backups/${id}`);
}

export async function volumes(t) {
  const { page, daemon } = t, name = `console-${process.pid}`;
  await daemon.box('volumes');
  const tab = await open(t, 'volumes', 'Snapshots'), part = tab.getByRole('region', { name: 'Volumes', exact: true });
  await part.getByLabel('New volume').fill(name);
  await part.getByLabel('Size (GiB)').fill('0.5');
  await part.getByRole('button', { name: 'Make a volume' }).click();
  await shows(row(part, name), '512 MiB');
  await part.getByLabel('Directory in the box').fill('/cache');
  await part.getByRole('button', { name: 'Attach' }).click();
  await answer(page, 'Stop and change');
  await shows(row(part, name), '/cache');
  assert.deepEqual((await daemon.ask('GET', '/v1/sandboxes/volumes')).volumes, [{ name, path: '/cache', readOnly: false }]);
  assert.equal((await daemon.run('volumes', 'echo kept > /cache/f; cat /cache/f')).stdout, 'kept\n');
  await shows(page.locator('.head .state'), 'running');
  await part.getByRole('button', { name: 'Detach /cache' }).click();
  await answer(page, 'Stop and change');
  await row(part, name).getByRole('button', { name: 'Delete' }).click();
  await answer(page, 'Delete');
  await row(part, name).waitFor({ state: 'detached' });
  assert.deepEqual((await daemon.ask('GET', '/v1/volumes')).volumes.filter((v) => v.name === name), []);
}

/** Mounts that work are in tests/integration/test_mounts.py, which has a network with an S3 server in it. Here: what the page asks for, and how it fails. */
export async function mounts(t) {
  const { page, daemon } = t;
  const secret = { value: 'x'.repeat(40), hosts: ['s3.invalid:443'], aws: { accessKeyId: 'AKIATEST', region: 'us-east-1', service: 's3' } };
  await daemon.ask('PUT', '/v1/secrets/bucket-keys', secret);
  const tab = await open(t, 'mounts', 'Snapshots'), part = tab.getByRole('region', { name: 'Buckets', exact: true });
  await part.getByLabel('Bucket', { exact: true }).fill('data');
  await part.getByLabel('Server').fill('https://s3.invalid');
  await part.getByLabel('Secret').selectOption('bucket-keys');
  await part.getByLabel('read only').check();
  t.pardoned.push(/[45]\d\d .*\/mounts|status of [45]\d\d.*\/mounts/);
  const [asked] = await Promise.all([page.waitForRequest((r) => r.method() === 'POST' && r.url().endsWith('/mounts')), part.getByRole('button', { name: 'Mount', exact: true }).click()]);
  assert.deepEqual(asked.postDataJSON(), { bucket: 'data', path: '/mnt/data', endpoint: 'https://s3.invalid', secret: 'bucket-keys', readOnly: true });
  await page.locator('.notices .bad').waitFor();
  assert.ok((await asked.response()).status() >= 400);
  assert.deepEqual((await daemon.ask('GET', '/v1/sandboxes/mounts/mounts')).mounts, []);
  await daemon.ask('DELETE', '/v1/sandboxes/mounts');
  await daemon.ask('DELETE', '/v1/secrets/bucket-keys');
}
