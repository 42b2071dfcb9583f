import { Terminal } from '@xterm/headless';
import { type ConnectionState, SandboxAddon } from 'atoll-sandbox/xterm';
import { afterEach, beforeAll, expect, test } from 'vitest';
import type { NodeWebSocket } from '../src/transport/node-websocket.js';
import { BadNetwork } from './support/bad-network.js';
import { box, daemon, until } from './support/boxes.js';

const { url, token } = daemon();
const terminals: Terminal[] = [];
const networks: BadNetwork[] = [];

/* A browser's WebSocket: Node 20 has none of its own. */
beforeAll(async () => {
  if ('WebSocket' in globalThis) return;
  const { upgradeOverSocket } = await import('../src/transport/node-upgrade.js');
  class BrowserSocket extends EventTarget {
    static readonly OPEN = 1;
    binaryType = 'blob';
    #socket: NodeWebSocket | undefined;
    constructor(address: string) {
      super();
      const at = new URL(address.replace(/^ws/, 'http'));
      upgradeOverSocket({ url: new URL(at.origin) }, { method: 'GET', path: at.pathname + at.search }).then(
        (response: any) => {
          this.#socket = response.webSocket as NodeWebSocket;
          this.dispatchEvent(new Event('open'));
          for (const type of ['message', 'close'])
            this.#socket.addEventListener(type, (event) =>
              this.dispatchEvent(Object.assign(new Event(type), { data: event.data })),
            );
        },
        () => {
          this.dispatchEvent(new Event('error'));
          this.dispatchEvent(new Event('close'));
        },
      );
    }
    get readyState() {
      return this.#socket?.readyState ?? 0;
    }
    send(data: string | Uint8Array) {
      this.#socket!.send(data);
    }
    close() {
      this.#socket?.close();
    }
  }
  (globalThis as any).WebSocket = BrowserSocket;
});
afterEach(async () => {
  for (const terminal of terminals.splice(0)) terminal.dispose();
  await Promise.all(networks.splice(0).map((one) => one.close()));
});

function open(sandboxId: string, origin = url, reconnect = false) {
  const terminal = new Terminal({ cols: 97, rows: 31, allowProposedApi: true });
  terminals.push(terminal);
  const states: string[] = [];
  const addon = new SandboxAddon({
    reconnect,
    getWebSocketUrl: (to) =>
      `${origin.replace(/^http/, 'ws')}/v1/sandboxes/${to.sandboxId}/ws/pty?sessionId=${to.sessionId ?? 'term'}&token=${token}`,
    onStateChange: (state: ConnectionState, error?: Error) => states.push(error ? error.message : state),
  });
  terminal.loadAddon(addon as any);
  addon.connect({ sandboxId });
  const screen = () => {
    const lines: string[] = [];
    for (let i = 0; i < terminal.buffer.active.length; i++)
      lines.push(terminal.buffer.active.getLine(i)!.translateToString(true));
    return lines.join('\n');
  };
  const shows = (pattern: RegExp) => until(`${pattern} in ${screen()}`, () => pattern.test(screen()));
  const type = (text: string) => terminal.input(text);
  return { terminal, addon, states, shows, type, screen };
}

test('types, resizes, and finds the terminal again', async () => {
  const sandbox = box();
  const first = open(sandbox.id);
  await until('the connection', () => first.addon.state === 'connected');
  first.type('X=kept; stty size; echo sum$((6*7))\r');
  await first.shows(/31 97[\s\S]*sum42/);
  first.terminal.resize(120, 40);
  first.type('stty size\r');
  await first.shows(/40 120/);
  first.addon.disconnect();
  expect(first.states).toEqual(['connecting', 'connected', 'disconnected']);

  const second = open(sandbox.id);
  await second.shows(/sum42/);
  second.type('echo $X$X; exit 3\r');
  await second.shows(/keptkept/);
  await until('the exit to be told', () => second.states.includes('Session exited with code 3'));
});

test('connects again when the connection breaks', async () => {
  const sandbox = box();
  const network = await BadNetwork.start(() => ({}));
  networks.push(network);
  const { addon, states, type, shows } = open(sandbox.id, network.url, true);
  await until('the connection', () => addon.state === 'connected');
  type('Y=still; echo set$((1+1))\r');
  await shows(/set2/);
  network.cut();
  await until('the connection again', () => states.filter((state) => state === 'connected').length === 2);
  type('echo $Y-here\r');
  await shows(/still-here/);
  expect(states).toContain('disconnected');
  addon.dispose();
});
