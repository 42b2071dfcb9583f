import { execFile } from 'node:child_process';
import { once } from 'node:events';
import http from 'node:http';
import net from 'node:net';
import { promisify } from 'node:util';
import { ContainerUnavailableError, getSandbox, RPCTransportError, SandboxError } from 'atoll-sandbox';
import { afterEach, expect, test } from 'vitest';
import { BadNetwork } from './support/bad-network.js';
import { box, daemon, failure, until } from './support/boxes.js';

const networks: BadNetwork[] = [];
async function network(...fate: Parameters<typeof BadNetwork.start>): Promise<BadNetwork> {
  networks.push(await BadNetwork.start(...fate));
  return networks.at(-1)!;
}
afterEach(async () => {
  await Promise.all(networks.splice(0).map((one) => one.close()));
});

const { url, token, socket } = daemon();

test('the unix socket needs no token', async () => {
  expect((await box({}, { url: `unix:${socket}` }).exec('echo over a socket')).stdout).toBe('over a socket\n');
});

test('without options: the environment, else the socket of this machine', async () => {
  const script = `const { getSandbox } = await import('atoll-sandbox'); const s = getSandbox(undefined, 'v-env');
    console.log((await s.exec('echo found')).stdout.trim()); await s.destroy();`;
  const run = (env: Record<string, string>) =>
    promisify(execFile)(process.execPath, ['--input-type=module', '-e', script], {
      env: { PATH: process.env.PATH, ...env },
    });
  expect((await run({ ATOLL_URL: url, ATOLL_TOKEN: token })).stdout).toBe('found\n');
  expect((await run({ ATOLL_RUN: socket.replace(/\/atoll\.sock$/, '') })).stdout).toBe('found\n');
});

test('a wrong token is reported', async () => {
  const error = await failure(box({}, { url, token: 'wrong' }).exec('true'));
  expect(error).toBeInstanceOf(SandboxError);
  expect(error).toMatchObject({ code: 'UNAUTHORIZED', httpStatus: 401 });
  expect(error.suggestion).toMatch(/ATOLL_TOKEN.*\/token.*atoll env --export/);
});

/** A server that is not Atoll. */
async function other(status: number, type: string, body: string, health?: string): Promise<string> {
  const server = http.createServer((request, response) => {
    const isHealth = health !== undefined && request.url === '/v1/health';
    response.writeHead(isHealth ? 200 : status, { 'content-type': isHealth ? 'application/json' : type });
    response.end(isHealth ? health : body);
  });
  servers.push(server);
  await new Promise<void>((done) => server.listen(0, '127.0.0.1', done));
  return `http://127.0.0.1:${(server.address() as { port: number }).port}`;
}
const servers: http.Server[] = [];
afterEach(() => {
  for (const server of servers.splice(0)) {
    server.closeAllConnections();
    server.close();
  }
});

test.each([
  [200, 'text/html', '<!doctype html><title>It works!</title>'],
  [404, 'text/html', '<h1>Not Found</h1>'],
  [502, 'text/plain', 'Bad Gateway'],
  [401, 'application/json', '{"detail":"login first"}'],
  [302, 'text/html', ''],
])('a server that is not Atoll (%i %s) is told, with what to do', async (status, type, body) => {
  const there = getSandbox({ url: await other(status, type, body), token: 'x' }, 'b');
  const calls: (() => Promise<unknown>)[] = [
    () => there.exec('true'),
    () => there.execStream('true'),
    () => there.runCode('1'),
    () => there.readFile('/f'),
    () => there.listFiles('/'),
    () => there.exposePort(8080),
    () => there.info(),
    () => there.destroy(),
  ];
  for (const call of calls) {
    const error = await failure(call());
    expect(error).toBeInstanceOf(SandboxError);
    expect(error.message).toMatch(/^127\.0\.0\.1:\d+ answered HTTP \d+, and not as Atoll does$/);
    expect(error.suggestion).toMatch(/ATOLL_URL/);
  }
});

test('an Atoll of another version is told where it does not know something', async () => {
  const refusal = (code: string) => JSON.stringify({ code, message: 'no', suggestion: 'Correct it', httpStatus: 404 });
  const old = await other(404, 'application/json', refusal('NOT_FOUND'), '{"status":"ok","version":"0.0.9"}');
  const error = await failure(getSandbox({ url: old, token: 'x' }, 'b').exec('true'));
  expect(error).toMatchObject({ code: 'NOT_FOUND', message: 'no' });
  expect(error.suggestion).toMatch(/has version 0\.0\.9, atoll-sandbox \d+\.\d+\.\d+: update the older one/);
  // The daemon of this test has the same version: its own advice stays.
  expect((await failure(box({ sleepAfter: 'soon' }).exec('true'))).suggestion).not.toMatch(/version/);
});

test('an Atoll that is not there is told, with what to do', async () => {
  const gone = await network(() => ({}));
  const { port } = gone;
  await gone.close();
  const error = await failure(box({}, { url: `http://127.0.0.1:${port}`, token, retryMs: 100 }).exec('true'));
  expect(error).toBeInstanceOf(ContainerUnavailableError);
  expect(error.message).toMatch(/127\.0\.0\.1:\d+ cannot be reached/);
  expect(error.suggestion).toMatch(/atoll up/);
});

test('a request that never arrived is sent again', async () => {
  const first = await network(() => ({}));
  const { port } = first;
  await first.close();
  const sandbox = box({}, { url: `http://127.0.0.1:${port}`, token, retryMs: 30_000 });
  const running = sandbox.exec('echo once >> /workspace/count; cat /workspace/count');
  // Nobody tells that a try has failed; if none has yet, the first one arrives, and that is as good.
  await new Promise((done) => setTimeout(done, 100));
  await network(() => ({}), port);
  expect((await running).stdout).toBe('once\n');
});

test('a command whose answer was lost is not run again, and the error says that nobody knows', async () => {
  const sandbox = box();
  await sandbox.exec('true');
  const cutting = await network((n) => (n === 1 ? { cutAfter: 0 } : {}));
  const there = getSandbox({ url: cutting.url, token }, sandbox.id);
  const error = await failure(there.exec('echo x >> /workspace/count'));
  expect(error).toBeInstanceOf(RPCTransportError);
  expect(error.message).toMatch(/not known/);
  await until('the command to have run', async () => (await sandbox.exists('/workspace/count')).exists);
  expect((await sandbox.exec('cat /workspace/count')).stdout).toBe('x\n');
  expect(cutting.requests.filter((line) => line.includes('/api/execute'))).toHaveLength(1);
});

test('what only reads is asked again', async () => {
  const sandbox = box();
  await sandbox.writeFile('/workspace/f', 'content');
  const cutting = await network((n) => (n <= 3 ? { cutAfter: 0 } : {}));
  const there = getSandbox({ url: cutting.url, token }, sandbox.id);
  expect((await there.readFile('/workspace/f')).content).toBe('content');
  expect(cutting.requests.filter((line) => line.includes('/api/read'))).toHaveLength(4);
  expect(await there.listProcesses()).toEqual([]);
});

test('503 means not yet, and is waited for', async () => {
  let asked = 0;
  const { port } = new URL(url);
  const late = http.createServer((request, response) => {
    if (++asked <= 2) {
      const body = {
        code: 'CONTAINER_UNAVAILABLE',
        message: 'not yet',
        context: { reason: 'container_starting' },
        httpStatus: 503,
      };
      return response.writeHead(503, { 'content-type': 'application/json' }).end(JSON.stringify(body));
    }
    const passed = http.request(
      { port, path: request.url, method: request.method, headers: request.headers },
      (answer) => {
        response.writeHead(answer.statusCode!, answer.headers);
        answer.pipe(response);
      },
    );
    request.pipe(passed);
  });
  await new Promise<void>((done) => late.listen(0, '127.0.0.1', done));
  const sandbox = box({}, { url: `http://127.0.0.1:${(late.address() as { port: number }).port}`, token });
  expect((await sandbox.exec('echo ready')).stdout).toBe('ready\n');
  expect(asked).toBe(3);
  late.closeAllConnections();
  late.close();
});

test('bad options are told by the first call, not swallowed', async () => {
  const sandbox = box({ sleepAfter: 'soon' });
  expect(await failure(sandbox.exec('true'))).toMatchObject({ code: 'VALIDATION_FAILED' });
  expect(() => box({ containerTimeouts: { waitIntervalMS: 1 } })).toThrow(/between 100-5000ms/);
});

test('a hundred calls at once', async () => {
  const sandbox = box({ enableDefaultSession: false });
  const all = await Promise.all(Array.from({ length: 100 }, (_, i) => sandbox.exec(`echo ${i}`)));
  expect(all.map((result) => result.stdout)).toEqual(Array.from({ length: 100 }, (_, i) => `${i}\n`));
});

test('nothing listens: told at once, unless retryMs asks for patience', async () => {
  const gone = await network(() => ({}));
  const { port } = gone;
  await gone.close();
  const began = Date.now();
  for (const place of [`http://127.0.0.1:${port}`, `http://localhost:${port}`, 'unix:/nonexistent/atoll.sock']) {
    const error = await failure(getSandbox({ url: place, token }, 'nobody').exec('true'));
    expect(error).toBeInstanceOf(ContainerUnavailableError);
    expect(error.message).toMatch(/cannot be reached/);
  }
  // Three tries with the default patience would take 15 s.
  expect(Date.now() - began).toBeLessThan(4_000);
});

test('a server that never answers is given up; a command that takes long is not', async () => {
  const mute = net.createServer().listen(0, '127.0.0.1');
  await once(mute, 'listening');
  const sandbox = getSandbox({ url: `http://127.0.0.1:${(mute.address() as net.AddressInfo).port}`, token }, 'nobody');
  const [lost, long] = await Promise.all([failure(sandbox.exec('true')), box().exec('sleep 17; echo slept')]);
  expect(lost).toBeInstanceOf(ContainerUnavailableError);
  expect(lost.message).toMatch(/answers none/);
  expect(long.stdout).toBe('slept\n');
  mute.close();
});

test('an Atoll that has answered may come back', async () => {
  const first = await network(() => ({}));
  const { port } = first;
  const sandbox = box({}, { url: first.url, token });
  await sandbox.exec('true');
  await first.close();
  const running = sandbox.listProcesses();
  // As above: no event tells that a try has failed.
  await new Promise((done) => setTimeout(done, 100));
  await network(() => ({}), port);
  expect(await running).toEqual([]);
});

test("an error of the caller's own stream is that error", async () => {
  const sandbox = box();
  const mine = new Error('the disk of the caller broke');
  let pulls = 0;
  const broken = new ReadableStream<Uint8Array>({
    pull(controller) {
      if (pulls++ === 0) controller.enqueue(new Uint8Array(100_000));
      else controller.error(mine);
    },
  });
  expect(await failure(sandbox.writeFile('/workspace/f', broken))).toBe(mine);
  const early = new ReadableStream<Uint8Array>({ start: (controller) => controller.error(mine) });
  expect(await failure(sandbox.writeFile('/workspace/f', early))).toBe(mine);
  const objects = new ReadableStream<any>({ start: (controller) => controller.enqueue({ a: 1 }) });
  expect((await failure(sandbox.writeFile('/workspace/f', objects))).message).toMatch(/bytes or text, not object/);
  expect((await sandbox.exists('/workspace/f')).exists).toBe(false);
  await sandbox.writeFile('/workspace/f', new Blob(['bytes']).stream());
  expect((await sandbox.readFile('/workspace/f')).content).toBe('bytes');
});

test('content that cannot be written throws, and no request is left behind', async () => {
  const script = `const { getSandbox } = await import('atoll-sandbox'); const s = getSandbox(undefined, 'v-leak');
    for (const bad of [{ a: 1 }, 5, null, undefined])
      await s.writeFile('/f', bad).then(() => console.log('written'), (e) => console.log(e.name));`;
  const run = promisify(execFile)(process.execPath, ['--input-type=module', '-e', script], { timeout: 30_000 });
  expect((await run).stdout).toBe('TypeError\n'.repeat(4));
});
