import type { Socket as NetSocket } from 'node:net';
import type { Socket } from './types.js';

/* A WebSocket (RFC 6455), the client's side or the server's, on a connected socket of node:net, which Node, Bun and Deno all have. The runtime's
 * own WebSocket speaks to no unix socket and sends no headers, and Node 20 has none. */

const opcode = { continuation: 0, text: 1, binary: 2, close: 8, ping: 9, pong: 10 };
/** A message longer than this is refused: nothing that Atoll serves sends one. */
const messageMax = 64 * 1024 * 1024;

type Listener = (event: any) => void;

/** How much may wait to be sent before a sender had better pause. */
const fullBytes = 1024 * 1024;

/** Only frames of a client are masked. */
function frame(op: number, payload: Uint8Array, masked: boolean): Uint8Array {
  const n = payload.length;
  const extra = n < 126 ? 0 : n < 65536 ? 2 : 8;
  const out = new Uint8Array(2 + extra + (masked ? 4 : 0) + n);
  const view = new DataView(out.buffer);
  out[0] = 0x80 | op;
  out[1] = (masked ? 0x80 : 0) | (extra === 0 ? n : extra === 2 ? 126 : 127);
  if (extra === 2) view.setUint16(2, n);
  if (extra === 8) view.setBigUint64(2, BigInt(n));
  if (!masked) {
    out.set(payload, 2 + extra);
    return out;
  }
  const mask = crypto.getRandomValues(out.subarray(2 + extra, 6 + extra));
  for (let i = 0; i < n; i++) out[6 + extra + i] = payload[i]! ^ mask[i & 3]!;
  return out;
}

function join(parts: Uint8Array[]): Uint8Array {
  if (parts.length === 1) return parts[0]!;
  const out = new Uint8Array(parts.reduce((sum, part) => sum + part.length, 0));
  let at = 0;
  for (const part of parts) {
    out.set(part, at);
    at += part.length;
  }
  return out;
}

export class NodeWebSocket implements Socket {
  static readonly CONNECTING = 0;
  static readonly OPEN = 1;
  static readonly CLOSING = 2;
  static readonly CLOSED = 3;
  readyState = 1;
  binaryType = 'arraybuffer';
  readonly #socket: NetSocket;
  readonly #listeners = new Map<string, Set<Listener>>();
  #early: any[] | undefined = [];
  #unread = new Uint8Array(0);
  #fragments: Uint8Array[] = [];
  #fragmentsOp = 0;
  #closeEvent = { code: 1006, reason: '', wasClean: false };

  readonly #isServer: boolean;

  constructor(socket: NetSocket, head: Uint8Array, side: 'client' | 'server' = 'client') {
    this.#socket = socket;
    this.#isServer = side === 'server';
    socket.on('data', (chunk: Uint8Array) => this.#read(chunk));
    socket.on('error', (error: Error) => this.#emit('error', { message: error.message, error }));
    socket.on('end', () => socket.end());
    socket.on('close', () => {
      this.readyState = NodeWebSocket.CLOSED;
      this.#emit('close', this.#closeEvent);
    });
    if (head.length) this.#read(head);
  }

  /** Messages that came before anybody listened are handed over first. */
  addEventListener(type: string, listener: Listener): void {
    const all = this.#listeners.get(type) ?? new Set();
    this.#listeners.set(type, all.add(listener));
    if (type !== 'message' || !this.#early) return;
    const early = this.#early;
    this.#early = undefined;
    for (const data of early) queueMicrotask(() => this.#emit('message', { data }));
  }

  removeEventListener(type: string, listener: Listener): void {
    this.#listeners.get(type)?.delete(listener);
  }

  /** As in Workers, where a socket must be accepted before it is used. */
  accept(): void {}

  /** Reads nothing from the network until `resume`: whoever writes at the other end has to wait. */
  pause(): void {
    this.#socket.pause();
  }
  resume(): void {
    this.#socket.resume();
  }

  get isFull(): boolean {
    return this.#socket.writableLength > fullBytes;
  }
  /** Until all that waits is sent, or the socket is closed. */
  drained(): Promise<void> {
    if (!this.#socket.writableNeedDrain) return Promise.resolve();
    return new Promise((done) => {
      this.#socket.once('drain', done);
      this.#socket.once('close', done);
    });
  }

  #write(op: number, payload: Uint8Array): void {
    this.#socket.write(frame(op, payload, !this.#isServer));
  }

  send(data: string | ArrayBuffer | Uint8Array): void {
    if (this.readyState !== NodeWebSocket.OPEN) throw new Error('the WebSocket is not open');
    if (typeof data === 'string') this.#write(opcode.text, new TextEncoder().encode(data));
    else this.#write(opcode.binary, data instanceof Uint8Array ? data : new Uint8Array(data));
  }

  close(code = 1000, reason = ''): void {
    if (this.readyState !== NodeWebSocket.OPEN) return;
    this.readyState = NodeWebSocket.CLOSING;
    const text = new TextEncoder().encode(reason);
    const payload = new Uint8Array(2 + text.length);
    new DataView(payload.buffer).setUint16(0, code);
    payload.set(text, 2);
    this.#write(opcode.close, payload);
    // A peer that does not answer the close is left after a while.
    const timer: any = setTimeout(() => this.#socket.destroy(), 2000);
    timer.unref?.();
    this.#socket.once('close', () => clearTimeout(timer));
  }

  #emit(type: string, event: any): void {
    if (type === 'message' && this.#early) this.#early.push(event.data);
    else for (const listener of [...(this.#listeners.get(type) ?? [])]) listener({ type, target: this, ...event });
  }

  #fail(code: number, reason: string): void {
    this.#closeEvent = { code, reason, wasClean: false };
    this.#socket.destroy();
  }

  #read(chunk: Uint8Array): void {
    this.#unread = this.#unread.length ? new Uint8Array(join([this.#unread, chunk])) : new Uint8Array(chunk);
    for (;;) {
      const bytes = this.#unread;
      if (bytes.length < 2) return;
      const view = new DataView(bytes.buffer, bytes.byteOffset, bytes.byteLength);
      const short = bytes[1]! & 0x7f;
      const masked = (bytes[1]! & 0x80) !== 0;
      const at = (short === 126 ? 4 : short === 127 ? 10 : 2) + (masked ? 4 : 0);
      if (bytes.length < at) return;
      const n = short === 126 ? view.getUint16(2) : short === 127 ? Number(view.getBigUint64(2)) : short;
      if (masked !== this.#isServer || n > messageMax) {
        this.#fail(1002, 'a frame that the other side may not send');
        return;
      }
      if (bytes.length < at + n) return;
      this.#unread = bytes.subarray(at + n);
      const payload = bytes.slice(at, at + n);
      if (masked) for (let i = 0; i < n; i++) payload[i]! ^= bytes[at - 4 + (i & 3)]!;
      this.#onFrame(bytes[0]! & 0x0f, (bytes[0]! & 0x80) !== 0, payload);
    }
  }

  #onFrame(op: number, final: boolean, payload: Uint8Array): void {
    if (op === opcode.ping) this.#write(opcode.pong, payload);
    else if (op === opcode.close) this.#onClose(payload);
    else if (op <= opcode.binary) {
      if (op !== opcode.continuation) this.#fragmentsOp = op;
      this.#fragments.push(payload);
      if (!final) return;
      const whole = join(this.#fragments);
      this.#fragments = [];
      const data = this.#fragmentsOp === opcode.text ? new TextDecoder().decode(whole) : new Uint8Array(whole).buffer;
      this.#emit('message', { data });
    }
  }

  #onClose(payload: Uint8Array): void {
    const code = payload.length >= 2 ? (payload[0]! << 8) | payload[1]! : 1005;
    this.#closeEvent = { code, reason: new TextDecoder().decode(payload.subarray(2)), wasClean: true };
    if (this.readyState === NodeWebSocket.OPEN) this.#write(opcode.close, payload);
    this.readyState = NodeWebSocket.CLOSING;
    this.#socket.end();
  }
}
