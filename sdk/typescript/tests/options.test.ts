import { getSandbox } from 'atoll-sandbox';
import { expect, test } from 'vitest';
import { box, daemon, failure } from './support/boxes.js';

test('options of getSandbox are set before anything runs', async () => {
  const limits = { memory: 128 * 1024 * 1024, cpu: 0.5, pids: 64 };
  const sandbox = box({ limits, image: 'default', env: { MODE: 'demo' }, labels: { team: 'a' }, keepAlive: true });
  expect((await sandbox.exec('echo $MODE')).stdout).toBe('demo\n');
  const info = await sandbox.info();
  expect(info).toMatchObject({ limits, image: 'default', labels: { team: 'a' }, envNames: ['MODE'], keepAlive: true });
});

test('configure changes the same settings', async () => {
  const sandbox = box({ labels: { a: '1' } });
  await sandbox.exec('true');
  await sandbox.configure({ limits: { pids: 77, disk: 64 * 1024 * 1024 }, labels: { b: '2' } });
  expect(await sandbox.info()).toMatchObject({ limits: { pids: 77, disk: 64 * 1024 * 1024 }, labels: { b: '2' } });
});

test('unknown options throw, and name those that there are', async () => {
  const bad = (options: object) => () => getSandbox(undefined, 'x', options);
  expect(bad({ limit: { memory: 1 } })).toThrow(/no option 'limit'.*image.*limits/);
  expect(bad({ sleepafter: '1m' })).toThrow(TypeError);
  expect(bad({ envChanges: {} })).toThrow(/no option 'envChanges'/);
  // @ts-expect-error
  expect(() => getSandbox(undefined, 'x', { memory: 1 })).toThrow(/no option 'memory'/);
  expect((await failure(box().configure({ nope: 1 } as object))).message).toMatch(/configure has no option 'nope'/);
});

test('settings that the daemon refuses are told by the first call', async () => {
  expect(await failure(box({ limits: { memory: 1 } }).exec('true'))).toMatchObject({ code: 'INVALID_LIMITS' });
  expect((await failure(box({ image: 'no-such-image' }).exec('true'))).message).toMatch(/no-such-image/);
});

test('the first argument: an Atoll, nothing, or a binding that is one of these', async () => {
  const { url, token } = daemon();
  const made = box();
  await made.writeFile('/workspace/f', 'found');
  for (const atoll of [{ url, token }, undefined, null, {}, { idFromName: () => 0 }]) {
    const env = { Sandbox: atoll };
    expect((await getSandbox(env.Sandbox, made.id).readFile('/workspace/f')).content).toBe('found');
  }
  expect(() => getSandbox('http://127.0.0.1:8700' as any, 'x')).toThrow(/{ url, token }/);
  expect(() => getSandbox({ urls: 'x' } as any, 'x')).toThrow(/no field 'urls'/);
});

test('a volume outlives a sandbox and is shared', async () => {
  const first = box();
  const name = `sdk-${first.id}`.toLowerCase();
  const made = await first.storage.createVolume(name, { size: 64 * 1024 * 1024 });
  expect(made).toMatchObject({ name, size: 64 * 1024 * 1024, usedBy: [] });
  const writer = box({ volumes: [{ name, path: '/cache' }] });
  const reader = box({ volumes: [{ name, path: '/shared', readOnly: true }] });
  await writer.writeFile('/cache/f', 'kept');
  expect((await reader.readFile('/shared/f')).content).toBe('kept');
  expect(await failure(first.storage.deleteVolume(name))).toMatchObject({ code: 'RESOURCE_BUSY' });
  expect((await first.storage.volumes()).find((v) => v.name === name)).toMatchObject({ users: 2 });
  await writer.destroy();
  await reader.destroy();
  await first.storage.deleteVolume(name);
  expect((await first.storage.volumes()).some((v) => v.name === name)).toBe(false);
});
