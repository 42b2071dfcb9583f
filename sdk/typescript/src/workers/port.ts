/** `container.getTcpPort(port)`: requests and WebSockets to a port inside the box. */

import type { Daemon } from './daemon.js';
import type { TcpPort } from './runtime.js';

/** The port of the box's agent, which answers from the moment the box is ready. */
const AGENT_PORT = 3000;

/** Hosts that the `Container` class asks, twice at each start, only to see whether a server listens. It reads no answer. */
const PROBES = new Set(['containerstarthealthcheck', 'ping']);

/** The daemon's error code if no server listens on the port. */
const NOT_LISTENING = 'SERVICE_NOT_RESPONDING';

// The `Container` class and the SDK compare this text.
const notListening = (port: number) => new Error(`The container is not listening in the TCP address 10.0.0.1:${port}`);

/**
 * @param daemon where the box is
 * @param port the port inside the box
 * @param ready resolves when the box can be asked, rejects when it cannot
 */
export function tcpPort(daemon: () => Daemon, port: number, ready: () => Promise<void>): TcpPort {
  return {
    async fetch(input, init) {
      const request = new Request(input, init);
      await ready();
      if (port === AGENT_PORT && isProbe(request)) return new Response(null);
      const response = await fetch(translate(daemon(), port, request));
      if (await nothingListens(response)) throw notListening(port);
      return response;
    },
    connect() {
      throw new Error(
        'atoll-sandbox: raw TCP to a box is not supported; use fetch(), which carries HTTP and WebSockets',
      );
    },
  };
}

function isProbe(request: Request): boolean {
  const { hostname, pathname } = new URL(request.url);
  return request.method === 'GET' && pathname === '/' && PROBES.has(hostname);
}

function translate(daemon: Daemon, port: number, request: Request): Request {
  const { pathname, search, host } = new URL(request.url);
  const headers = daemon.relay(new Headers(request.headers), host);
  return new Request(daemon.url(`/proxy/${port}${pathname}${search}`), {
    method: request.method,
    headers,
    body: request.body,
    redirect: 'manual',
    signal: request.signal,
    ...(request.body && { duplex: 'half' }),
  });
}

/** An app may answer with any status: the daemon marks its own errors. */
async function nothingListens(response: Response): Promise<boolean> {
  if (response.headers.get('X-Atoll-Error') !== NOT_LISTENING) return false;
  await response.body?.cancel();
  return true;
}
