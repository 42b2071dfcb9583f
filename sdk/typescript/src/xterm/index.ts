/**
 * A terminal of a sandbox in xterm.js.
 *
 *     const terminal = new Terminal();
 *     const addon = new SandboxAddon({ getWebSocketUrl: ({ origin, sandboxId }) => `${origin}/terminal/${sandboxId}` });
 *     terminal.loadAddon(addon);
 *     addon.connect({ sandboxId: 'user-123' });
 */
import type { ITerminalAddon, Terminal } from '@xterm/xterm';

export type ConnectionState = 'disconnected' | 'connecting' | 'connected';

/** Which terminal. */
export interface ConnectionTarget {
  sandboxId: string;
  sessionId?: string;
}

export interface SandboxAddonOptions {
  /** Where the WebSocket of a terminal is. Called for every attempt. `origin` is that of the page: `wss://example.com`. */
  getWebSocketUrl: (params: { sandboxId: string; sessionId?: string; origin: string }) => string;
  /** Connect again when the connection breaks: ten times, a second and then longer apart. Default true. */
  reconnect?: boolean;
  /** Called for every change, and for errors. */
  onStateChange?: (state: ConnectionState, error?: Error) => void;
}

const attemptsMax = 10;
const firstDelayMs = 1000;
const doublingsMax = 5;

/** The text messages of a terminal; binary messages are its output. */
interface Control {
  type: 'ready' | 'exit' | 'error';
  code?: number;
  signal?: string;
  message?: string;
}

interface Disposable {
  dispose(): void;
}

/** The page's origin for WebSockets; nothing where there is no page. */
function originOfPage(): string {
  const location = (globalThis as { location?: Location }).location;
  return location ? `${location.protocol === 'https:' ? 'wss:' : 'ws:'}//${location.host}` : '';
}

export class SandboxAddon implements ITerminalAddon {
  readonly #options: SandboxAddonOptions;
  readonly #encoder = new TextEncoder();
  #terminal: Terminal | undefined;
  #target: ConnectionTarget | undefined;
  #state: ConnectionState = 'disconnected';
  #socket: WebSocket | undefined;
  #attached: Disposable[] = [];
  #attempts = 0;
  #timer: ReturnType<typeof setTimeout> | undefined;
  /** Whether this connection has shown anything: the scroll-back comes before `ready`. */
  #shown = false;

  constructor(options: SandboxAddonOptions) {
    this.#options = options;
  }

  get state(): ConnectionState {
    return this.#state;
  }
  get sandboxId(): string | undefined {
    return this.#target?.sandboxId;
  }
  get sessionId(): string | undefined {
    return this.#target?.sessionId;
  }

  /** Called by `terminal.loadAddon`. */
  activate(terminal: Terminal): void {
    this.#terminal = terminal;
  }

  dispose(): void {
    this.#release();
    this.#terminal = undefined;
  }

  /** Shows a terminal; does nothing if it is shown already. */
  connect(target: ConnectionTarget): void {
    if (!this.#terminal) return;
    const same = target.sandboxId === this.sandboxId && target.sessionId === this.sessionId;
    if (same && this.#state !== 'disconnected') return;
    this.#release();
    if (this.#state !== 'disconnected') this.#terminal.clear();
    this.#target = { ...target };
    this.#attempts = 0;
    this.#open();
  }

  disconnect(): void {
    this.#release();
    this.#become('disconnected');
  }

  #become(state: ConnectionState, error?: Error): void {
    if (this.#state === state) return;
    this.#state = state;
    this.#options.onStateChange?.(state, error);
  }

  #complain(message: string): void {
    this.#options.onStateChange?.(this.#state, new Error(message));
  }

  #open(): void {
    if (!this.#terminal || !this.#target) return;
    this.#become('connecting');
    this.#shown = false;
    const socket = new WebSocket(this.#options.getWebSocketUrl({ ...this.#target, origin: originOfPage() }));
    socket.binaryType = 'arraybuffer';
    this.#socket = socket;
    // Ignore events of a socket that was replaced.
    const on = (type: string, listener: (event: any) => void) =>
      socket.addEventListener(type, (event) => this.#socket === socket && listener(event));
    on('open', () => this.#attach(this.#terminal!));
    on('message', ({ data }) => this.#receive(data));
    on('error', () => this.#complain('WebSocket error'));
    on('close', () => this.#lost());
  }

  #attach(terminal: Terminal): void {
    this.#attached.push(
      terminal.onData((data) => this.#send(this.#encoder.encode(data))),
      terminal.onResize(({ cols, rows }) => this.#send(JSON.stringify({ type: 'resize', cols, rows }))),
    );
  }

  #receive(data: ArrayBuffer | string): void {
    if (typeof data !== 'string') {
      this.#shown = true;
      this.#terminal?.write(new Uint8Array(data));
      return;
    }
    try {
      this.#control(JSON.parse(data) as Control);
    } catch {
      // Not for us.
    }
  }

  #control(message: Control): void {
    if (message.type === 'error') this.#complain(message.message ?? 'Unknown error');
    if (message.type === 'exit')
      this.#complain(`Session exited with code ${message.code}${message.signal ? ` (${message.signal})` : ''}`);
    if (message.type !== 'ready' || !this.#terminal) return;
    if (!this.#shown) this.#terminal.clear();
    this.#attempts = 0;
    this.#become('connected');
    this.#terminal.focus?.();
    this.#send(JSON.stringify({ type: 'resize', cols: this.#terminal.cols, rows: this.#terminal.rows }));
  }

  #send(data: string | Uint8Array): void {
    if (this.#socket?.readyState === WebSocket.OPEN) this.#socket.send(data as Uint8Array<ArrayBuffer>);
  }

  #lost(): void {
    this.#release();
    const again = this.#options.reconnect !== false && this.#attempts < attemptsMax;
    const tired = this.#attempts >= attemptsMax ? new Error('Max reconnection attempts exceeded') : undefined;
    this.#become('disconnected', tired);
    if (!again) return;
    const delay = firstDelayMs * 2 ** Math.min(this.#attempts, doublingsMax);
    this.#timer = setTimeout(
      () => {
        this.#attempts++;
        this.#terminal?.clear();
        this.#open();
      },
      delay * (1 + Math.random() / 10),
    );
  }

  #release(): void {
    clearTimeout(this.#timer);
    const socket = this.#socket;
    this.#socket = undefined;
    socket?.close();
    for (const one of this.#attached.splice(0)) one.dispose();
  }
}
