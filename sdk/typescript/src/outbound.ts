/**
 * The client's side of a hook: requests of a sandbox arrive over a WebSocket, a handler answers them.
 *
 * The messages are described in the daemon's `src/daemon/network/hooks.h`: a byte that says what, four bytes that say which
 * request, and the rest. Bodies stream in both directions, limited by credit.
 */

/** Answers a request of a sandbox in the place of the server that it was meant for. */
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

const HEAD = 5;
const WINDOW = 256 * 1024;
const PIECE = 64 * 1024;

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
  readonly #abort = new AbortController();

  constructor(
    private readonly send: (kind: number, rest?: Uint8Array) => void,
    private readonly handler: OutboundHandler,
  ) {}

  async run(head: RequestHead): Promise<void> {
    try {
      const response = await this.handler(this.#request(head));
      await this.#answer(response, head.method);
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
    this.#wake?.();
  }
  credit(bytes: number): void {
    this.#credit += bytes;
    this.#wake?.();
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
