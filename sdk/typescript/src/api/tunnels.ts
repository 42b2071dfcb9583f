import type { components } from '../generated/openapi.js';
import { checkedPort } from '../names.js';
import type { TunnelInfo, TunnelOptions, TunnelsHandler } from '../types/storage.js';
import type { Box } from './box.js';

type Tunnel = components['schemas']['Tunnel'];

const infoOf = ({ id, port, url, hostname, createdAt, name }: Tunnel): TunnelInfo => ({
  id,
  port,
  url,
  hostname,
  createdAt,
  ...(name === undefined ? {} : { name }),
});

/** Not there, or not even a sandbox: nothing to end. */
const missing = new Set(['TUNNEL_NOT_FOUND', 'SANDBOX_NOT_FOUND']);

/** Ports of one sandbox with host names of their own. */
export class TunnelsOf implements TunnelsHandler {
  readonly #box: Box;

  constructor(box: Box) {
    this.#box = box;
  }

  /** The tunnel of a port, made if there is none. */
  async get(port: number, options: TunnelOptions = {}): Promise<TunnelInfo> {
    const body = { port: checkedPort(port), name: options.name };
    return infoOf(await this.#box.json<Tunnel>('POST', '/tunnels', body, { repeatable: true }));
  }

  async list(): Promise<TunnelInfo[]> {
    try {
      return (await this.#box.json<{ tunnels: Tunnel[] }>('GET', '/tunnels')).tunnels.map(infoOf);
    } catch (error) {
      if ((error as { code?: string }).code !== 'SANDBOX_NOT_FOUND') throw error;
      return [];
    }
  }

  async destroy(portOrInfo: number | TunnelInfo): Promise<void> {
    const port = checkedPort(typeof portOrInfo === 'object' ? portOrInfo.port : portOrInfo);
    try {
      await this.#box.json('DELETE', `/tunnels/${port}`, undefined, { repeatable: true });
    } catch (error) {
      if (!missing.has((error as { code?: string }).code ?? '')) throw error;
    }
  }
}
