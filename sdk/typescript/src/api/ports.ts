import { errorResponse } from '../errors/base.js';
import { SandboxSecurityError } from '../errors/plain-errors.js';
import { CustomDomainRequiredError, PortAlreadyExposedError, PortNotExposedError } from '../errors/port-errors.js';
import type { components } from '../generated/openapi.js';
import { checkedPort, checkedToken } from '../names.js';
import { withText } from '../text.js';
import type { ExposedPort } from '../types/sandbox.js';
import type { Box } from './box.js';

type Port = components['schemas']['Port'];

const localHost = /^(localhost|127\.0\.0\.1|0\.0\.0\.0|\[::1\])(:\d+)?$/;

/** `{port}-{id}-{token}` below a host name of the caller's own, or as the daemon says without one. */
function urlOf(exposed: Port, id: string, hostname: string | undefined): string {
  if (hostname === undefined) return exposed.url;
  if (/[A-Z]/.test(id))
    throw new SandboxSecurityError(
      `Preview URLs require lowercase sandbox IDs, as host names have no case. Use getSandbox(atoll, '${id}', { normalizeId: true }).`,
    );
  const scheme = localHost.test(hostname) ? 'http' : 'https';
  return new URL(`${scheme}://${exposed.port}-${id}-${exposed.token}.${hostname}`).href;
}

/** Exposed ports of one sandbox. */
export class Ports {
  readonly #box: Box;

  constructor(box: Box) {
    this.#box = box;
  }

  async expose(port: number, options: { name?: string; hostname?: string; token?: string } = {}) {
    const { name, hostname } = options;
    checkedPort(port);
    if (hostname?.endsWith('.workers.dev')) {
      const message = 'Port exposure requires a custom domain: .workers.dev has no wildcard subdomains.';
      throw new CustomDomainRequiredError(
        errorResponse('CUSTOM_DOMAIN_REQUIRED', message, { originalError: hostname }, 400),
      );
    }
    const token = options.token === undefined ? undefined : checkedToken(options.token);
    try {
      const exposed = await this.#box.json<Port>('POST', `/ports/${port}`, { name, token }, { repeatable: true });
      const url = urlOf(exposed, this.#box.id, hostname);
      return withText({ url, port, name }, () => url);
    } catch (error) {
      // Upstream's class for a token that serves another port.
      if (error instanceof PortAlreadyExposedError) throw new SandboxSecurityError(error.message, error.code);
      throw error;
    }
  }

  async unexpose(port: number): Promise<void> {
    try {
      await this.#box.json('DELETE', `/ports/${checkedPort(port)}`, undefined, { repeatable: true });
    } catch (error) {
      if (!isMissing(error)) throw error;
    }
  }

  async list(hostname?: string): Promise<ExposedPort[]> {
    const ports = await this.#all();
    const active = ports.filter((port) => port.status === 'active');
    return active.map((port) => ({ url: urlOf(port, this.#box.id, hostname), port: port.port, status: 'active' }));
  }

  async isExposed(port: number): Promise<boolean> {
    checkedPort(port);
    return (await this.#all()).some((exposed) => exposed.port === port);
  }

  async validateToken(port: number, token: string): Promise<boolean> {
    const answer = this.#box.json<{ valid: boolean }>(
      'POST',
      `/ports/${port}/validate`,
      { token },
      { repeatable: true },
    );
    return (await answer).valid;
  }

  async #all(): Promise<Port[]> {
    try {
      return (await this.#box.json<components['schemas']['PortList']>('GET', '/ports')).ports;
    } catch (error) {
      if (isMissing(error)) return [];
      throw error;
    }
  }
}

/** Not exposed, or not even a sandbox: nothing to take back. */
function isMissing(error: unknown): boolean {
  return error instanceof PortNotExposedError || (error as { code?: string }).code === 'SANDBOX_NOT_FOUND';
}
