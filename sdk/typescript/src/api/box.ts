import { errorResponse } from '../errors/base.js';
import { notAtoll } from '../errors/from-response.js';
import { OperationInterruptedError } from '../errors/other-errors.js';
import { AbortError } from '../errors/plain-errors.js';
import { guarded } from '../sse/streams.js';
import { type Exchange, exchange, translate, translateBody } from '../transport/exchange.js';
import { transportTo } from '../transport/index.js';
import type { Transport } from '../transport/types.js';
import type { AtollOptions } from '../types/sandbox.js';

/** Options of a call. */
export interface CallOptions {
  signal?: AbortSignal;
  headers?: Record<string, string>;
  /** It only reads, or doing it twice is doing it once. */
  repeatable?: boolean;
}

/** Milliseconds for which a sandbox that is not ready is waited for, unless `containerTimeouts` says otherwise. */
const defaultReadyMs = 30_000;
const defaultRetryMs = 5_000;

/** A request body without members that are undefined, or nothing at all. */
const encode = (body: object | undefined) => (body === undefined ? undefined : JSON.stringify(body));

/** Turns "there is no such sandbox" into nothing. */
function unknown(error: unknown): undefined {
  if ((error as { code?: string }).code !== 'SANDBOX_NOT_FOUND') throw error;
}

/** One sandbox of one Atoll: its routes, errors as classes, and the settings that must reach it before any other call. */
export class Box {
  readonly id: string;
  readonly base: string;
  readonly retryMs: number;
  readonly #insist: boolean;
  readyMs = defaultReadyMs;
  /** Counts calls of `destroy`: earlier calls belong to a sandbox that is destroyed. */
  lives = 0;
  /** Whether any call was answered. */
  touched = false;
  readonly #atoll: AtollOptions;
  #before: Promise<unknown> | undefined;
  readonly #background = new Set<Promise<void>>();

  constructor(atoll: AtollOptions, id: string) {
    this.id = id;
    this.base = `/v1/sandboxes/${encodeURIComponent(id)}`;
    this.retryMs = atoll.retryMs ?? defaultRetryMs;
    this.#insist = atoll.retryMs !== undefined;
    this.#atoll = atoll;
  }

  transport(): Promise<Transport> {
    return transportTo(this.#atoll);
  }

  /** The daemon's token, for requests that carry another one. */
  async token(): Promise<string | undefined> {
    return (await this.#reach()).token;
  }

  /** Work behind the caller's back that asks for the sandbox: it must be over before that is destroyed, or would make it anew. */
  background<T>(work: Promise<T>): Promise<T> {
    const settled = work.then(
      () => {},
      () => {},
    );
    this.#background.add(settled);
    void settled.then(() => this.#background.delete(settled));
    return work;
  }

  async quiet(): Promise<void> {
    await Promise.all(this.#background);
  }

  /** All later calls wait for this promise. If it fails, the next call throws the error, once. */
  first(work: () => Promise<unknown>): void {
    const before = (this.#before ?? Promise.resolve()).then(work);
    this.#before = before;
    before.catch(() => {});
  }

  async #settled(): Promise<void> {
    const before = this.#before;
    if (!before) return;
    try {
      await before;
    } finally {
      if (this.#before === before) this.#before = undefined;
    }
  }

  #exchange(method: string, path: string, body: Exchange['body'], options: CallOptions): Exchange {
    const headers: Record<string, string> = { ...options.headers };
    if (typeof body === 'string') headers['content-type'] ??= 'application/json';
    const repeatable = options.repeatable ?? (method === 'GET' || method === 'HEAD');
    const { retryMs, readyMs } = this;
    const again = { repeatable, retryMs, readyMs, insist: this.#insist };
    return {
      method,
      path: path.startsWith('/v1/') ? path : this.base + path,
      body,
      headers,
      signal: options.signal,
      ...again,
    };
  }

  /** Any call below `/v1/sandboxes/{id}`, or of a path that begins with `/v1/`; answers that are not 2xx throw. `now` does not wait for `first`. */
  async send(
    method: string,
    path: string,
    body?: Exchange['body'],
    options: CallOptions & { now?: boolean } = {},
  ): Promise<Response> {
    if (options.signal?.aborted) throw new AbortError(options.signal.reason);
    if (!options.now) await this.#settled();
    const transport = await this.#reach();
    const response = await exchange(transport, this.#exchange(method, path, body, options));
    this.touched = true;
    return response;
  }

  async #reach(): Promise<Transport> {
    try {
      return await this.transport();
    } catch (error) {
      throw translate(error, 'an unknown place');
    }
  }

  /** A call with JSON both ways. */
  async json<T>(
    method: string,
    path: string,
    body?: object,
    options: CallOptions & { now?: boolean } = {},
  ): Promise<T> {
    const response = await this.send(method, path, encode(body), options);
    if (response.status === 204) return undefined as T;
    const text = await response.text().catch(async (error) => {
      throw translateBody(error, (await this.transport()).where, options.signal);
    });
    try {
      return JSON.parse(text) as T;
    } catch {
      throw notAtoll((await this.transport()).where, response.status, text);
    }
  }

  /** A call that answers with a stream of events. */
  async stream(
    method: string,
    path: string,
    body?: object,
    options: CallOptions = {},
  ): Promise<ReadableStream<Uint8Array>> {
    const response = await this.send(method, path, encode(body), options);
    const { where } = await this.transport();
    if (!response.headers.get('content-type')?.startsWith('text/event-stream'))
      throw notAtoll(where, response.status, await response.text().catch(() => ''));
    return guarded(response.body!, (error) => translateBody(error, where, options.signal), options.signal);
  }

  /** Before something is taken up again: any call makes a sandbox that is not there, and that one would be another. */
  async stillThere(life: number, operation: string): Promise<void> {
    const info = life === this.lives ? await this.json<{ state: string }>('GET', '').catch(unknown) : undefined;
    if (info && info.state !== 'stopped') return;
    const reason = info ? 'runtime_replaced' : 'sandbox_lifetime_changed';
    const context = { reason, operation, phase: 'resume', admitted: true, retryable: false } as const;
    const message = `${operation}: the sandbox ${info ? 'has stopped' : 'was destroyed'} meanwhile`;
    throw new OperationInterruptedError(errorResponse('OPERATION_INTERRUPTED', message, context, 409));
  }

  /** A request passed on as it is; whatever is answered comes back. */
  async pass(method: string, path: string, body: Exchange['body'], options: CallOptions = {}): Promise<Response> {
    await this.#settled();
    const transport = await this.#reach();
    const request = this.#exchange(method, path, body, options);
    return transport.send(request).catch((error) => Promise.reject(translate(error, transport.where, options.signal)));
  }

  /** A request that becomes a WebSocket. */
  async upgrade(path: string, options: CallOptions = {}): Promise<Response> {
    await this.#settled();
    const transport = await this.#reach();
    const request = this.#exchange('GET', path, undefined, options);
    const response = await exchange(transport, request, (r) => transport.upgrade(r));
    this.touched = true;
    return response;
  }
}
