import { getSecrets, type NetworkRecord, parseSSEStream } from 'atoll-sandbox';
import { afterAll, expect, test } from 'vitest';
import { box, failure } from './support/boxes.js';

const secrets = getSecrets();
const made: string[] = [];
let count = 0;

/** The name of a secret, which is deleted at the end. */
function secretName(): string {
  made.push(`v${process.pid}-secret-${++count}`);
  return made[made.length - 1]!;
}

afterAll(async () => {
  for (const name of made) if (await secrets.get(name)) await secrets.delete(name);
});

test('a policy at the beginning and later', async () => {
  const sandbox = box({ network: { mode: 'list', allow: ['pypi.org'] } });
  expect(await sandbox.network.get()).toMatchObject({
    mode: 'list',
    allow: ['pypi.org'],
    own: { allow: ['pypi.org'] },
  });
  expect(await sandbox.network.set({ allow: null, deny: ['*.example'] })).toMatchObject({
    mode: 'list',
    allow: [],
    deny: ['*.example'],
  });
  expect(await failure(sandbox.network.set({ allow: ['no rule'] }))).toMatchObject({ httpStatus: 400 });
});

test('the log can be followed', async () => {
  const sandbox = box({ network: { mode: 'list' } });
  const stop = new AbortController();
  const stream = await sandbox.network.followLog({ signal: stop.signal });
  await sandbox.exec('getent hosts refused.example');
  for await (const record of parseSSEStream<NetworkRecord>(stream))
    if (record.name === 'refused.example') {
      expect(record).toMatchObject({ decision: 'deny', protocol: 'dns' });
      break;
    }
  stop.abort();
  expect((await sandbox.network.log()).map((record) => record.name)).toContain('refused.example');
});

test('secrets are made, listed and deleted', async () => {
  const name = secretName();
  const one = await secrets.put(name, { value: 'sk-hidden', hosts: ['api.example'], env: 'API_KEY' });
  expect(one).toMatchObject({ name, hosts: ['api.example'], env: 'API_KEY', lastUsedAt: null });
  expect(one.in).toContain('header:Authorization');
  expect(await secrets.get(name)).toEqual(one);
  expect(await secrets.list()).toContainEqual(one);
  expect(JSON.stringify(await secrets.list())).not.toContain('sk-hidden');
  const narrow = await secrets.put(name, { value: 'sk-hidden', hosts: ['api.example'], in: ['query:key'] });
  expect(narrow.in).toEqual(['query:key']);
  expect(await failure(secrets.put(name, { value: 'v', hosts: ['not a host'] }))).toMatchObject({ httpStatus: 400 });
  await secrets.delete(name);
  expect(await secrets.get(name)).toBeNull();
  expect(await failure(secrets.delete(name))).toMatchObject({ code: 'NOT_FOUND', httpStatus: 404 });
});

test('a sandbox has a placeholder', async () => {
  const name = secretName();
  await secrets.put(name, { value: 'sk-hidden', hosts: ['api.example'], env: 'API_KEY' });
  const sandbox = box({ secrets: [name] });
  const { stdout } = await sandbox.exec('echo $API_KEY; env');
  expect(stdout).toMatch(/^atoll_/);
  expect(stdout).not.toContain('sk-hidden');
  await sandbox.configure({ secrets: [] });
  const session = await sandbox.createSession();
  expect((await session.exec('printenv API_KEY')).stdout).toBe('');
  expect(await failure(box({ secrets: ['nowhere'] }).exec('true'))).toMatchObject({ httpStatus: 404 });
});
