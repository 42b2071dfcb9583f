/* Snapshots, forks and what is made from them, against a daemon. */
import { getSandbox } from 'atoll-sandbox';
import { afterAll, expect, test } from 'vitest';
import { box, failure } from './support/boxes.js';

const more = new Set<string>();

/** A sandbox that did not come from box(). */
function other(id: string) {
  more.add(id);
  return getSandbox(undefined, id);
}

afterAll(async () => {
  await Promise.all([...more].map((id) => getSandbox(undefined, id).destroy()));
});

const text = async (sandbox: ReturnType<typeof box>) => (await sandbox.exec('cat /root/f')).stdout.trim();
const write = (sandbox: ReturnType<typeof box>, what: string) => sandbox.exec(`echo ${what} > /root/f`);

test('a snapshot is made, compared, restored and deleted', async () => {
  const sandbox = box();
  await write(sandbox, 'one');
  const made = await sandbox.storage.snapshot('before');
  expect(made).toMatchObject({ id: expect.stringMatching(/^snap-/), name: 'before', sandbox: made.sandbox });
  expect(made.size).toBeGreaterThan(0);
  expect(Date.parse(made.createdAt)).toBeGreaterThan(0);
  expect(await sandbox.storage.snapshots()).toEqual([made]);
  await sandbox.exec('echo two > /root/f; touch /root/new; rm /etc/hostname');
  const changes = await sandbox.storage.diff(made);
  expect(changes.added).toEqual(['/root/new']);
  expect(changes.changed).toContain('/root/f');
  expect(changes.truncated).toBe(false);
  expect(await sandbox.storage.diff('before')).toEqual(changes);
  await sandbox.storage.restore('before');
  expect((await sandbox.info())?.state).toBe('stopped');
  expect(await text(sandbox)).toBe('one');
  await sandbox.storage.deleteSnapshot(made);
  expect(await sandbox.storage.snapshots()).toEqual([]);
  expect((await failure(sandbox.storage.restore(made))).code).toBe('SNAPSHOT_NOT_FOUND');
});

test('forks have the files, and the winner replaces the parent', async () => {
  const sandbox = box();
  await write(sandbox, 'base');
  const { id } = (await sandbox.info())!;
  const ids = await sandbox.storage.fork(2);
  expect(ids).toEqual([`${id}-1`, `${id}-2`]);
  expect(await sandbox.storage.fork([`${id}-x`])).toEqual([`${id}-x`]);
  for (const name of [...ids, `${id}-x`]) {
    expect(await text(other(name))).toBe('base');
    await write(other(name), name);
  }
  await sandbox.storage.replace({ sandbox: ids[1]! });
  expect(await text(sandbox)).toBe(ids[1]);
  expect(await text(other(ids[0]!))).toBe(ids[0]);
});

test('a sandbox is made from a snapshot or from another one', async () => {
  const sandbox = box();
  await write(sandbox, 'then');
  const kept = await sandbox.storage.snapshot();
  expect(kept.name).toBeNull();
  await write(sandbox, 'now');
  const then = other(`${kept.sandbox}-then`);
  const now = other(`${kept.sandbox}-now`);
  await then.storage.createFrom({ snapshot: kept.id });
  await now.storage.createFrom({ sandbox: kept.sandbox });
  expect([await text(then), await text(now)]).toEqual(['then', 'now']);
  expect((await failure(now.storage.createFrom({ sandbox: kept.sandbox }))).httpStatus).toBe(409);
});
