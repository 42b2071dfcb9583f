import type { AtollOptions } from '../types/sandbox.js';
import { FetchTransport } from './fetch.js';
import { locate } from './locate.js';
import { NodeTransport } from './node.js';
import { environment, runtime } from './runtime.js';
import type { Transport } from './types.js';

const shared = new Map<string, Promise<Transport>>();

/** The way to the Atoll that the options name. All sandboxes of one Atoll share it, and with it its connections. */
export function transportTo(options: AtollOptions): Promise<Transport> {
  const url = options.url ?? environment('ATOLL_URL');
  const key = [url, options.token ?? environment('ATOLL_TOKEN'), url ? '' : environment('ATOLL_RUN')].join(' ');
  const known = shared.get(key);
  if (known) return known;
  const made = locate(options).then((place) => {
    // Nobody named one and there is no socket: an Atoll that is started later may have one.
    if (!url && !place.socketPath) shared.delete(key);
    return runtime() === 'node' ? new NodeTransport(place) : new FetchTransport(place);
  });
  made.catch(() => shared.delete(key));
  shared.set(key, made);
  return made;
}
