import { expect, test } from 'vitest';
import { box } from './support/boxes.js';

const curl = async (sandbox: ReturnType<typeof box>, url: string, more = '') => {
  const { stdout } = await sandbox.exec(`curl -sS -w '|%{http_code}' ${more} ${url}`);
  return stdout;
};

test('a handler answers the requests of a sandbox', async () => {
  const sandbox = box();
  await sandbox.setOutboundHandler(async (request) => {
    const { hostname, protocol } = new URL(request.url);
    return new Response(`${protocol} ${hostname} ${request.method} ${await request.text()}`, { status: 201 });
  });
  expect(await curl(sandbox, 'http://nowhere.example/')).toBe('http: nowhere.example GET |201');
  expect(await curl(sandbox, 'http://nowhere.example/', '--data-binary hello')).toBe(
    'http: nowhere.example POST hello|201',
  );
  expect(await curl(sandbox, 'https://nowhere.example/')).toBe('https: nowhere.example GET |201');
  await sandbox.setOutboundByHost('one.example', () => new Response('one'));
  expect(await curl(sandbox, 'http://one.example/')).toBe('one|200');
  await sandbox.setOutboundByHost('one.example', null);
  expect(await curl(sandbox, 'http://one.example/')).toBe('http: one.example GET |201');
  await sandbox.setOutboundHandler(null);
  await expect(curl(sandbox, 'http://nowhere.example/')).resolves.toMatch(/\|(000|502)$/);
});

test('an error of the handler is 520, and bodies of any size stream', async () => {
  const sandbox = box();
  await sandbox.setOutboundHandler((request) => {
    if (request.method === 'GET') throw new Error('no');
    return new Response(request.body);
  });
  expect(await curl(sandbox, 'http://a.example/')).toMatch(/\|520$/);
  const { stdout } = await sandbox.exec(
    'head -c 5000000 /dev/urandom > /tmp/a; curl -sS -X POST --data-binary @/tmp/a http://a.example/ > /tmp/b; cmp /tmp/a /tmp/b && echo same',
  );
  expect(stdout.trim()).toBe('same');
});

test('a sandbox that was destroyed stays so, though a handler was set', async () => {
  const sandbox = box();
  await sandbox.setOutboundHandler(() => new Response('here'));
  await sandbox.destroy();
  // The hook is tried again for a while; nothing tells when it is given up.
  for (const end = Date.now() + 1500; Date.now() < end; await new Promise((done) => setTimeout(done, 50)))
    expect(await sandbox.info()).toBeNull();
});
