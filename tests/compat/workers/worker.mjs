// The Worker under test. It is written as upstream's documentation shows, but for the one line with onAtoll.
//
//   /rows            the rows with their areas, and what is not served yet
//   /row/NAME        runs a row of the table inside the Worker and answers {ok, error}
//   /terminal/ID     a terminal of sandbox ID, for a browser's WebSocket
//   /expose/ID?hostname=   starts a server in sandbox ID and exposes it
//   /destroy/ID
//   anything else    a preview, when the host name says so
import { ContainerProxy, getSandbox, proxyToSandbox, Sandbox as Base } from '@cloudflare/sandbox';
import { onAtoll } from 'atoll-sandbox/workers';
import { remoteBucket, s3 } from './remote.mjs';
import { later, rows } from './rows/index.mjs';
import { serve, until } from './rows/util.mjs';

export { ContainerProxy };
export const Sandbox = onAtoll(Base);

/** An application's own class, as upstream's documentation suggests. */
export class Custom extends onAtoll(Base) {
  sleepAfter = '7m';
  envVars = { FROM_CLASS: 'yes' };
  /** Ends this object, not its box: as an eviction does. */
  evict() {
    this.ctx.abort('evicted by the test');
  }
}

/** A token that the daemon does not know. */
export const Refused = onAtoll(Base, { token: 'wrong' });

/** A daemon that is not there. */
export const Nowhere = onAtoll(Base, { url: 'http://127.0.0.1:1' });

/** Answers for some hosts, and for nothing else: the box has no internet. */
export class Intercepted extends onAtoll(Base) {
  enableInternet = false;
  interceptHttps = true;
}
Intercepted.outboundByHost = {
  'by-host.example': async (request) =>
    Response.json(
      { method: request.method, url: request.url, one: request.headers.get('X-One') ?? undefined, body: await request.text() },
      { status: 201 },
    ),
};
Intercepted.outboundHandlers = {
  echo: (request, _env, { params }) => new Response(`${params.word} ${new URL(request.url).hostname}`),
};

/** Answers for everything: with the body that it was sent, or the URL. A WebSocket is passed on to the driver's echo server. */
export class CatchAll extends onAtoll(Base) {
  evict() {
    this.ctx.abort('evicted by the test');
  }
}
CatchAll.outbound = (request, env) =>
  request.headers.get('Upgrade') === 'websocket'
    ? fetch(new Request(env.ECHO_URL + new URL(request.url).pathname, request))
    : new Response(request.body ?? `caught ${request.url}`);

/** Nothing is intercepted before somebody asks for it. */
export class Later extends onAtoll(Base) {
  remembered() {
    return this.ctx.storage.kv.get('atoll:box');
  }
}
Later.outboundHandlers = Intercepted.outboundHandlers;

/** Its backups lie in the S3 server of the test. */
export class Remote extends onAtoll(Base) {
  constructor(ctx, env) {
    super(ctx, { ...env, BACKUP_BUCKET: remoteBucket(env) });
  }
}

let boxes = 0;

/** What a row gets. Boxes that it opens are destroyed after it. */
function tools(env, name) {
  const opened = [];
  const headers = { Authorization: `Bearer ${env.ATOLL_TOKEN}` };
  const atoll = (method, path, body) =>
    fetch(`${env.ATOLL_URL}/v1/sandboxes/${path}`, { method, headers, body: body && JSON.stringify(body) });
  return {
    env,
    until,
    own: false,
    opened,
    /** A sandbox of the row's own. */
    box(options, namespace = env.Sandbox) {
      const id = `w${++boxes}-${name.toLowerCase().replace(/[^a-z]+/g, '-').slice(0, 30)}`.replace(/-+$/, '');
      opened.push(id);
      return { id, sandbox: getSandbox(namespace, id, options) };
    },
    again: (id, options, namespace = env.Sandbox) => getSandbox(namespace, id, options),
    /** The box behind an id as the daemon sees it, or null. */
    async inspect(id) {
      const response = await atoll('GET', id);
      return response.ok ? response.json() : null;
    },
    tunnels: async (id) => (await (await atoll('GET', `${id}/tunnels`)).json()).tunnels,
    put: (id, spec) => atoll('PUT', id, spec),
    s3: (method, url, body) => s3(env, method, url, body),
    destroyBehindItsBack: (id) => atoll('DELETE', id),
  };
}

async function run(env, name) {
  const t = tools(env, name);
  try {
    await rows.get(name).run(t);
    return { ok: true };
  } catch (error) {
    return { ok: false, error: `${error.stack ?? error}` };
  } finally {
    await Promise.all(t.opened.map(t.destroyBehindItsBack));
  }
}

export default {
  async fetch(request, env) {
    const preview = await proxyToSandbox(request, env);
    if (preview) return preview;
    const [, kind, name] = new URL(request.url).pathname.split('/').map(decodeURIComponent);
    if (kind === 'rows') return Response.json({ rows: Object.fromEntries([...rows].map(([n, r]) => [n, r.area])), later });
    if (kind === 'row') return Response.json(await run(env, name));
    const sandbox = getSandbox(env.Sandbox, name);
    if (kind === 'terminal') return sandbox.terminal(request, { cols: 100, rows: 30 });
    if (kind === 'destroy') return Response.json({ done: (await sandbox.destroy()) ?? true });
    if (kind === 'expose') {
      await serve(sandbox, 8080);
      return Response.json(await sandbox.exposePort(8080, { hostname: new URL(request.url).searchParams.get('hostname') }));
    }
    return new Response('not found', { status: 404 });
  },
};
