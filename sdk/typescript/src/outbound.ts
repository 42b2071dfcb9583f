/**
 * The client's side of a hook: requests of a sandbox arrive over a WebSocket, a handler answers them.
 *
 * The messages are described in the daemon's `src/daemon/network/hooks.h`: a byte that says what, four bytes that say which
 * request, and the rest. Bodies stream in both directions, limited by credit.
 */

import { upgradeOverSocket } from './transport/node-upgrade.js';
import { runtime } from './transport/runtime.js';
import type { Socket } from './transport/types.js';

/**
 * Answers a request of a sandbox in the place of the server that it was meant for. A request for a WebSocket is answered with
 * a response that has the property `webSocket`, as `forwardWebSocket` and the `fetch` of Workers give.
 */
export type OutboundHandler = (request: Request) => Response | Promise<Response>;

/** As much of a WebSocket as a hook needs. */
export interface HookSocket {
  send(data: Uint8Array): void;
  close(code?: number, reason?: string): void;
  addEventListener(type: 'message', listener: (event: { data: any }) => void): void;
  addEventListener(type: 'close' | 'error', listener: () => void): void;
}

const REQUEST = 1;
const BODY = 2;
const END = 3;
const GIVE_UP = 4;
const ANSWER = 5;
const ANSWER_BODY = 6;
const ANSWER_END = 7;
const CREDIT = 8;
const FAILED = 9;
const SOCKET = 10;
const SOCKET_END = 11;

const HEAD = 5;
const WINDOW = 256 * 1024;
const PIECE = 64 * 1024;
/** The longest message of a WebSocket that the daemon passes on. */
const MESSAGE_MAX = 1024 * 1024;
/** Close codes that nobody sends. */
const UNSENT = new Set([1005, 1006]);

/** The daemon's framing is its own; a body that was read here is no longer encoded. */
const DROPPED = new Set(['connection', 'keep-alive', 'transfer-encoding', 'upgrade']);

interface RequestHead {
  method: string;
  url: string;
  headers: [string, string][];
  body: boolean;
}

class Exchange {
  #received = 0;
  #granted = 0;
  #controller: ReadableStreamDefaultController<Uint8Array> | null = null;
  #credit = WINDOW;
  #wake: (() => void) | null = null;
  #socket: Socket | null = null;
  readonly #abort = new AbortController();

  constructor(
    private readonly send: (kind: number, rest?: Uint8Array) => void,
    private readonly handler: OutboundHandler,
  ) {}

  async run(head: RequestHead): Promise<void> {
    try {
      const response = await this.handler(this.#request(head));
      const socket = (response as Response & { webSocket?: Socket | null }).webSocket;
      if (socket) await this.#bridge(socket, response.headers);
      else await this.#answer(response, head.method);
    } catch (error) {
      if (!this.#abort.signal.aborted) this.send(FAILED, text(String(error)));
    }
  }

  #request(head: RequestHead): Request {
    const init: RequestInit & { duplex?: 'half' } = {
      method: head.method,
      headers: new Headers(head.headers),
      redirect: 'manual',
      signal: this.#abort.signal,
    };
    if (head.body && head.method !== 'GET' && head.method !== 'HEAD') {
      init.body = this.#body();
      init.duplex = 'half';
    }
    return new Request(head.url, init);
  }

  /** Whatever the handler has read is granted again. */
  #body(): ReadableStream<Uint8Array> {
    return new ReadableStream<Uint8Array>(
      {
        start: (controller) => {
          this.#controller = controller;
        },
        pull: (controller) => {
          const read = this.#received - (WINDOW - (controller.desiredSize ?? WINDOW));
          const more = read - this.#granted;
          if (more <= 0) return;
          this.#granted += more;
          this.send(CREDIT, number(more));
        },
      },
      { highWaterMark: WINDOW, size: (chunk) => chunk?.byteLength ?? 0 },
    );
  }

  take(bytes: Uint8Array): void {
    this.#received += bytes.byteLength;
    this.#controller?.enqueue(bytes.slice());
  }
  end(): void {
    this.#controller?.close();
    this.#controller = null;
  }
  giveUp(): void {
    this.#abort.abort();
    this.#controller?.error(new Error('the request was given up'));
    this.#controller = null;
    this.#socket?.close();
    this.#wake?.();
  }
  credit(bytes: number): void {
    this.#credit += bytes;
    if (this.#credit > 0) this.#socket?.resume?.();
    this.#wake?.();
  }

  /** The handler has a WebSocket for the program in the sandbox: until one of both ends it. */
  #bridge(socket: Socket, headers: Headers): Promise<void> {
    this.#socket = socket;
    const protocol = headers.get('sec-websocket-protocol') ?? (socket as { protocol?: string }).protocol;
    const chosen = protocol ? [['sec-websocket-protocol', protocol]] : [];
    this.send(ANSWER, text(JSON.stringify({ status: 101, headers: chosen })));
    if ('binaryType' in socket) (socket as { binaryType: string }).binaryType = 'arraybuffer';
    return new Promise((resolve) => {
      const over = (code: number, reason: string): void => {
        if (!this.#socket) return;
        this.#socket = null;
        this.send(SOCKET_END, closing(code, reason));
        resolve();
      };
      socket.addEventListener('message', ({ data }) => this.#say(data));
      socket.addEventListener('close', ({ code, reason }) => over(code ?? 1005, reason ?? ''));
      socket.addEventListener('error', () => over(1011, 'the connection broke'));
      socket.accept?.();
    });
  }

  #say(data: string | ArrayBuffer | Uint8Array): void {
    const bytes = typeof data === 'string' ? text(data) : new Uint8Array(data);
    if (bytes.byteLength > MESSAGE_MAX) {
      this.#socket?.close(1009, 'a message is too long');
      return;
    }
    this.#credit -= bytes.byteLength;
    if (this.#credit <= 0) this.#socket?.pause?.();
    const message = new Uint8Array(1 + bytes.byteLength);
    message[0] = typeof data === 'string' ? 1 : 0;
    message.set(bytes, 1);
    this.send(SOCKET, message);
  }
  heard(rest: Uint8Array): void {
    const bytes = rest.slice(1);
    this.#socket?.send(rest[0] === 1 ? new TextDecoder().decode(bytes) : bytes);
    if (bytes.byteLength) this.send(CREDIT, number(bytes.byteLength));
  }
  ended(rest: Uint8Array): void {
    const code = rest.byteLength < 2 ? 1005 : new DataView(rest.buffer, rest.byteOffset).getUint16(0);
    // Other codes are not for programs to send.
    if (code === 1000 || code >= 3000) this.#socket?.close(code, new TextDecoder().decode(rest.subarray(2)));
    else this.#socket?.close();
  }

  async #answer(response: Response, method: string): Promise<void> {
    const encoded = response.headers.has('content-encoding');
    const headers: [string, string][] = [];
    response.headers.forEach((value, name) => {
      const gone = DROPPED.has(name) || name === 'set-cookie' || (encoded && /^content-(encoding|length)$/.test(name));
      if (!gone) headers.push([name, value]);
    });
    for (const cookie of response.headers.getSetCookie?.() ?? []) headers.push(['set-cookie', cookie]);
    this.send(ANSWER, text(JSON.stringify({ status: response.status, headers })));
    if (method === 'HEAD') await response.body?.cancel();
    else if (response.body) await this.#stream(response.body.getReader());
    this.send(ANSWER_END);
  }

  async #stream(reader: ReadableStreamDefaultReader<Uint8Array>): Promise<void> {
    for (;;) {
      const { done, value } = await reader.read();
      if (done) return;
      for (let at = 0; at < value.byteLength; ) {
        while (this.#credit <= 0 && !this.#abort.signal.aborted)
          await new Promise<void>((resolve) => {
            this.#wake = resolve;
          });
        if (this.#abort.signal.aborted) {
          await reader.cancel();
          throw new Error('given up');
        }
        const piece = value.subarray(at, at + Math.min(PIECE, this.#credit));
        this.#credit -= piece.byteLength;
        at += piece.byteLength;
        this.send(ANSWER_BODY, piece);
      }
    }
  }
}

function closing(code: number, reason: string): Uint8Array {
  const words = text(UNSENT.has(code) ? '' : reason);
  const bytes = new Uint8Array(2 + words.byteLength);
  new DataView(bytes.buffer).setUint16(0, code);
  bytes.set(words, 2);
  return bytes;
}

const text = (value: string): Uint8Array => new TextEncoder().encode(value);

function number(value: number): Uint8Array {
  const bytes = new Uint8Array(4);
  new DataView(bytes.buffer).setUint32(0, value);
  return bytes;
}

/** Serves requests until the socket closes. */
export function serveHook(socket: HookSocket, handler: OutboundHandler): void {
  const running = new Map<number, Exchange>();
  const over = (): void => {
    for (const exchange of running.values()) exchange.giveUp();
    running.clear();
  };
  const sender = (id: number) => (kind: number, rest?: Uint8Array) => {
    const message = new Uint8Array(HEAD + (rest?.byteLength ?? 0));
    message[0] = kind;
    new DataView(message.buffer).setUint32(1, id);
    if (rest) message.set(rest, HEAD);
    try {
      socket.send(message);
    } catch {
      // The socket is closing; `over` follows.
    }
  };
  const take = (message: Uint8Array): void => {
    const view = new DataView(message.buffer, message.byteOffset, message.byteLength);
    const id = view.getUint32(1);
    const rest = message.subarray(HEAD);
    if (message[0] === REQUEST) {
      const exchange = new Exchange(sender(id), handler);
      running.set(id, exchange);
      exchange.run(JSON.parse(new TextDecoder().decode(rest))).finally(() => running.delete(id));
      return;
    }
    const exchange = running.get(id);
    if (message[0] === BODY) exchange?.take(rest);
    else if (message[0] === END) exchange?.end();
    else if (message[0] === GIVE_UP) exchange?.giveUp();
    else if (message[0] === CREDIT) exchange?.credit(view.getUint32(HEAD));
    else if (message[0] === SOCKET) exchange?.heard(rest);
    else if (message[0] === SOCKET_END) exchange?.ended(rest);
  };
  // Messages keep their order, also where one has to be read first.
  let queue: Promise<void> = Promise.resolve();
  socket.addEventListener('message', ({ data }) => {
    if (typeof data === 'string') return;
    if (data instanceof ArrayBuffer || ArrayBuffer.isView(data)) {
      const bytes =
        data instanceof ArrayBuffer
          ? new Uint8Array(data)
          : new Uint8Array(data.buffer, data.byteOffset, data.byteLength);
      take(bytes);
      return;
    }
    queue = queue.then(async () => take(new Uint8Array(await (data as Blob).arrayBuffer())));
  });
  socket.addEventListener('close', over);
  socket.addEventListener('error', over);
}

/** Whether a host that was asked for is meant by a pattern: `example.com`, `*.example.com`, `10.0.0.1:80`, `*`. */
export function meansHost(pattern: string, url: URL): boolean {
  const port = url.port || (url.protocol === 'https:' ? '443' : '80');
  const expression = new RegExp(
    `^${pattern
      .split('*')
      .map((part) => part.replace(/[.+?^${}()|[\]\\]/g, '\\$&'))
      .join('.*')}$`,
    'i',
  );
  return expression.test(url.hostname) || expression.test(`${url.hostname}:${port}`);
}

/** Headers of one connection; those of the handshake are made anew. */
const OF_HOP = /^(connection|upgrade|host|keep-alive|sec-websocket-(key|version|extensions))$/;

/**
 * Sends a sandbox's request for a WebSocket on to its server, from here. The response has `webSocket`, or is what the server
 * answered instead; return it from an outbound handler.
 */
export function forwardWebSocket(request: Request): Promise<Response> {
  if (runtime() === 'web') return fetch(request);
  const url = new URL(request.url);
  const headers: Record<string, string> = {};
  request.headers.forEach((value, name) => {
    if (!OF_HOP.test(name)) headers[name] = value;
  });
  const place = { url: new URL(url.origin), token: undefined, socketPath: undefined };
  const path = url.pathname + url.search;
  return upgradeOverSocket(place, { method: 'GET', path, headers, signal: request.signal });
}
