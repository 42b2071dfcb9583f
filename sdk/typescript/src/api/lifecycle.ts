import { SandboxError } from '../errors/base.js';
import { type components, sandboxSpecFields } from '../generated/openapi.js';
import type { OutboundHandler } from '../outbound.js';
import type { SandboxConfiguration, SandboxOptions, SandboxTransport } from '../types/sandbox.js';
import type { Box } from './box.js';
import { Outbound, type OutboundHosts } from './outbound.js';

/** A sandbox as the daemon shows it. */
export type SandboxInfo = components['schemas']['Sandbox'];
type Spec = components['schemas']['SandboxSpec'];
type Timeouts = NonNullable<SandboxOptions['containerTimeouts']>;

const bounds: Record<keyof Timeouts, [number, number]> = {
  instanceGetTimeoutMS: [5_000, 300_000],
  portReadyTimeoutMS: [10_000, 600_000],
  waitIntervalMS: [100, 5_000],
};

/** Settings that the daemon keeps. `envChanges` belongs to one change, not to a sandbox. */
const settings = new Set(sandboxSpecFields.filter((name) => name !== 'envChanges'));
const optionsBeside = new Set(['enableDefaultSession', 'normalizeId', 'containerTimeouts', 'transport']);
const configurationBeside = new Set(['sandboxName', 'containerTimeouts', 'transport']);

/** The part of a configuration that the daemon keeps; null takes a setting away. */
function specOf(configuration: SandboxConfiguration): Spec | undefined {
  const kept = Object.entries(configuration).filter(([name, value]) => settings.has(name) && value !== undefined);
  return kept.length ? (Object.fromEntries(kept) as unknown as Spec) : undefined;
}

/** A misspelt option would be a limit that is not there. */
function checkOptions(call: string, given: object, others: Set<string>): void {
  for (const name of Object.keys(given)) {
    if (settings.has(name) || others.has(name)) continue;
    const known = [...settings, ...others].sort().join(', ');
    throw new TypeError(`${call} has no option '${name}'. There are: ${known}.`);
  }
}

/** The life of a sandbox: how it is configured, started, looked at and ended. */
export class Lifecycle {
  readonly #box: Box;
  /** Its id, after `normalizeId`. */
  readonly id: string;

  constructor(box: Box, options: SandboxOptions) {
    this.#box = box;
    this.id = box.id;
    this.#outbound = new Outbound(box);
    checkOptions('getSandbox', options, optionsBeside);
    if (options.containerTimeouts) this.#applyTimeouts(options.containerTimeouts);
    const spec = specOf(options);
    if (spec) box.first(() => box.json('PUT', '', spec, { repeatable: true, now: true }));
  }

  #applyTimeouts(timeouts: Timeouts): void {
    for (const [name, value] of Object.entries(timeouts) as [keyof Timeouts, number | undefined][]) {
      const [low, high] = bounds[name] ?? [0, Number.POSITIVE_INFINITY];
      if (value !== undefined && !(value >= low && value <= high))
        throw new Error(`Invalid ${name}: ${value}ms. Must be between ${low}-${high}ms`);
    }
    this.#box.readyMs = timeouts.instanceGetTimeoutMS ?? this.#box.readyMs;
  }

  /** Creates the sandbox, or changes an existing one. */
  async configure(configuration: SandboxConfiguration): Promise<void> {
    checkOptions('configure', configuration, configurationBeside);
    if (configuration.containerTimeouts) this.#applyTimeouts(configuration.containerTimeouts);
    const spec = specOf(configuration);
    if (spec) await this.#box.json('PUT', '', spec, { repeatable: true });
  }
  setSleepAfter(sleepAfter: string | number): Promise<void> {
    return this.configure({ sleepAfter });
  }
  setKeepAlive(keepAlive: boolean): Promise<void> {
    return this.configure({ keepAlive });
  }
  setLabels(labels: Record<string, string>): Promise<void> {
    return this.configure({ labels });
  }
  setContainerTimeouts(containerTimeouts: Timeouts): Promise<void> {
    return this.configure({ containerTimeouts });
  }
  /** Accepted for compatibility: there is one transport. */
  async setTransport(_transport: SandboxTransport): Promise<void> {}
  /** Accepted for compatibility: the id is the name. */
  async setSandboxName(_name: string, _normalizeId?: boolean): Promise<void> {}

  /** Makes and starts the sandbox now instead of with the first call. */
  async start(): Promise<void> {
    await this.#box.json('GET', '/api/ping');
  }
  async startAndWaitForPorts(..._ports: unknown[]): Promise<void> {
    await this.start();
  }
  /** Ends processes, sessions and contexts; files stay. The next call starts it again, with its services. */
  async stop(signal: 'SIGTERM' | 'SIGINT' | 'SIGKILL' | number = 'SIGTERM'): Promise<void> {
    if (signal === 'SIGINT' || signal === 2) return this.#interrupt();
    await this.#move('/stop');
  }
  /** Freezes the sandbox: nothing is lost, and the next call wakes it. */
  sleep(): Promise<void> {
    return this.#move('/sleep');
  }
  /** Wakes the sandbox, or starts it if it is stopped. */
  wake(): Promise<void> {
    return this.#move('/wake');
  }
  async #move(route: string): Promise<void> {
    try {
      await this.#box.json('POST', route, undefined, { repeatable: true });
    } catch (error) {
      if (route !== '/stop' || (error as { code?: string }).code !== 'SANDBOX_NOT_FOUND') throw error;
    }
  }
  async #interrupt(): Promise<void> {
    if ((await this.info())?.state !== 'running') return;
    try {
      await this.#box.json('POST', '/api/execute', { command: 'kill -INT 1', sessionId: '__DISABLE_SESSION__' });
    } catch (error) {
      // It may be gone before it answers.
      const code = (error as { code?: string }).code;
      if (code !== 'CONTAINER_LOST' && code !== 'RPC_TRANSPORT_ERROR') throw error;
    }
  }
  /** Destroys the sandbox with its processes and files. Succeeds if the sandbox does not exist. */
  async destroy(): Promise<void> {
    this.#box.lives++;
    await this.#box.quiet();
    try {
      await this.#box.json('DELETE', '', undefined, { repeatable: true });
    } catch (error) {
      if ((error as { code?: string }).code !== 'SANDBOX_NOT_FOUND') throw error;
    }
  }

  /** The sandbox as the daemon sees it, with its limits and usage; null when there is none. Makes nothing. */
  async info(): Promise<SandboxInfo | null> {
    try {
      return await this.#box.json<SandboxInfo>('GET', '');
    } catch (error) {
      if (error instanceof SandboxError && (error.code as string) === 'SANDBOX_NOT_FOUND') return null;
      throw error;
    }
  }
  /** Upstream's view of it. */
  async getState(): Promise<{ status: 'running' | 'healthy' | 'stopping' | 'stopped'; lastChange: number }> {
    const info = await this.info();
    const status = !info || info.state === 'stopped' ? 'stopped' : info.state === 'creating' ? 'running' : 'healthy';
    return { status, lastChange: info ? Date.parse(info.createdAt) : 0 };
  }
  /** Counts as a request, as every call does. */
  async renewActivityTimeout(): Promise<void> {
    await this.start();
  }
  /** Upstream's id of a machine. Here null once a call was answered, undefined before. */
  async getContainerPlacementId(): Promise<string | null | undefined> {
    return this.#box.touched ? null : undefined;
  }

  readonly #outbound: Outbound;

  /**
   * Requests of programs in the sandbox come to `handler`, which answers in the place of the servers. HTTPS works too: the
   * sandbox's programs trust an authority of the host for it. `null` ends it. `hosts` are names, patterns with `*` and
   * `address:port`; without it, all.
   */
  setOutboundHandler(handler: OutboundHandler | null, hosts?: OutboundHosts): Promise<void> {
    return this.#outbound.set(handler, hosts);
  }
  /** The same for one host; it goes before `setOutboundHandler`. */
  setOutboundByHost(host: string, handler: OutboundHandler | null): Promise<void> {
    return this.#outbound.setByHost(host, handler);
  }
  /** Only these hosts can be reached; an empty list means none. */
  async setAllowedHosts(hosts: string[]): Promise<void> {
    await this.#box.json('PATCH', '/network', { mode: 'list', allow: hosts }, { repeatable: true });
  }
  /** These hosts cannot be reached, whatever else is allowed. */
  async setDeniedHosts(hosts: string[]): Promise<void> {
    await this.#box.json('PATCH', '/network', { deny: hosts }, { repeatable: true });
  }
}
