import { Box } from './api/box.js';
import { SecretsOf } from './api/secrets.js';
import { checkedId } from './names.js';
import { Sandbox } from './sandbox.js';
import type { AtollOptions, SandboxOptions } from './types/sandbox.js';
import type { Secrets } from './types/secrets.js';

/** A Durable Object's namespace, which code for Workers hands over. It says nothing about where Atoll is. */
interface Namespace {
  idFromName(name: string): unknown;
}

const fields = new Set(['url', 'token', 'retryMs']);

/** The Atoll that a first argument names, or an empty object for that of the environment. */
export function atollOf(atoll: unknown): AtollOptions {
  if (atoll === undefined || atoll === null) return {};
  if (typeof atoll !== 'object' && typeof atoll !== 'function')
    throw new TypeError(`which Atoll is said with { url, token } or undefined, not with a ${typeof atoll}`);
  if ('idFromName' in atoll) return {};
  for (const name of Object.keys(atoll))
    if (!fields.has(name)) throw new TypeError(`an Atoll has no field '${name}': use { url, token }`);
  return atoll;
}

/**
 * A sandbox by its id. Sends no request: the first call creates the sandbox if it does not exist.
 *
 *     const sandbox = getSandbox({ url: 'http://127.0.0.1:8700', token }, 'user-123');
 *     const sandbox = getSandbox(undefined, 'user-123');   // ATOLL_URL and ATOLL_TOKEN, else this machine's socket
 *     const sandbox = getSandbox(env.Sandbox, 'user-123'); // one of these, in a program shaped like a Worker
 *     await sandbox.exec('python3 -c "print(6 * 7)"');
 */
export function getSandbox(
  atoll: AtollOptions | Namespace | null | undefined,
  id: string,
  options: SandboxOptions = {},
): Sandbox {
  const checked = checkedId(id);
  return new Sandbox(new Box(atollOf(atoll), options.normalizeId ? checked.toLowerCase() : checked), options);
}

/**
 * The secrets of an Atoll, which no sandbox sees.
 *
 *     await getSecrets().put('openai', { value: key, hosts: ['api.openai.com'], env: 'OPENAI_API_KEY' });
 *     const sandbox = getSandbox(undefined, 'user-123', { secrets: ['openai'] });
 */
export function getSecrets(atoll?: AtollOptions | Namespace | null): Secrets {
  return new SecretsOf(new Box(atollOf(atoll), 'secrets'));
}
