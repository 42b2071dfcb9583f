// The Worker under test, as the documentation of the preview writes it, but for the one line with onAtoll.
//
//   /rows            the rows with their areas
//   /row/NAME        runs a row inside the Worker and answers {ok, error}
//   anything else    a preview, when the host name says so
import { ContainerProxy, getSandbox, proxyToSandbox, Sandbox as Base } from '@cloudflare/sandbox';
import { SandboxExtension } from '@cloudflare/sandbox/extensions';
import { withGit } from '@cloudflare/sandbox/git';
import { withInterpreter } from '@cloudflare/sandbox/interpreter';
import { onAtoll } from 'atoll-sandbox/workers';
import { remoteBucket } from '../workers/remote.mjs';
import { rows } from './rows/index.mjs';

export { ContainerProxy };

/** An extension with a package of its own, which nothing here runs. */
class Foreign extends SandboxExtension {
  constructor(sandbox) {
    super(sandbox, { tarball: new Uint8Array([1, 2, 3]) });
  }
  call() {
    return this.withSidecar('foreign.call', (api) => api.call());
  }
  health() {
    return this.sidecarHealth();
  }
}

export class Sandbox extends onAtoll(Base) {
  interpreter = withInterpreter(this);
  git = withGit(this);
  foreign = new Foreign(this);
  /** Ends this object, not its box: as an eviction does. */
  evict() {
    this.ctx.abort('evicted by the test');
  }
  /** Reads the first event of a run and lets go of it, in here: workerd does not tell this object when a caller does. */
  async cancelRun(code, context) {
    const reader = (await this.interpreter.runCodeStream(code, { context })).getReader();
    await reader.read();
    await reader.cancel();
  }
  /** What the alarm asks before it stops the box. */
  expired() {
    return this.onActivityExpired();
  }
}

/** Its backups go to the S3 server of test_preview_storage.py. */
export class Remote extends onAtoll(Base) {
  constructor(ctx, env) {
    super(ctx, { ...env, BACKUP_BUCKET: remoteBucket(env) });
  }
}

let boxes = 0;

function tools(env, name) {
  const opened = [];
  const headers = { Authorization: `Bearer ${env.ATOLL_TOKEN}` };
  const atoll = (method, path, body) =>
    fetch(`${env.ATOLL_URL}/v1/sandboxes/${path}`, { method, headers, body: body && JSON.stringify(body) });
  return {
    env,
    opened,
    /** A sandbox of the row's own. */
    box(options, namespace = env.Sandbox) {
      const id = `n${++boxes}-${name.toLowerCase().replace(/[^a-z]+/g, '-').slice(0, 30)}`.replace(/-+$/, '');
      opened.push(id);
      return { id, sandbox: getSandbox(namespace, id, options) };
    },
    again: (id) => getSandbox(env.Sandbox, id),
    async inspect(id) {
      const response = await atoll('GET', id);
      return response.ok ? response.json() : null;
    },
    atoll,
  };
}

async function run(env, name) {
  const t = tools(env, name);
  try {
    await rows.get(name).run(t);
    return { ok: true };
  } catch (error) {
    return { ok: false, error: `${error.stack ?? error}\n${JSON.stringify(error.cause ?? null)}` };
  } finally {
    await Promise.all(t.opened.map((id) => t.atoll('DELETE', id)));
  }
}

export default {
  async fetch(request, env) {
    const preview = await proxyToSandbox(request, env);
    if (preview) return preview;
    const [, kind, name] = new URL(request.url).pathname.split('/').map(decodeURIComponent);
    if (kind === 'rows') return Response.json(Object.fromEntries([...rows].map(([n, r]) => [n, r.area])));
    if (kind === 'row') return Response.json(await run(env, name));
    return new Response('not found', { status: 404 });
  },
};
