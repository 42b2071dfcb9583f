/** One request to Atoll. */
export interface TransportRequest {
  method: string;
  /** Begins with a slash; query included. */
  path: string;
  headers?: Record<string, string>;
  body?: string | Uint8Array | ReadableStream<Uint8Array>;
  signal?: AbortSignal;
}

/** As much of a WebSocket as both sides of a bridge need; every runtime's own one fits. */
export interface Socket {
  send(data: string | ArrayBuffer | Uint8Array): void;
  close(code?: number, reason?: string): void;
  addEventListener(type: 'message', listener: (event: { data: any }) => void): void;
  addEventListener(type: 'close', listener: (event: { code?: number; reason?: string }) => void): void;
  addEventListener(type: 'error', listener: (event: { message?: string; error?: unknown }) => void): void;
  accept?(): void;
  pause?(): void;
  resume?(): void;
}

/** A way to one Atoll. It sends each request once; `exchange` decides about retries. */
export interface Transport {
  /** For messages: `127.0.0.1:8700`, `unix:/run/atoll/atoll.sock`. */
  readonly where: string;
  readonly token: string | undefined;
  /** Answers as soon as status and headers are there; the body is a stream with backpressure. */
  send(request: TransportRequest): Promise<Response>;
  /** An upgraded request: a response with status 101 and `webSocket`, or whatever else was answered. */
  upgrade(request: TransportRequest): Promise<Response>;
}

/** The request did not reach Atoll: sending it again cannot do anything twice. */
export class NotSentError extends Error {
  override name = 'NotSentError';
  /** Nothing listens at the address: a port that refuses, a socket or a host name that does not exist. */
  readonly nothingListens: boolean;

  constructor(message: string, options?: { cause?: unknown; nothingListens?: boolean }) {
    super(message, options);
    this.nothingListens = options?.nothingListens ?? false;
  }
}

/** The connection broke while Atoll may have worked on the request. */
export class ConnectionLostError extends Error {
  override name = 'ConnectionLostError';
}
