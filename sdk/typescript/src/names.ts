import { SandboxSecurityError } from './errors/plain-errors.js';
import type { SessionRef } from './types/commands.js';

const reserved = new Set(['www', 'api', 'admin', 'root', 'system', 'cloudflare', 'workers']);

/** The id, if it can be one; the rules are those of host names. */
export function checkedId(id: string): string {
  if (!id || id.length > 63)
    throw new SandboxSecurityError(
      `Sandbox ID must be 1-63 characters long (got ${id?.length ?? 0})`,
      'INVALID_SANDBOX_ID_LENGTH',
    );
  if (id.startsWith('-') || id.endsWith('-'))
    throw new SandboxSecurityError('Sandbox ID must not start or end with a hyphen', 'INVALID_SANDBOX_ID_HYPHENS');
  /* A URL parser takes "." and ".." for directories, also when they are percent-encoded. */
  if (/^\.+$/.test(id))
    throw new SandboxSecurityError('Sandbox ID must not consist of dots alone', 'INVALID_SANDBOX_ID_CHARACTERS');
  if (reserved.has(id.toLowerCase()))
    throw new SandboxSecurityError(`'${id}' is a reserved name: choose another sandbox ID`, 'RESERVED_SANDBOX_ID');
  return id;
}

/** Whether a port can be exposed. */
export const isPort = (port: number) => Number.isInteger(port) && port >= 1024 && port <= 65535;

export function checkedPort(port: number): number {
  if (typeof port !== 'number') {
    const said = typeof port === 'string' ? `'${port}'` : typeof port;
    const right = Number.isInteger(Number(port)) && port ? Number(port) : 3000;
    throw new TypeError(`a port is a number: write ${right}, not ${said}`);
  }
  if (isPort(port)) return port;
  throw new SandboxSecurityError(`Invalid port number: ${port}. Must be 1024-65535.`, 'INVALID_PORT_NUMBER');
}

/** A token of one's own for a preview URL. */
export function checkedToken(token: string): string {
  if (/^[a-z0-9_]{1,16}$/.test(token)) return token;
  throw new SandboxSecurityError(
    'Custom token must be 1-16 lowercase letters (a-z), numbers (0-9) and underscores (_).',
    'INVALID_TOKEN',
  );
}

/** The id of something that is named by its id or by an object that has one. */
export function idOf(what: string, ref: string | { readonly id: string }): string {
  const id = typeof ref === 'object' && ref !== null ? ref.id : ref;
  if (typeof id === 'string') return id;
  throw new TypeError(
    `a ${what} is named by its id or by the ${what} itself, not by ${JSON.stringify(ref) ?? typeof ref}`,
  );
}

/** The id of a session that was given, not left out. */
export function checkedSession(session: SessionRef): string {
  const id = idOf('session', session);
  if (id.trim()) return id;
  throw new Error('sessionId must not be empty or whitespace');
}
