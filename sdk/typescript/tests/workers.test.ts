import { createServer } from 'node:http';
import type { AddressInfo } from 'node:net';
import { expect, test } from 'vitest';
import { Daemon } from '../src/workers/daemon.js';
import { boxId, onAtoll } from '../src/workers/index.js';
import { tcpPort } from '../src/workers/port.js';

const OBJECT = '0123456789abcdef'.repeat(4);

test('a box has the name of its object where Atoll accepts it', () => {
  for (const name of ['user-1', 'User.1', 'a', 'x'.repeat(63), 'a_b~c!']) expect(boxId(name, OBJECT)).toBe(name);
  for (const name of [undefined, '', '-a', 'a-', 'a b', 'a/b', 'grüße', 'API', 'www', 'x'.repeat(64), 'a\n']) {
    expect(boxId(name, OBJECT)).toBe(`do-${OBJECT.slice(0, 60)}`);
  }
  expect(boxId(undefined, OBJECT)).toHaveLength(63);
});

/** As much of a Durable Object's state as a constructor sees. */
function state(remembered?: unknown) {
  const kept = new Map<string, unknown>(remembered === undefined ? [] : [['atoll:box', remembered]]);
  const kv = {
    get: (k: string) => kept.get(k),
    put: (k: string, v: unknown) => kept.set(k, v),
    delete: (k: string) => kept.delete(k),
  };
  return {
    id: { name: 'n', toString: () => OBJECT },
    storage: { kv },
    blockConcurrencyWhile: <T>(run: () => Promise<T>) => run(),
  };
}

test('the class keeps its name, its statics and its arguments', () => {
  class Base {
    static known = 1;
    constructor(
      readonly ctx: { container?: { running: boolean } },
      readonly env: unknown,
    ) {}
  }
  const Wrapped = onAtoll(Base);
  expect(Wrapped.name).toBe('Base');
  expect(Wrapped.known).toBe(1);
  const env = { ATOLL_URL: 'http://127.0.0.1:1' };
  const made = new Wrapped(state() as never, env);
  expect(made).toBeInstanceOf(Base);
  expect(made.env).toBe(env);
  expect(made.ctx.container?.running).toBe(false);
});

test('a bad address is told when the object is made', () => {
  const Wrapped = onAtoll(class Empty {}, { url: 'no url' }) as new (ctx: unknown, env: unknown) => object;
  expect(() => new Wrapped(state(), {})).toThrow(/Invalid URL/);
});

test('what cannot be asked of a container that does not run is refused', async () => {
  class Base {
    constructor(readonly ctx: { container: import('../src/workers/index.js').DurableObjectContainer }) {}
  }
  const { container } = new (onAtoll(Base as never) as unknown as new (ctx: unknown, env: unknown) => Base)(state(), {})
    .ctx;
  await expect(container.monitor()).rejects.toThrow(/not running/);
  expect(() => container.signal(15)).toThrow(/not running/);
  expect(() => container.getTcpPort(70000)).toThrow(/Invalid port/);
  await expect(container.getTcpPort(8080).fetch('http://x/')).rejects.toThrow(/not running/);
  expect(() => container.getTcpPort(8080).connect('x')).toThrow(/fetch\(\)/);
});

test('whether the agent listens is known without a request, whether an app does is not', async () => {
  const asked: string[] = [];
  const server = createServer((request, response) => {
    asked.push(`${request.method} ${request.url}`);
    response.end();
  });
  await new Promise<void>((done) => server.listen(0, '127.0.0.1', done));
  const daemon = new Daemon({ url: `http://127.0.0.1:${(server.address() as AddressInfo).port}` }, 'x');
  let ready = Promise.resolve();
  const port = (number: number) =>
    tcpPort(
      () => daemon,
      number,
      () => ready,
    );
  for (const probe of ['http://containerstarthealthcheck', 'http://ping'])
    expect((await port(3000).fetch(probe)).ok).toBe(true);
  expect(asked).toEqual([]);
  await port(3000).fetch('http://ping/health');
  await port(3000).fetch('http://ping', { method: 'POST' });
  await port(3000).fetch('http://localhost/');
  await port(8080).fetch('http://ping');
  const paths = ['GET 3000/health', 'POST 3000/', 'GET 3000/', 'GET 8080/'];
  expect(asked).toEqual(paths.map((path) => path.replace(' ', ' /v1/sandboxes/x/proxy/')));
  ready = Promise.reject(new Error('it did not start'));
  await expect(port(3000).fetch('http://ping')).rejects.toThrow(/did not start/);
  server.close();
});
