import { createHash } from 'node:crypto';
import { createServer, type IncomingMessage, type ServerResponse } from 'node:http';
import type { AddressInfo, Socket as NetSocket } from 'node:net';
import { Readable } from 'node:stream';
import { NodeWebSocket } from '../transport/node-websocket.js';
import type { Program } from './program.js';

const bodyless = new Set(['GET', 'HEAD']);

/** A request of Node's as the program gets it. Throws for a Host that no URL can have. */
function requestOf(incoming: IncomingMessage, signal: AbortSignal): Request {
  const headers = new Headers();
  for (let i = 0; i < incoming.rawHeaders.length; i += 2)
    headers.append(incoming.rawHeaders[i]!, incoming.rawHeaders[i + 1]!);
  const url = new URL(incoming.url ?? '/', `http://${incoming.headers.host ?? 'localhost'}`);
  const body = bodyless.has(incoming.method!) ? undefined : (Readable.toWeb(incoming) as ReadableStream);
  return new Request(url, { method: incoming.method, headers, body, signal, duplex: 'half' } as RequestInit);
}

function headersOf(response: Response): Record<string, string | string[]> {
  const cookies = response.headers.getSetCookie();
  return { ...Object.fromEntries(response.headers), ...(cookies.length && { 'set-cookie': cookies }) };
}

/** Writes a body as fast as the client reads; a client that leaves cancels it. */
async function write(response: Response, outgoing: ServerResponse, method: string): Promise<void> {
  outgoing.writeHead(response.status, headersOf(response));
  if (!response.body || method === 'HEAD') {
    await response.body?.cancel();
    return void outgoing.end();
  }
  outgoing.flushHeaders();
  const closed = new Promise<void>((done) => outgoing.once('close', done));
  for await (const chunk of response.body) {
    if (outgoing.destroyed) break;
    if (!outgoing.write(chunk)) await Promise.race([new Promise<void>((go) => outgoing.once('drain', go)), closed]);
  }
  outgoing.end();
}

async function answer(program: Program, incoming: IncomingMessage, outgoing: ServerResponse): Promise<void> {
  const gone = new AbortController();
  outgoing.once('close', () => {
    if (!outgoing.writableFinished) gone.abort();
  });
  let request: Request;
  try {
    request = requestOf(incoming, gone.signal);
  } catch (error) {
    return void outgoing.writeHead(400).end(`${(error as Error).message}\n`);
  }
  try {
    await write(await program.fetch(request), outgoing, incoming.method!);
  } catch (error) {
    if (!gone.signal.aborted) console.error(error);
    outgoing.destroy();
  }
}

/** A message that waits for a reader holds up the side that sends, not the memory. */
function bridge(from: NodeWebSocket, to: NodeWebSocket): void {
  from.addEventListener('message', ({ data }) => {
    if (to.readyState !== NodeWebSocket.OPEN) return;
    to.send(data);
    if (!to.isFull) return;
    from.pause();
    void to.drained().then(() => from.resume());
  });
  from.addEventListener('close', ({ code, reason }) => to.close(code === 1005 || code === 1006 ? 1000 : code, reason));
  from.addEventListener('error', () => {});
}

/** A response without a socket, to a client that asked for one. */
async function refuse(socket: NetSocket, response: Response): Promise<void> {
  const body = Buffer.from(await response.arrayBuffer());
  const status = response.status === 101 ? 500 : response.status;
  const type = response.headers.get('content-type') ?? 'text/plain';
  const head = `HTTP/1.1 ${status} ${response.statusText}\r\ncontent-type: ${type}\r\ncontent-length: ${body.length}\r\nconnection: close\r\n\r\n`;
  socket.end(Buffer.concat([Buffer.from(head), body]));
}

async function upgrade(
  program: Program,
  incoming: IncomingMessage,
  socket: NetSocket,
  head: Uint8Array,
): Promise<void> {
  const gone = new AbortController();
  socket.once('close', () => gone.abort());
  socket.on('error', () => {});
  const response = await program.fetch(requestOf(incoming, gone.signal));
  const inner = (response as Response & { webSocket?: NodeWebSocket | null }).webSocket;
  if (!inner) return refuse(socket, response);
  const key = `${incoming.headers['sec-websocket-key']}258EAFA5-E914-47DA-95CA-C5AB0DC85B11`;
  const accept = createHash('sha1').update(key).digest('base64');
  const protocol = response.headers.get('sec-websocket-protocol');
  const lines = [
    'HTTP/1.1 101 Switching Protocols',
    'upgrade: websocket',
    'connection: Upgrade',
    `sec-websocket-accept: ${accept}`,
  ];
  if (protocol) lines.push(`sec-websocket-protocol: ${protocol}`);
  socket.write(`${lines.join('\r\n')}\r\n\r\n`);
  const outer = new NodeWebSocket(socket, head, 'server');
  inner.accept?.();
  bridge(outer, inner);
  bridge(inner, outer);
}

/** Serves a program on a port of this machine. */
export async function serve(program: Program, port: number, host: string): Promise<{ url: string; close: () => void }> {
  const server = createServer((incoming, outgoing) => void answer(program, incoming, outgoing));
  const upgraded = new Set<NetSocket>();
  server.on('upgrade', (incoming: IncomingMessage, socket: NetSocket, head: Uint8Array) => {
    upgraded.add(socket);
    socket.once('close', () => upgraded.delete(socket));
    upgrade(program, incoming, socket, head).catch((error) => {
      console.error(error);
      socket.destroy();
    });
  });
  await new Promise<void>((done, fail) => {
    server.once('error', (error: NodeJS.ErrnoException) => {
      const busy =
        error.code === 'EADDRINUSE' ? `Port ${port} of ${host} is in use: choose another one with --port.` : '';
      fail(busy ? new Error(busy, { cause: error }) : error);
    });
    server.listen(port, host, done);
  });
  const address = server.address() as AddressInfo;
  const name = address.family === 'IPv6' ? `[${address.address}]` : address.address;
  const close = () => {
    server.close();
    server.closeAllConnections();
    for (const socket of upgraded) socket.destroy();
  };
  return { url: `http://${name}:${address.port}`, close };
}
