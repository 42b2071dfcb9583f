import { type FSWatcher, readFileSync, watch } from 'node:fs';
import { register } from 'node:module';
import { basename, dirname, extname, relative } from 'node:path';
import { pathToFileURL } from 'node:url';
import { parseEnv } from 'node:util';
import { MessageChannel } from 'node:worker_threads';

/** Editors write a file in several steps: wait so long for the last one. */
const quietMs = 60;
/** How long work that was handed to `waitUntil` may take after Ctrl-C. */
const settleMs = 2_000;

interface Handler {
  fetch(request: Request, env: unknown, ctx: unknown): Response | Promise<Response>;
}

const bindingsHint =
  'Durable Objects and bindings (KV, R2, D1, queues, services …) need workerd: use onAtoll() of atoll-sandbox/workers, see docs/moving.md.';

/** `env` for one request. It notes which names were asked for in vain. */
function environmentOf(values: Record<string, unknown>, missing: Set<string>): Record<string, unknown> {
  return new Proxy(values, {
    get(target, name) {
      if (typeof name === 'string' && !(name in target)) missing.add(name);
      return Reflect.get(target, name);
    },
  });
}

/** A program that is shaped like a Worker: loaded, loaded again when its files change, and called. */
export class Program {
  readonly #entry: string;
  readonly #envFile: string | undefined;
  readonly #files = new Set<string>();
  readonly #watched = new Map<string, FSWatcher>();
  readonly #pending = new Set<Promise<unknown>>();
  #handler: Handler | undefined;
  #failure: Error | undefined;
  #values: Record<string, unknown> = {};
  #loads = 0;
  #timer: NodeJS.Timeout | undefined;
  #watching = false;

  constructor(entry: string, envFile: string | undefined) {
    this.#entry = entry;
    this.#envFile = envFile;
    this.#files.add(entry);
    if (envFile) this.#files.add(envFile);
    const { port1, port2 } = new MessageChannel();
    register('./hooks.js', import.meta.url, { data: { files: port2 }, transferList: [port2] });
    port1.on('message', (path: string) => {
      this.#files.add(path);
      if (this.#watching) this.#watchDirectory(dirname(path));
    });
    port1.unref();
  }

  /** Loads the program, its variables and all its files. */
  async load(): Promise<void> {
    const values = this.#readEnvironment();
    const module = await import(`${pathToFileURL(this.#entry).href}?atoll=${++this.#loads}`);
    const handler = module.default;
    if (typeof handler?.fetch !== 'function')
      throw new Error(
        `${this.#entry} has no \`export default { async fetch(request, env, ctx) { … } }\`` +
          (typeof handler === 'function' ? `: its default export is a class. ${bindingsHint}` : ''),
      );
    this.#noteClasses(module);
    this.#handler = handler;
    this.#values = values;
    this.#failure = undefined;
  }

  /** A Durable Object of the program's own would never be made: say so before a request finds out. */
  #noteClasses(module: Record<string, any>): void {
    for (const [name, value] of Object.entries(module)) {
      const isObject = typeof value === 'function' && (value.prototype?.fetch || value.prototype?.alarm);
      const isSandbox = typeof value?.prototype?.containerFetch === 'function';
      if (isObject && !isSandbox) console.warn(`The class ${name} is not served. ${bindingsHint}`);
    }
  }

  #readEnvironment(): Record<string, unknown> {
    let values: Record<string, unknown> = {};
    if (this.#envFile) {
      const text = readFileSync(this.#envFile, 'utf8');
      try {
        values = extname(this.#envFile) === '.json' ? JSON.parse(text) : { ...parseEnv(text) };
      } catch (error) {
        throw new Error(`${this.#envFile} cannot be read as JSON: ${(error as Error).message}`);
      }
    }
    const { ATOLL_URL: url, ATOLL_TOKEN: token } = values as Record<string, string | undefined>;
    // `getSandbox(undefined, …)`, for bindings of any other name, looks there.
    if (url) process.env.ATOLL_URL = url;
    if (token) process.env.ATOLL_TOKEN = token;
    return { Sandbox: { ...(url && { url }), ...(token && { token }) }, ...values };
  }

  /** Hands a request to the program. Errors are printed and become a response. */
  async fetch(request: Request): Promise<Response> {
    if (this.#failure) return failed(this.#failure);
    const missing = new Set<string>();
    const ctx = {
      props: {},
      waitUntil: (work: Promise<unknown>) => this.#keep(work),
      passThroughOnException: () => {},
    };
    try {
      const response = await this.#handler!.fetch(request, environmentOf(this.#values, missing), ctx);
      if (response instanceof Response) return response;
      throw new TypeError('fetch() of the program answered something that is no Response');
    } catch (error) {
      const told = error instanceof Error ? error : new Error(String(error));
      if (told instanceof TypeError && missing.size)
        told.message += `\n${[...missing].map((name) => `env.${name} is not set`).join(', ')}. ${bindingsHint}`;
      console.error(told instanceof TypeError && missing.size ? `${told.message}\n${told.stack}` : told);
      return failed(told);
    }
  }

  #keep(work: Promise<unknown>): void {
    const done = Promise.resolve(work)
      .catch((error) => console.error('waitUntil:', error))
      .finally(() => this.#pending.delete(done));
    this.#pending.add(done);
  }

  /** Waits for work that was handed to `waitUntil`, but not for long. */
  async settled(): Promise<void> {
    const enough = new Promise((done) => setTimeout(done, settleMs).unref());
    await Promise.race([Promise.all(this.#pending), enough]);
  }

  /** Loads the program again whenever one of its files changes. */
  watch(): void {
    this.#watching = true;
    for (const file of this.#files) this.#watchDirectory(dirname(file));
  }

  /** Directories, not files: an editor may put another file in a file's place. */
  #watchDirectory(directory: string): void {
    if (this.#watched.has(directory)) return;
    const watcher = watch(directory, (_event, name) => {
      const changed = [...this.#files].some((file) => dirname(file) === directory && basename(file) === name);
      if (!changed) return;
      clearTimeout(this.#timer);
      this.#timer = setTimeout(() => void this.#reload(), quietMs);
    });
    watcher.on('error', () => this.#watched.delete(directory));
    this.#watched.set(directory, watcher);
  }

  async #reload(): Promise<void> {
    const name = relative(process.cwd(), this.#entry);
    try {
      await this.load();
      console.log(`Reloaded ${name}`);
    } catch (error) {
      this.#failure = error instanceof Error ? error : new Error(String(error));
      console.error(`${name} cannot be loaded:\n${this.#failure.stack}`);
    }
  }

  close(): void {
    clearTimeout(this.#timer);
    for (const watcher of this.#watched.values()) watcher.close();
    this.#watched.clear();
  }
}

function failed(error: Error): Response {
  const headers = { 'content-type': 'text/plain; charset=utf-8' };
  return new Response(`${error.name}: ${error.message}\n`, { status: 500, headers });
}
