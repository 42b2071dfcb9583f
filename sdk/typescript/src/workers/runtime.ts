/**
 * The parts of a Worker's runtime that this module uses, and of `ctx.container` that `@cloudflare/containers` uses: written
 * down here so that nothing has to be installed to compile or to use it.
 */

/** A Durable Object's state, as far as it matters here. */
export interface ObjectState {
  readonly id: { readonly name?: string; toString(): string };
  readonly storage: {
    /** The synchronous store of a Durable Object with SQLite, which `Container` needs as well. */
    readonly kv: {
      get(key: string): unknown;
      put(key: string, value: unknown): void;
      delete(key: string): boolean;
    };
  };
  blockConcurrencyWhile<T>(run: () => Promise<T>): Promise<T>;
}

/** The argument of `container.start()`. */
export interface StartOptions {
  entrypoint?: string[];
  enableInternet?: boolean;
  env?: Record<string, string>;
  labels?: Record<string, string>;
}

/** The answer of `fetch` in a Worker: it may carry a WebSocket. */
export type WorkerResponse = Response & { readonly webSocket?: WorkerSocket | null };

/** The client's end of a WebSocket in a Worker. */
export interface WorkerSocket {
  accept(): void;
  send(data: Uint8Array): void;
  close(code?: number, reason?: string): void;
  addEventListener(type: 'message', listener: (event: { data: any }) => void): void;
  addEventListener(type: 'close' | 'error', listener: () => void): void;
}

/** What `interceptOutbound…` gets: a service binding, such as `ctx.exports.ContainerProxy({ props })`. */
export interface Fetcher {
  fetch(request: Request): Promise<Response>;
}

/** The result of `container.getTcpPort()`. */
export interface TcpPort {
  fetch(input: RequestInfo | URL, init?: RequestInit): Promise<Response>;
  connect(address: string, options?: unknown): never;
}

/** `ctx.container`, as the `Container` class of `@cloudflare/containers` uses it. */
export interface DurableObjectContainer {
  readonly running: boolean;
  start(options?: StartOptions): void;
  monitor(): Promise<void>;
  destroy(reason?: unknown): Promise<void>;
  signal(signal: number): void;
  getTcpPort(port: number): TcpPort;
  setInactivityTimeout(milliseconds: number | bigint): Promise<void>;
  interceptOutboundHttp(host: string, worker: Fetcher): Promise<void>;
  interceptOutboundHttps(host: string, worker: Fetcher): Promise<void>;
  interceptAllOutboundHttp(worker: Fetcher): Promise<void>;
}
