import { Box } from './api/box.js';
import { Ports } from './api/ports.js';
import { ContainerUnavailableError } from './errors/other-errors.js';
import { SandboxSecurityError } from './errors/plain-errors.js';
import { ServiceNotRespondingError } from './errors/port-errors.js';
import { forwardToApp, isUpgrade } from './forward.js';
import { atollOf } from './get-sandbox.js';
import { checkedId, isPort } from './names.js';
import type { AtollOptions } from './types/sandbox.js';

/** The parts of a preview's host name. */
export interface PreviewRoute {
  port: number;
  sandboxId: string;
  token: string;
}

/** Takes `{port}-{id}-{token}.…` apart; null when it is no preview's host name. */
export function previewRoute(url: URL): PreviewRoute | null {
  const match = /^(\d{4,5})-(.{1,63})-([a-z0-9_]{1,63})\./.exec(url.hostname);
  if (!match || !isPort(Number(match[1]))) return null;
  try {
    return { port: Number(match[1]), sandboxId: checkedId(match[2]!), token: match[3]! };
  } catch (error) {
    if (error instanceof SandboxSecurityError) return null;
    throw error;
  }
}

/** The Atoll itself, or an environment of bindings, whose `Sandbox` may be one. */
function named(atoll: AtollOptions | { Sandbox?: unknown } | null | undefined): AtollOptions {
  if (atoll && ('url' in atoll || 'token' in atoll)) return atollOf(atoll);
  return atollOf((atoll as { Sandbox?: unknown } | null | undefined)?.Sandbox);
}

const refusal = (status: number, code: string, error: string) => Response.json({ error, code }, { status });

/**
 * Serves preview URLs below a domain of one's own: passes a request whose host name is one on to its sandbox, WebSockets
 * included, and answers null for any other. A request wakes nothing that was destroyed.
 *
 *     const preview = await proxyToSandbox(request, { url, token });
 *     if (preview) return preview;
 *
 * An environment of bindings does as well: `proxyToSandbox(request, env)` with `env.Sandbox` as `getSandbox` takes it.
 */
export async function proxyToSandbox(request: Request, atoll?: AtollOptions | object | null): Promise<Response | null> {
  const url = new URL(request.url);
  const route = previewRoute(url);
  if (!route) return null;
  const box = new Box(named(atoll), route.sandboxId.toLowerCase());
  const ports = new Ports(box);
  try {
    if (!(await ports.validateToken(route.port, route.token)))
      return refusal(404, 'INVALID_TOKEN', 'Access denied: Invalid token or port not exposed');
    if (!(await ports.list()).some(({ port }) => port === route.port))
      return refusal(410, 'STALE_PREVIEW_URL', 'Preview URL is stale because the sandbox runtime is not active');
    const add = {
      'x-original-url': request.url,
      'x-forwarded-host': url.host,
      'x-forwarded-proto': url.protocol.slice(0, -1),
      'x-sandbox-name': route.sandboxId,
    };
    return await forwardToApp(box, request, route.port, add);
  } catch (error) {
    if (isUpgrade(request) && error instanceof ServiceNotRespondingError)
      return refusal(502, error.code, error.message);
    if (error instanceof ContainerUnavailableError) return refusal(503, error.code, error.message);
    return new Response('Proxy routing error', { status: 500 });
  }
}
