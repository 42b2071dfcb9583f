/**
 * `atoll-sandbox/workers`: the unmodified `Sandbox` class of `@cloudflare/sandbox`, on boxes of Atoll.
 *
 * ```ts
 * import { getSandbox, proxyToSandbox, Sandbox as Base } from '@cloudflare/sandbox';
 * import { onAtoll } from 'atoll-sandbox/workers';
 *
 * export const Sandbox = onAtoll(Base);
 * ```
 *
 * Everything else of the Worker stays as it is. It runs in `workerd` (wrangler dev, miniflare) without Docker and without
 * a Cloudflare account; the daemon's address and token come from the bindings `ATOLL_URL` and `ATOLL_TOKEN`.
 */

import { AtollContainer } from './container.js';
import { type Address, Daemon } from './daemon.js';
import type { ObjectState } from './runtime.js';

export type { DurableObjectContainer, StartOptions } from './runtime.js';

/** Options of {@link onAtoll}. */
export interface OnAtollOptions {
  /** The daemon's address. Default: the binding `ATOLL_URL`, else `http://127.0.0.1:8700`. */
  url?: string;
  /** The daemon's token. Default: the binding `ATOLL_TOKEN`. */
  token?: string;
  /**
   * The id of the box behind a Durable Object. `name` is the argument of `getSandbox(ns, name)`, if it is known, and
   * `objectId` the 64 hexadecimal digits of the object's id. Default: {@link boxId}.
   */
  id?: (name: string | undefined, objectId: string) => string;
}

type ObjectClass = abstract new (ctx: any, env: any) => object;

const DEFAULT_URL = 'http://127.0.0.1:8700';

/** Ids that Atoll accepts: see `Id` in its OpenAPI document. */
const ID = /^(?!-)[!-.0-~]{1,63}(?<!-)$/;
const RESERVED = new Set(['www', 'api', 'admin', 'root', 'system', 'cloudflare', 'workers']);

/**
 * The box of a Durable Object: its name, so that `getSandbox(env.Sandbox, 'user-1')` and `atoll exec user-1` mean the same
 * box. An object without a name, or with a name that Atoll does not accept (blanks, `/`, letters beyond ASCII), gets `do-`
 * and the first 60 digits of its id.
 */
export function boxId(name: string | undefined, objectId: string): string {
  if (name !== undefined && ID.test(name) && !RESERVED.has(name.toLowerCase())) return name;
  return `do-${objectId.slice(0, 60)}`;
}

/**
 * Wraps a Durable Object class that extends `Container` (`Sandbox` does): its `ctx.container` is a box of Atoll.
 *
 * @param Base the class as it comes from `@cloudflare/sandbox`, or one of your own that extends it
 * @param options where Atoll is, when the bindings do not say so
 * @returns a class with the same name, to be exported from the Worker
 */
export function onAtoll<T extends ObjectClass>(Base: T, options: OnAtollOptions = {}): T {
  const Parent = Base as unknown as new (ctx: ObjectState, env: unknown) => object;
  const OnAtoll = class extends Parent {
    constructor(ctx: ObjectState, env: unknown) {
      const address = addressOf(env, options);
      const container = new AtollContainer(
        ctx,
        (id) => new Daemon(address, id),
        () => (options.id ?? boxId)(nameOf(ctx), ctx.id.toString()),
      );
      Object.defineProperty(ctx, 'container', { value: container, configurable: true, enumerable: true });
      super(ctx, env);
    }
  };
  // Handlers for outgoing requests are registered under the class's name.
  Object.defineProperty(OnAtoll, 'name', { value: Base.name });
  return OnAtoll as unknown as T;
}

function addressOf(env: unknown, options: OnAtollOptions): Address {
  const bindings = (env ?? {}) as { ATOLL_URL?: unknown; ATOLL_TOKEN?: unknown };
  const url = options.url ?? text(bindings.ATOLL_URL) ?? DEFAULT_URL;
  return { url: new URL(url).href.replace(/\/+$/, ''), token: options.token ?? text(bindings.ATOLL_TOKEN) };
}

const text = (value: unknown): string | undefined => (typeof value === 'string' && value ? value : undefined);

/** `ctx.id` knows its name in new versions of workerd; `Sandbox` stores the name that `getSandbox` gave it. */
function nameOf(ctx: ObjectState): string | undefined {
  return ctx.id.name ?? text(ctx.storage.kv.get('sandboxName'));
}
