// The Worker of `make bench`: the unmodified class beside the least that a Worker with one Durable Object can do.
//
//   /exec/ID      sandbox.exec() of the class
//   /floor/ID     one hop to a Durable Object, which asks the daemon to run the same command
//   /hollow/ID    exec() of the class with a container that answers at once: what the class and workerd take by themselves
//   /destroy/ID
import { DurableObject } from 'cloudflare:workers';
import { getSandbox, Sandbox as Base } from '@cloudflare/sandbox';
import { onAtoll } from 'atoll-sandbox/workers';

export const Sandbox = onAtoll(Base);

const COMMAND = ':';

/** A running container without anything in it. */
class Nothing {
  running = false;
  start() {
    this.running = true;
  }
  monitor() {
    return new Promise(() => {});
  }
  async setInactivityTimeout() {}
  getTcpPort() {
    return { fetch: async () => Response.json({ success: true, version: 'unknown', exitCode: 0, stdout: '', stderr: '', command: COMMAND }) };
  }
}

export class Hollow extends Base {
  constructor(ctx, env) {
    Object.defineProperty(ctx, 'container', { value: new Nothing() });
    super(ctx, env);
  }
}

export class Floor extends DurableObject {
  async exec(id) {
    const { ATOLL_URL, ATOLL_TOKEN } = this.env;
    const response = await fetch(`${ATOLL_URL}/v1/sandboxes/${id}/api/execute`, {
      method: 'POST',
      headers: { Authorization: `Bearer ${ATOLL_TOKEN}`, 'Content-Type': 'application/json' },
      body: JSON.stringify({ command: COMMAND, sessionId: 'bench' }),
    });
    return response.json();
  }
}

export default {
  async fetch(request, env) {
    const [, kind, id] = new URL(request.url).pathname.split('/');
    if (kind === 'floor') return Response.json(await env.Floor.get(env.Floor.idFromName(id)).exec(id));
    const sandbox = getSandbox(kind === 'hollow' ? env.Hollow : env.Sandbox, id);
    return Response.json(kind === 'destroy' ? await sandbox.destroy() : await sandbox.exec(COMMAND));
  },
};
