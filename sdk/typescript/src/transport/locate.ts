import type { AtollOptions } from '../types/sandbox.js';
import { environment, nodeModule, runtime } from './runtime.js';
import { NotSentError } from './types.js';

/** Where an Atoll listens: a URL, or a socket of this machine, which needs no token. */
export interface Place {
  url: URL;
  socketPath?: string;
  token?: string;
}

const defaultUrl = 'http://127.0.0.1:8700';
const runDirectory = () => environment('ATOLL_RUN') ?? '/run/atoll';
const dataDirectory = () => environment('ATOLL_DATA') ?? '/var/lib/atoll';

function atSocket(socketPath: string): Place {
  return { url: new URL('http://localhost'), socketPath };
}

function atUrl(text: string, token: string | undefined): Place {
  if (text.startsWith('unix:')) return { ...atSocket(text.replace(/^unix:(\/\/)?/, '')), token };
  const url = URL.canParse(text) ? new URL(text) : undefined;
  if (!url || !/^https?:$/.test(url.protocol))
    throw new TypeError(`'${text}' is not the URL of an Atoll: use http://host:port or unix:/path/to/atoll.sock`);
  return { url, token };
}

async function usable(path: string): Promise<'yes' | 'forbidden' | 'no'> {
  try {
    const fs = await nodeModule<typeof import('node:fs/promises')>('fs/promises');
    await fs.access(path, 6); // R_OK | W_OK
    return 'yes';
  } catch (error) {
    return (error as { code?: string }).code === 'EACCES' ? 'forbidden' : 'no';
  }
}

async function contentOf(path: string): Promise<string | undefined> {
  try {
    const fs = await nodeModule<typeof import('node:fs/promises')>('fs/promises');
    return (await fs.readFile(path, 'utf8')).trim() || undefined;
  } catch {
    return undefined;
  }
}

/** The Atoll of this machine: its socket; for users who may not open the socket, the address in the file beside it. */
async function onThisMachine(token: string | undefined): Promise<Place> {
  const socketPath = `${runDirectory()}/atoll.sock`;
  const state = await usable(socketPath);
  if (state === 'yes') return atSocket(socketPath);
  // A directory chosen by hand means that daemon and no other.
  if (state === 'no' && environment('ATOLL_RUN')) return atSocket(socketPath);
  const listed = state === 'forbidden' ? (await contentOf(`${runDirectory()}/listen`))?.split('\n')[0] : undefined;
  const url = new URL(listed ? `http://${listed}` : defaultUrl);
  return { url, token: token ?? (await contentOf(`${dataDirectory()}/token`)) };
}

/** Finds the Atoll that the options, the environment or this machine name. */
export async function locate(options: AtollOptions): Promise<Place> {
  const token = options.token ?? environment('ATOLL_TOKEN');
  const url = options.url ?? environment('ATOLL_URL');
  if (url) return atUrl(url, token);
  if (runtime() === 'web')
    throw new NotSentError('no Atoll was named: give {url, token}, or set ATOLL_URL and ATOLL_TOKEN');
  return onThisMachine(token);
}
