import type { Socket as NetSocket } from 'node:net';
import type { Place } from './locate.js';
import { NodeWebSocket } from './node-websocket.js';
import { nodeModule } from './runtime.js';
import { ConnectionLostError, NotSentError, type TransportRequest } from './types.js';

/** How long an answer to an upgrade may be before its headers end. */
const headMax = 64 * 1024;

const nobody = new Set(['ECONNREFUSED', 'ENOENT', 'ENOTFOUND']);

/** The error of a connection that could not be made. */
export function notSent(cause: Error & { code?: string }): NotSentError {
  return new NotSentError(cause.message || String(cause.code), { cause, nothingListens: nobody.has(cause.code ?? '') });
}

async function connect(place: Place): Promise<NetSocket> {
  const port = Number(place.url.port || (place.url.protocol === 'https:' ? 443 : 80));
  const host = place.url.hostname.replace(/^\[|\]$/g, '');
  let socket: NetSocket;
  if (place.socketPath)
    socket = (await nodeModule<typeof import('node:net')>('net')).connect({ path: place.socketPath });
  else if (place.url.protocol === 'https:')
    socket = (await nodeModule<typeof import('node:tls')>('tls')).connect({ host, port, servername: host });
  else socket = (await nodeModule<typeof import('node:net')>('net')).connect({ host, port });
  const ready = place.url.protocol === 'https:' ? 'secureConnect' : 'connect';
  return new Promise((resolve, reject) => {
    socket.once(ready, () => resolve(socket));
    socket.once('error', (cause) => reject(notSent(cause)));
  });
}

/** The accept value of a WebSocket server for a client's key. */
async function acceptOf(key: string): Promise<string> {
  const text = new TextEncoder().encode(`${key}258EAFA5-E914-47DA-95CA-C5AB0DC85B11`);
  return btoa(String.fromCharCode(...new Uint8Array(await crypto.subtle.digest('SHA-1', text))));
}

function requestHead(place: Place, request: TransportRequest, key: string): string {
  const headers: Record<string, string> = { ...request.headers };
  if (place.token) headers.authorization ??= `Bearer ${place.token}`;
  const own = { host: place.url.host, connection: 'Upgrade', upgrade: 'websocket', 'sec-websocket-version': '13' };
  Object.assign(headers, own, { 'sec-websocket-key': key });
  const lines = Object.entries(headers).map(([name, value]) => `${name}: ${String(value).replace(/[\r\n]/g, ' ')}`);
  const base = place.url.pathname.replace(/\/$/, '');
  return `GET ${base}${request.path} HTTP/1.1\r\n${lines.join('\r\n')}\r\n\r\n`;
}

/** Reads up to the end of the headers and returns the bytes behind them. */
function readHead(socket: NetSocket): Promise<{ head: string; rest: Uint8Array }> {
  return new Promise((resolve, reject) => {
    let text = '';
    const stop = () => {
      socket.off('data', onData);
      socket.off('close', onClose);
      socket.off('error', onClose);
    };
    const onClose = () => {
      stop();
      reject(new ConnectionLostError('the connection broke before the upgrade was answered'));
    };
    const onData = (chunk: Uint8Array) => {
      text += Buffer.from(chunk).toString('latin1');
      const end = text.indexOf('\r\n\r\n');
      if (end < 0 && text.length < headMax) return;
      stop();
      socket.pause();
      resolve({ head: text.slice(0, end), rest: Buffer.from(text.slice(end + 4), 'latin1') });
    };
    socket.on('data', onData);
    socket.on('close', onClose);
    socket.on('error', onClose);
  });
}

/** The response in place of 101, with its body; the connection closes after it. */
async function refusal(socket: NetSocket, status: number, headers: Headers, rest: Uint8Array): Promise<Response> {
  const chunks = [rest];
  const length = Number(headers.get('content-length') ?? Number.POSITIVE_INFINITY);
  let have = rest.length;
  if (have < length)
    await new Promise<void>((done) => {
      socket.on('data', (chunk) => {
        chunks.push(chunk);
        have += chunk.length;
        if (have >= length || have > headMax) done();
      });
      socket.on('close', () => done());
      socket.setTimeout(2000, () => done());
      socket.resume();
    });
  socket.destroy();
  const body = Buffer.concat(chunks);
  return new Response([204, 304].includes(status) ? null : body, { status, headers });
}

/** A response that carries a socket, as Workers have it: Response itself refuses the status. */
export function switchingProtocols(webSocket: unknown, headers?: Headers): Response {
  const response = new Response(null, { headers });
  Object.defineProperty(response, 'status', { value: 101 });
  Object.defineProperty(response, 'ok', { value: false });
  Object.defineProperty(response, 'webSocket', { value: webSocket, enumerable: true });
  return response;
}

/** Upgrades a request to a WebSocket over node:net. */
export async function upgradeOverSocket(place: Place, request: TransportRequest): Promise<Response> {
  request.signal?.throwIfAborted();
  const socket = await connect(place);
  const abort = () => socket.destroy();
  request.signal?.addEventListener('abort', abort, { once: true });
  socket.once('close', () => request.signal?.removeEventListener('abort', abort));
  socket.on('error', () => {});
  const key = btoa(String.fromCharCode(...crypto.getRandomValues(new Uint8Array(16))));
  socket.write(requestHead(place, request, key));
  const { head, rest } = await readHead(socket);
  const [statusLine, ...lines] = head.split('\r\n');
  const status = Number(statusLine?.split(' ')[1]);
  if (!(status >= 101 && status < 600)) {
    socket.destroy();
    throw new ConnectionLostError(`not an answer of HTTP: ${statusLine?.slice(0, 80)}`);
  }
  const headers = new Headers();
  for (const line of lines) headers.append(line.slice(0, line.indexOf(':')), line.slice(line.indexOf(':') + 1).trim());
  if (status !== 101) return refusal(socket, status, headers, rest);
  if (headers.get('sec-websocket-accept') !== (await acceptOf(key))) {
    socket.destroy();
    throw new ConnectionLostError('the upgrade was answered for another key');
  }
  const webSocket = new NodeWebSocket(socket, rest);
  socket.resume();
  return switchingProtocols(webSocket, headers);
}
