import net from 'node:net';
import { daemon } from './boxes.js';

/** What becomes of one connection. */
export interface Fate {
  /** It is cut after so many bytes from the daemon; 0 is before the first. */
  cutAfter?: number;
}

/** A network between a client and the real daemon that breaks where it is told to. */
export class BadNetwork {
  /** Connections that were made, and requests (POST, GET …) that went through. */
  connections = 0;
  requests: string[] = [];
  /** The answer to the next request that matches is lost: the daemon has done it, and its connection is cut. */
  lose?: RegExp | undefined;
  readonly #server: net.Server;
  readonly #open = new Set<net.Socket>();

  private constructor(fate: (n: number) => Fate) {
    this.#server = net.createServer((client) => this.#connect(client, fate(++this.connections)));
  }

  static async start(fate: (n: number) => Fate, port = 0): Promise<BadNetwork> {
    const network = new BadNetwork(fate);
    await new Promise<void>((done) => network.#server.listen(port, '127.0.0.1', done));
    return network;
  }

  get port(): number {
    return (this.#server.address() as net.AddressInfo).port;
  }
  get url(): string {
    return `http://127.0.0.1:${this.port}`;
  }

  #connect(client: net.Socket, fate: Fate): void {
    const { hostname, port } = new URL(daemon().url);
    const upstream = net.connect(Number(port), hostname);
    let left = fate.cutAfter ?? Number.POSITIVE_INFINITY;
    const cut = () => {
      client.destroy();
      upstream.destroy();
    };
    for (const socket of [client, upstream]) {
      this.#open.add(socket);
      socket.on('error', cut);
      socket.on('close', () => {
        this.#open.delete(socket);
        cut();
      });
    }
    client.on('data', (chunk) => {
      for (const [, line] of chunk.toString('latin1').matchAll(/^((?:GET|POST|PUT|DELETE) \S+) HTTP/gm)) {
        this.requests.push(line!);
        if (!this.lose?.test(line!)) continue;
        left = 0;
        this.lose = undefined;
      }
      upstream.write(chunk);
    });
    upstream.on('data', (chunk) => {
      const passed = chunk.subarray(0, left);
      left -= passed.length;
      if (passed.length && !client.write(passed)) {
        upstream.pause();
        client.once('drain', () => upstream.resume());
      }
      if (left <= 0) cut();
    });
  }

  /** Cuts everything that is connected now. */
  cut(): void {
    for (const socket of this.#open) socket.destroy();
  }

  async close(): Promise<void> {
    this.cut();
    await new Promise((done) => this.#server.close(done));
  }
}
