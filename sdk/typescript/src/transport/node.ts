import type { Agent, ClientRequest, IncomingMessage } from 'node:http';
import type { Place } from './locate.js';
import { notSent, upgradeOverSocket } from './node-upgrade.js';
import { nodeModule } from './runtime.js';
import { ConnectionLostError, type Transport, type TransportRequest } from './types.js';

/* Node's own `fetch` speaks to no unix socket and gives up after five minutes without a byte: a command may be silent for
 * longer. So in Node requests go through node:http, without any limit on time; `exchange` notices a daemon that is gone. */

/** Atoll closes idle connections after 75 s: close them long before, so that no request is written into a closing connection. */
const idleMs = 10_000;
const bufferBytes = 64 * 1024;

const bodyless = new Set([101, 204, 205, 304]);

function headersOf(message: IncomingMessage): Headers {
  const headers = new Headers();
  for (let i = 0; i < message.rawHeaders.length; i += 2)
    headers.append(message.rawHeaders[i]!, message.rawHeaders[i + 1]!);
  return headers;
}

/** The body as a stream that reads from the network at the pace of its consumer. */
function bodyOf(message: IncomingMessage): ReadableStream<Uint8Array> {
  let over = false;
  return new ReadableStream<Uint8Array>(
    {
      start(controller) {
        const fail = (error?: Error) => {
          if (over) return;
          over = true;
          controller.error(new ConnectionLostError('the connection broke inside the answer', { cause: error }));
        };
        message.on('data', (chunk: Uint8Array) => {
          if (over) return;
          controller.enqueue(new Uint8Array(chunk.buffer, chunk.byteOffset, chunk.byteLength));
          if ((controller.desiredSize ?? 0) <= 0) message.pause();
        });
        message.on('end', () => {
          if (over) return;
          over = true;
          controller.close();
        });
        message.on('error', fail);
        message.on('close', () => fail());
        message.pause();
      },
      pull() {
        message.resume();
      },
      cancel() {
        over = true;
        message.destroy();
      },
    },
    new ByteLengthQueuingStrategy({ highWaterMark: bufferBytes }),
  );
}

/** A short answer, read whole: a stream would cost more than the answer. */
function wholeBody(message: IncomingMessage): Promise<Uint8Array> {
  return new Promise((resolve, reject) => {
    const chunks: Uint8Array[] = [];
    const fail = () => reject(new ConnectionLostError('the connection broke inside the answer'));
    message.on('data', (chunk: Uint8Array) => chunks.push(chunk));
    message.on('end', () => resolve(chunks.length === 1 ? chunks[0]! : Buffer.concat(chunks)));
    message.on('error', fail);
    message.on('close', fail); // of no effect after the end
  });
}

const isShort = ({ headers }: IncomingMessage) =>
  headers['content-type'] === 'application/json' && Number(headers['content-length'] ?? Number.NaN) <= bufferBytes;

async function responseOf(message: IncomingMessage, method: string): Promise<Response> {
  const init = { status: message.statusCode!, statusText: message.statusMessage, headers: headersOf(message) };
  if (bodyless.has(init.status) || method === 'HEAD') {
    message.resume();
    return new Response(null, init);
  }
  const body = isShort(message) ? ((await wholeBody(message)) as Uint8Array<ArrayBuffer>) : bodyOf(message);
  return new Response(body, init);
}

async function pour(body: ReadableStream<Uint8Array>, request: ClientRequest): Promise<void> {
  const reader = body.getReader();
  const closed = new Promise<void>((done) => request.once('close', done));
  try {
    for (;;) {
      const { done, value } = await reader.read();
      if (done || request.destroyed) break;
      if (!request.write(value)) await Promise.race([new Promise<void>((go) => request.once('drain', go)), closed]);
    }
    request.end();
  } catch (error) {
    request.destroy(error as Error);
  } finally {
    void reader.cancel().catch(() => {});
  }
}

export class NodeTransport implements Transport {
  readonly where: string;
  readonly token: string | undefined;
  readonly #place: Place;
  #http: Promise<{ request: typeof import('node:http').request; agent: Agent }> | undefined;

  constructor(place: Place) {
    this.#place = place;
    this.token = place.token;
    this.where = place.socketPath ? `unix:${place.socketPath}` : place.url.host;
  }

  async #load() {
    const secure = this.#place.url.protocol === 'https:';
    const http = await nodeModule<typeof import('node:http')>(secure ? 'https' : 'http');
    const agent = new http.Agent({ keepAlive: true, maxFreeSockets: 32 });
    const keep = agent.keepSocketAlive.bind(agent) as (socket: any) => boolean;
    agent.keepSocketAlive = (socket: any) => {
      socket.setTimeout(idleMs);
      return keep(socket);
    };
    const reuse = agent.reuseSocket.bind(agent);
    agent.reuseSocket = (socket: any, request) => {
      socket.setTimeout(0);
      reuse(socket, request);
    };
    return { request: http.request, agent };
  }

  async send(init: TransportRequest): Promise<Response> {
    this.#http ??= this.#load();
    const { request, agent } = await this.#http;
    init.signal?.throwIfAborted();
    return new Promise((resolve, reject) => {
      const { url, socketPath, token } = this.#place;
      const headers: Record<string, string> = { ...init.headers };
      if (token) headers.authorization ??= `Bearer ${token}`;
      const base = url.pathname === '/' ? '' : url.pathname.replace(/\/$/, '');
      const path = base + init.path;
      const target = socketPath ? { socketPath } : { hostname: url.hostname.replace(/^\[|\]$/g, ''), port: url.port };
      const sending = request({ ...target, method: init.method, path, headers, agent, signal: init.signal });
      let connected = false;
      sending.on('socket', (socket) => {
        if (!socket.connecting) connected = true;
        else socket.once('connect', () => (connected = true));
      });
      sending.on('error', (cause: Error) => {
        if (init.signal?.aborted) return reject(init.signal.reason);
        reject(connected ? new ConnectionLostError(cause.message, { cause }) : notSent(cause));
      });
      sending.on('response', (message) => resolve(responseOf(message, init.method)));
      if (init.body instanceof ReadableStream) return void pour(init.body, sending);
      try {
        sending.end(init.body);
      } catch (error) {
        // An open request would keep the program alive until the daemon closes the connection.
        sending.destroy();
        reject(error);
      }
    });
  }

  upgrade(init: TransportRequest): Promise<Response> {
    return upgradeOverSocket(this.#place, init);
  }
}
