import { meansHost, type OutboundHandler, serveHook } from '../outbound.js';
import type { Socket } from '../transport/types.js';
import type { Box } from './box.js';

/** Which requests come to a handler. */
export interface OutboundHosts {
  http?: string[];
  https?: string[];
}

const EVERYTHING: OutboundHosts = { http: ['*'], https: ['*'] };
const RETRY_MS = [100, 250, 500, 1000, 2000, 5000];

/** Holds the hook of a sandbox while there are handlers, again after a restart of the daemon. */
export class Outbound {
  readonly #box: Box;
  #all: OutboundHandler | null = null;
  #hosts: OutboundHosts = EVERYTHING;
  readonly #byHost = new Map<string, OutboundHandler>();
  #socket: Socket | null = null;
  #holding = false;

  constructor(box: Box) {
    this.#box = box;
  }

  async set(handler: OutboundHandler | null, hosts: OutboundHosts = EVERYTHING): Promise<void> {
    this.#all = handler;
    this.#hosts = hosts;
    await this.#apply();
  }

  async setByHost(host: string, handler: OutboundHandler | null): Promise<void> {
    if (handler) this.#byHost.set(host, handler);
    else this.#byHost.delete(host);
    await this.#apply();
  }

  async #apply(): Promise<void> {
    const wanted = this.#all !== null || this.#byHost.size > 0;
    const own = [...this.#byHost.keys()];
    const all = this.#all ? this.#hosts : {};
    const outbound = wanted ? { http: [...own, ...(all.http ?? [])], https: [...own, ...(all.https ?? [])] } : null;
    // The hook first: requests that come at once do not wait.
    if (wanted && !this.#holding) await this.#hold();
    await this.#box.json('PUT', '', { outbound }, { repeatable: true });
    if (!wanted) this.#socket?.close(1000);
  }

  async #hold(): Promise<void> {
    this.#holding = true;
    try {
      await this.#connect();
    } catch (error) {
      this.#holding = false;
      throw error;
    }
  }

  /** `again`: not the first time, so a sandbox that is gone is not made anew. */
  async #connect(again = false): Promise<void> {
    await this.#box.json(again ? 'GET' : 'PUT', '', again ? undefined : {}, { repeatable: true });
    const response = (await this.#box.upgrade('/hook')) as Response & { webSocket?: Socket };
    const socket = response.webSocket;
    if (!socket) throw new Error(`The hook of sandbox '${this.#box.id}' was refused: ${response.status}`);
    serveHook(socket, (request) => this.#answer(request));
    socket.addEventListener('close', () => this.#closed(socket));
    socket.accept?.();
    this.#socket = socket;
  }

  #closed(socket: Socket): void {
    if (this.#socket !== socket) return;
    this.#socket = null;
    if (this.#all === null && this.#byHost.size === 0) this.#holding = false;
    else this.#again(0);
  }

  #again(failures: number): void {
    const timer = setTimeout(
      () => this.#connect(true).catch((error) => this.#failed(error, failures + 1)),
      RETRY_MS[Math.min(failures, RETRY_MS.length - 1)],
    );
    (timer as { unref?: () => void }).unref?.();
  }

  #failed(error: unknown, failures: number): void {
    if ((error as { code?: string }).code === 'SANDBOX_NOT_FOUND') this.#holding = false;
    else this.#again(failures);
  }

  #answer(request: Request): Response | Promise<Response> {
    const url = new URL(request.url);
    for (const [host, handler] of this.#byHost) if (meansHost(host, url)) return handler(request);
    return this.#all ? this.#all(request) : new Response('no handler answers for this host', { status: 520 });
  }
}
