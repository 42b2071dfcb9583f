/* `atoll-sandbox dev`: programs that are shaped like Workers, served by Node. */
import { type ChildProcess, spawn } from 'node:child_process';
import { mkdtemp, rm, writeFile } from 'node:fs/promises';
import { createRequire } from 'node:module';
import net from 'node:net';
import os from 'node:os';
import { join } from 'node:path';
import { fileURLToPath } from 'node:url';
import { afterEach, beforeEach, expect, test } from 'vitest';
import { box, daemon, until } from './support/boxes.js';

/* Not the package's own implementation, which is at the other end. */
const WebSocket = createRequire(import.meta.url)('ws');
const main = fileURLToPath(new URL('../dist/dev/main.js', import.meta.url));
const { url, token } = daemon();
let directory: string;
const children: ChildProcess[] = [];

beforeEach(async () => {
  directory = await mkdtemp(join(os.tmpdir(), 'atoll-dev-'));
});
afterEach(async () => {
  for (const child of children.splice(0)) child.kill('SIGKILL');
  await rm(directory, { recursive: true });
});

const file = (name: string, text: string) => writeFile(join(directory, name), text);

/** A server of a program in the directory; `said` is all that it has printed. */
class Dev {
  said = '';
  readonly #child: ChildProcess;
  readonly ended: Promise<number | null>;

  constructor(...args: string[]) {
    const env = { PATH: process.env.PATH, HOME: directory };
    this.#child = spawn(process.execPath, [main, ...args], { cwd: directory, env });
    children.push(this.#child);
    this.#child.stdout!.on('data', (chunk) => (this.said += chunk));
    this.#child.stderr!.on('data', (chunk) => (this.said += chunk));
    this.ended = new Promise((done) => this.#child.once('close', done));
  }
  get url(): string | undefined {
    return /Ready on (http:\S+)/.exec(this.said)?.[1];
  }
  async says(pattern: RegExp): Promise<void> {
    const over = this.ended.then(() => true);
    await until(`${pattern} in\n${this.said}`, async () => {
      if (pattern.test(this.said)) return true;
      if (await Promise.race([over, Promise.resolve(false)])) throw new Error(`it ended:\n${this.said}`);
      return false;
    });
  }
  async text(path: string, init?: RequestInit): Promise<string> {
    return (await fetch(this.url! + path, init)).text();
  }
  stop(): void {
    this.#child.kill('SIGINT');
  }
}

async function started(...args: string[]): Promise<Dev> {
  const dev = new Dev('dev', '--port', '0', ...args);
  await dev.says(/Ready on/);
  return dev;
}

const worker = `
import { getSandbox, proxyToSandbox, type Sandbox } from '@cloudflare/sandbox';
import { greeting } from './greeting';
export { ContainerProxy, Sandbox } from '@cloudflare/sandbox';

interface Env { Sandbox: DurableObjectNamespace<Sandbox>; NAME: string }
enum Kind { Plain = 'plain' }

export default {
  async fetch(request: Request, env: Env, ctx: ExecutionContext): Promise<Response> {
    const preview = await proxyToSandbox(request, env);
    if (preview) return preview;
    const { pathname, searchParams } = new URL(request.url);
    const sandbox = getSandbox(env.Sandbox, searchParams.get('id') ?? 'none');
    if (pathname === '/run') {
      const result = await sandbox.exec(await request.text());
      ctx.waitUntil(Promise.resolve());
      return Response.json({ output: result.stdout, name: env.NAME, greeting, kind: Kind.Plain });
    }
    if (pathname === '/file') return new Response(await sandbox.readFile(searchParams.get('path')!));
    if (pathname === '/terminal') return sandbox.terminal(request);
    if (pathname === '/stream') return new Response(await sandbox.execStream('seq 1 3'));
    if (pathname === '/kv') return new Response(await (env as any).CACHE.get('x'));
    if (pathname === '/throws') throw new RangeError('of the program');
    return new Response(greeting, { headers: [['set-cookie', 'a=1'], ['set-cookie', 'b=2']] });
  },
} satisfies ExportedHandler<Env>;
`;

async function project(): Promise<void> {
  await file('worker.ts', worker);
  await file('greeting.ts', `export const greeting: string = 'hello';\n`);
  await file('.dev.vars', `ATOLL_URL=${url}\nATOLL_TOKEN="${token}"\nNAME=value\n`);
}

test('serves a program in TypeScript with variables from a file', async () => {
  await project();
  const dev = await started('worker.ts');
  const sandbox = box();
  const run = await dev.text(`/run?id=${sandbox.id}`, { method: 'POST', body: 'echo out' });
  expect(JSON.parse(run)).toEqual({ output: 'out\n', name: 'value', greeting: 'hello', kind: 'plain' });
  await sandbox.writeFile('/workspace/f', 'content');
  expect(await dev.text(`/file?id=${sandbox.id}&path=/workspace/f`)).toBe('content');
  expect(await dev.text(`/stream?id=${sandbox.id}`)).toMatch(/"data":"1\\n/);
  expect((await fetch(dev.url!)).headers.getSetCookie()).toEqual(['a=1', 'b=2']);

  const threw = await fetch(`${dev.url}/throws`);
  expect([threw.status, await threw.text()]).toEqual([500, 'RangeError: of the program\n']);
  await dev.says(/worker\.ts:\d+/); // the stack has the lines of the source
  expect(await dev.text('/kv')).toMatch(/env\.CACHE is not set.*onAtoll/);

  dev.stop();
  expect(await dev.ended).toBe(0);
});

test('answers preview URLs and WebSockets', async () => {
  await project();
  const dev = await started('worker.ts');
  const sandbox = box();
  const p = await sandbox.startProcess('cd /tmp; echo page > index.html; python3 -m http.server 8080');
  await p.waitForPort(8080);
  const { url: preview } = await sandbox.exposePort(8080, { token: 'demo' });
  const { port } = new URL(dev.url!);
  const raw = await talk(
    Number(port),
    `GET / HTTP/1.1\r\nHost: ${new URL(preview).hostname}:${port}\r\nConnection: close\r\n\r\n`,
  );
  expect(raw).toMatch(/^HTTP\/1\.1 200.*page/s);

  const socket = new WebSocket(`${dev.url!.replace('http', 'ws')}/terminal?id=${sandbox.id}`);
  socket.binaryType = 'arraybuffer';
  let screen = '';
  socket.addEventListener('message', ({ data }: any) => {
    screen += typeof data === 'string' ? '' : new TextDecoder().decode(data);
  });
  await new Promise((done) => socket.addEventListener('open', done));
  socket.send(new TextEncoder().encode('echo sum $((40 + 2))\r'));
  await until('the terminal to answer', () => /sum 42/.test(screen));
  // Ctrl-C ends the server while a client is connected.
  dev.stop();
  expect(await dev.ended).toBe(0);
});

/** All that a server answers to a text, up to its end. */
function talk(port: number, text: string): Promise<string> {
  return new Promise((done, fail) => {
    let got = '';
    const socket = net.connect(port, '127.0.0.1', () => socket.write(text));
    socket.on('data', (chunk) => (got += chunk));
    socket.on('close', () => done(got));
    socket.on('error', fail);
  });
}

test('loads the program again when a file of it changes, and says what is wrong with it', async () => {
  await project();
  const dev = await started('worker.ts');
  expect(await dev.text('/')).toBe('hello');
  await file('greeting.ts', `export const greeting: string = 'good morning';\n`);
  await until('the new text', async () => (await dev.text('/')) === 'good morning');
  await file('greeting.ts', 'export const greeting: = ;\n');
  await dev.says(/cannot be loaded/);
  const broken = await fetch(dev.url!);
  expect([broken.status, await broken.text()]).toEqual([500, expect.stringMatching(/greeting\.ts/)]);
  await file('greeting.ts', `export const greeting = 'well again';\n`);
  await until('the repaired text', async () => (await dev.text('/')) === 'well again');
  await file('.dev.vars', `ATOLL_URL=${url}\nATOLL_TOKEN=${token}\nNAME=other\n`);
  const sandbox = box();
  const run = () => dev.text(`/run?id=${sandbox.id}`, { method: 'POST', body: 'true' });
  await until('the new variable', async () => JSON.parse(await run()).name === 'other');
});

test('JSON as a file of variables; JavaScript, JSON and text as modules', async () => {
  await file('env.json', JSON.stringify({ Sandbox: { url, token }, LIST: [1, 2] }));
  await file('data.json', '{"from": "json"}');
  await file('note.txt', 'from text');
  await file(
    'worker.js',
    `import { getSandbox } from 'atoll-sandbox'; import data from './data.json'; import note from './note.txt';
     export default { async fetch(request, env) {
       const sandbox = getSandbox(env.Sandbox, new URL(request.url).searchParams.get('id'));
       return Response.json([data.from, note, env.LIST, (await sandbox.exec('echo hi')).stdout]);
     } };`,
  );
  const dev = await started('worker.js', '--env', 'env.json');
  expect(JSON.parse(await dev.text(`/?id=${box().id}`))).toEqual(['json', 'from text', [1, 2], 'hi\n']);
});

test('Durable Objects and mistakes are told, and end it', async () => {
  await file(
    'object.ts',
    `import { DurableObject } from 'cloudflare:workers'; export class A extends DurableObject {}`,
  );
  await file('empty.ts', 'export const x = 1;');
  await file('old.ts', `export class Counter { fetch() {} } export default { fetch: () => new Response('ok') };`);
  const ends = async (code: number, pattern: RegExp, ...args: string[]) => {
    const dev = new Dev(...args);
    expect(await dev.ended).toBe(code);
    expect(dev.said).toMatch(pattern);
  };
  await ends(1, /imports 'cloudflare:workers'.*onAtoll/s, 'dev', 'object.ts');
  await ends(1, /has no `export default/, 'dev', 'empty.ts');
  await ends(2, /there is no file none\.ts/, 'dev', 'none.ts');
  await ends(2, /no command 'deploy'/, 'deploy', 'empty.ts');
  await ends(0, /Usage: atoll-sandbox dev/, '--help');
  const dev = await started('old.ts');
  await dev.says(/class Counter is not served.*onAtoll/);
  await ends(1, /is in use: choose another one with --port/, 'dev', 'old.ts', '--port', new URL(dev.url!).port);
});
