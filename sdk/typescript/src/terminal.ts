import type { Box } from './api/box.js';
import { errorResponse } from './errors/base.js';
import { RPCTransportError } from './errors/other-errors.js';
import { isUpgrade, portHeader } from './forward.js';
import type { Socket } from './transport/types.js';
import type { PtyOptions } from './types/commands.js';

function pathOf(sessionId: string, options: PtyOptions = {}): string {
  const query = new URLSearchParams({ sessionId });
  if (options.cols) query.set('cols', String(options.cols));
  if (options.rows) query.set('rows', String(options.rows));
  if (options.shell) query.set('shell', options.shell);
  return `/ws/pty?${query}`;
}

function checked(sessionId: string, request: Request): void {
  if (!sessionId || typeof sessionId !== 'string') throw new Error('sessionId is required for terminal access');
  if (!isUpgrade(request)) throw new Error('terminal() requires a WebSocket upgrade request');
}

/** Answers a WebSocket upgrade with the terminal of a session. */
export async function openTerminal(
  box: Box,
  sessionId: string,
  request: Request,
  options?: PtyOptions,
): Promise<Response> {
  checked(sessionId, request);
  return box.upgrade(pathOf(sessionId, options), { signal: request.signal });
}

/** The same through anything that has `fetch`, such as a Sandbox or a Durable Object's stub. */
export async function proxyTerminal(
  stub: { fetch: (request: Request) => Promise<Response> },
  sessionId: string,
  request: Request,
  options?: PtyOptions,
): Promise<Response> {
  checked(sessionId, request);
  const passed = new Request(`http://localhost${pathOf(sessionId, options)}`, request);
  passed.headers.set(portHeader, '3000');
  return stub.fetch(passed);
}

/** A terminal without a browser: bytes in, bytes out. */
export class Terminal {
  readonly #socket: Socket;
  /** The bytes of the terminal, the scroll-back first. If no viewer reads, the program blocks. */
  readonly output: ReadableStream<Uint8Array>;
  /** How the program ended. Rejects when the connection breaks before. */
  readonly exited: Promise<{ code: number; signal?: string }>;

  /** @internal */
  constructor(socket: Socket) {
    this.#socket = socket;
    let exit: (result: { code: number; signal?: string }) => void;
    let fail: (error: Error) => void;
    this.exited = new Promise((resolve, reject) => {
      exit = resolve;
      fail = reject;
    });
    this.exited.catch(() => {});
    const told = (message: { type: string; code: number; signal?: string; message?: string }) => {
      if (message.type === 'exit') exit({ code: message.code, signal: message.signal });
      if (message.type === 'error') fail(new Error(message.message));
    };
    let over = false;
    const source: UnderlyingDefaultSource<Uint8Array> = {
      start: (controller) => {
        socket.addEventListener('message', ({ data }) => {
          if (typeof data === 'string') return told(JSON.parse(data));
          if (over) return;
          controller.enqueue(new Uint8Array(data));
          if ((controller.desiredSize ?? 0) <= 0) socket.pause?.();
        });
        socket.addEventListener('close', () => {
          fail(new Error('the terminal was closed before its program ended'));
          if (!over) controller.close();
          over = true;
        });
      },
      pull: () => socket.resume?.(),
      cancel: () => {
        over = true;
        socket.resume?.();
        socket.close();
      },
    };
    this.output = new ReadableStream(source, new ByteLengthQueuingStrategy({ highWaterMark: 64 * 1024 }));
    socket.accept?.();
  }

  /** Types. */
  write(data: string | Uint8Array): void {
    this.#socket.send(typeof data === 'string' ? new TextEncoder().encode(data) : data);
  }

  resize(cols: number, rows: number): void {
    this.#socket.send(JSON.stringify({ type: 'resize', cols, rows }));
  }

  /** Lets go of the terminal, which lives on. */
  close(): void {
    this.#socket.close();
  }
}

/** Connects to the terminal of a session; the first to come starts it. */
export async function connectTerminal(
  box: Box,
  sessionId: string,
  options: PtyOptions & { signal?: AbortSignal } = {},
) {
  const response = await box.upgrade(pathOf(sessionId, options), { signal: options.signal });
  const socket = (response as Response & { webSocket?: Socket }).webSocket;
  if (!socket) {
    const context = { kind: 'upgrade_failed', originalMessage: `HTTP ${response.status}`, errorName: 'Error' } as const;
    throw new RPCTransportError(
      errorResponse('RPC_TRANSPORT_ERROR', 'The terminal did not become a WebSocket', context, 503),
    );
  }
  return new Terminal(socket);
}
