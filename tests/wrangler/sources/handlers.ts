// Outbound handlers as the documentation of @cloudflare/sandbox has them: /NAME runs the command of the body.
import { ContainerProxy, getSandbox, Sandbox as Base } from '@cloudflare/sandbox';

export { ContainerProxy };

export class Sandbox extends Base {
  enableInternet = false;
  interceptHttps = true;
}

Sandbox.outboundByHost = {
  'greeter.example': async (request: Request) => new Response(`hello ${request.method} ${request.url} ${await request.text()}\n`),
};
Sandbox.outbound = async (request: Request) => new Response(`caught ${request.url}\n`);

export default {
  async fetch(request: Request, env: { Sandbox: DurableObjectNamespace<Sandbox> }): Promise<Response> {
    const sandbox = getSandbox(env.Sandbox, new URL(request.url).pathname.slice(1));
    try {
      return Response.json({ ok: await sandbox.exec(await request.text()) });
    } catch (error) {
      return Response.json({ error: String(error) }, { status: 500 });
    }
  },
};
