import type { components } from '../generated/openapi.js';

/**
 * `value` goes only to `hosts`, over TLS that the gate has verified. A sandbox has a placeholder in the variable `env`, which may
 * stand in the places of `in` only: `header:NAME`, `query:NAME`, `path`.
 */
export type SecretSpec = components['schemas']['SecretSpec'];
/** A secret without its value, which nothing shows. */
export type Secret = components['schemas']['Secret'];

/** The secrets of an Atoll. `secrets: ['name']` in the options of `getSandbox` gives them to a sandbox. */
export interface Secrets {
  /** Makes or replaces one. Sandboxes that have it use the new value from their next request on. */
  put(name: string, spec: SecretSpec): Promise<Secret>;
  /** Sorted by name. */
  list(): Promise<Secret[]>;
  /** Null when there is none. */
  get(name: string): Promise<Secret | null>;
  /** Takes it from all sandboxes at once. Throws when there is none. */
  delete(name: string): Promise<void>;
}
