// A Worker as the guides of @cloudflare/sandbox have it: /NAME/ACTION acts in the sandbox NAME.
import { getSandbox, proxyToSandbox, type Sandbox } from '@cloudflare/sandbox';

export { Sandbox } from '@cloudflare/sandbox';

type Env = { Sandbox: DurableObjectNamespace<Sandbox> };

const VERSION = 'one';

const actions: Record<string, (sandbox: Sandbox, request: Request, url: URL) => Promise<unknown>> = {
  version: async () => VERSION,
  exec: async (sandbox, request) => sandbox.exec(await request.text()),
  write: async (sandbox, request, url) => sandbox.writeFile(url.searchParams.get('path')!, await request.text()),
  read: (sandbox, _request, url) => sandbox.readFile(url.searchParams.get('path')!),
  start: async (sandbox, request) => ({ id: (await sandbox.startProcess(await request.text())).id }),
  expose: (sandbox, _request, url) => sandbox.exposePort(Number(url.searchParams.get('port')), { hostname: url.host }),
  stop: (sandbox) => sandbox.stop(),
  destroy: (sandbox) => sandbox.destroy(),
};

export default {
  async fetch(request: Request, env: Env): Promise<Response> {
    const preview = await proxyToSandbox(request, env);
    if (preview) return preview;
    const url = new URL(request.url);
    const [, name, action] = url.pathname.split('/');
    const sandbox = getSandbox(env.Sandbox, name);
    try {
      if (action === 'terminal') return await sandbox.terminal(request, { cols: 80, rows: 24 });
      if (action === 'connect') return await sandbox.wsConnect(request, Number(url.searchParams.get('port')));
      return Response.json({ ok: (await actions[action](sandbox, request, url)) ?? null });
    } catch (error) {
      return Response.json({ error: String(error) }, { status: 500 });
    }
  },
};
