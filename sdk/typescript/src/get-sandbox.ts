import { Box } from './api/box.js';
import { checkedId } from './names.js';
import { Sandbox } from './sandbox.js';
import type { AtollOptions, SandboxOptions } from './types/sandbox.js';

/** A Durable Object's namespace, which code for Workers hands over. It says nothing about where Atoll is. */
interface Namespace {
  idFromName(name: string): unknown;
}

/**
 * A sandbox by its id. Sends no request: the first call creates the sandbox if it does not exist.
 *
 *     const sandbox = getSandbox({ url: 'http://127.0.0.1:8700', token }, 'user-123');
 *     const sandbox = getSandbox(undefined, 'user-123');   // ATOLL_URL and ATOLL_TOKEN, else this machine's socket
 *     await sandbox.exec('python3 -c "print(6 * 7)"');
 */
export function getSandbox(
  atoll: AtollOptions | Namespace | null | undefined,
  id: string,
  options: SandboxOptions = {},
): Sandbox {
  const checked = checkedId(id);
  const named = atoll && !('idFromName' in atoll) ? atoll : {};
  return new Sandbox(new Box(named, options.normalizeId ? checked.toLowerCase() : checked), options);
}
