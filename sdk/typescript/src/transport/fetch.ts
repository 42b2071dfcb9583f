import type { Place } from './locate.js';
import { upgradeOverSocket } from './node-upgrade.js';
import { runtime } from './runtime.js';
import { ConnectionLostError, NotSentError, type Transport, type TransportRequest } from './types.js';

/** Words with which runtimes say that a connection could not even be made. */
const refused =
  /ECONNREFUSED|ConnectionRefused|Connection refused|Unable to connect|ENOENT|FailedToOpenSocket|No such file|dns error/i;
/** Of these, the ones of a name server that may answer another time. */
const temporary = /dns error|EAI_AGAIN/i;

function explain(error: unknown): string {
  const { message, code, cause } = error as { message?: string; code?: string; cause?: unknown };
  return [message, code, cause ? explain(cause) : undefined].filter(Boolean).join(': ');
}

/** Everywhere but in Node: the runtime's own `fetch`. */
export class FetchTransport implements Transport {
  readonly where: string;
  readonly token: string | undefined;
  readonly #place: Place;
  readonly #extra: Record<string, unknown> = {};

  constructor(place: Place) {
    this.#place = place;
    this.token = place.token;
    this.where = place.socketPath ? `unix:${place.socketPath}` : place.url.host;
    if (runtime() === 'bun') this.#extra = { timeout: false, ...(place.socketPath && { unix: place.socketPath }) };
    else if (place.socketPath && runtime() === 'deno') {
      const proxy = { transport: 'unix', path: place.socketPath };
      this.#extra = { client: (globalThis as any).Deno.createHttpClient({ proxy }) };
    } else if (place.socketPath) throw new TypeError('there are no unix sockets here: name an Atoll by {url, token}');
  }

  #init(request: TransportRequest): [string, RequestInit] {
    const headers: Record<string, string> = { ...request.headers };
    if (this.#place.token) headers.authorization ??= `Bearer ${this.#place.token}`;
    const base = this.#place.url.href.replace(/\/$/, '');
    const { method, body, signal } = request;
    const streaming = body instanceof ReadableStream ? { duplex: 'half' } : {};
    const init = { method, body, signal, headers, redirect: 'manual', ...streaming, ...this.#extra };
    return [base + request.path, init as RequestInit];
  }

  async send(request: TransportRequest): Promise<Response> {
    request.signal?.throwIfAborted();
    try {
      return await fetch(...this.#init(request));
    } catch (cause) {
      if (request.signal?.aborted) throw request.signal.reason;
      const text = explain(cause);
      if (!refused.test(text)) throw new ConnectionLostError(text, { cause });
      throw new NotSentError(text, { cause, nothingListens: !temporary.test(text) });
    }
  }

  async upgrade(request: TransportRequest): Promise<Response> {
    if (runtime() !== 'web') return upgradeOverSocket(this.#place, request);
    return this.send({ ...request, headers: { ...request.headers, upgrade: 'websocket' } });
  }
}
