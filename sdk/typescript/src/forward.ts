import type { Box, CallOptions } from './api/box.js';

/** Upstream's way to say which port of the sandbox a request is for. */
export const portHeader = 'cf-container-target-port';
/** Where a sandbox's own API listens, seen from inside. */
export const controlPort = 3000;

/* Headers that belong to one connection and not to the request, and those that a WebSocket's own handshake writes. */
const perConnection = new Set([
  'connection',
  'keep-alive',
  'proxy-authenticate',
  'proxy-authorization',
  'te',
  'trailer',
  'transfer-encoding',
  'upgrade',
  'host',
  'content-length',
  'sec-websocket-key',
  'sec-websocket-version',
  'sec-websocket-extensions',
  portHeader,
]); // prettier-ignore

/* Headers of a client that forwards requests of others: its token, and the Host for the server. */
const tokenHeader = 'x-atoll-token';
const hostHeader = 'x-atoll-host';
/* Port 3000 of the daemon's route is the sandbox's own API, unless a request says that it is for an app there. */
const appHeader = 'x-atoll-app';
/** The daemon marks answers that are its own, and no server's in the sandbox. */
export const errorHeader = 'x-atoll-error';

function headersOf(request: Request, host: string, token: string | undefined): Record<string, string> {
  const headers = Object.fromEntries([...request.headers].filter(([name]) => !perConnection.has(name)));
  delete headers[tokenHeader];
  delete headers[appHeader];
  if (token) headers[tokenHeader] = token;
  return { ...headers, [hostHeader]: host };
}

export const isUpgrade = (request: Request) => request.headers.get('upgrade')?.toLowerCase() === 'websocket';

/** The same for an app, whichever port it listens on. */
export const forwardToApp = (box: Box, request: Request, port: number, add: Record<string, string>) =>
  forward(box, request, port, { ...add, [appHeader]: '1' });

/** Passes a request on to a port of the sandbox, both ways as a stream, and returns the server's response. */
export async function forward(
  box: Box,
  request: Request,
  port: number,
  add: Record<string, string> = {},
): Promise<Response> {
  const { pathname, search, host } = new URL(request.url);
  // The sandbox's own API has routes of its own.
  const path = (port === controlPort && !add[appHeader] ? '' : `/proxy/${port}`) + pathname + search;
  const options: CallOptions = {
    headers: { ...headersOf(request, host, await box.token()), ...add },
    signal: request.signal,
  };
  if (isUpgrade(request)) return box.upgrade(path, options);
  const body = request.body ?? undefined;
  return box.pass(request.method, path, body, options);
}
