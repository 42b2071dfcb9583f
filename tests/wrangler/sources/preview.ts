// A Worker for the preview of upstream's 1.0: /NAME/ACTION acts in the sandbox NAME.
import { getSandbox, proxyToSandbox, Sandbox as Base } from '@cloudflare/sandbox';
import { withInterpreter } from '@cloudflare/sandbox/interpreter';

export class Sandbox extends Base {
  interpreter = withInterpreter(this);
}

export default {
  async fetch(request, env) {
    const preview = await proxyToSandbox(request, env);
    if (preview) return preview;
    const url = new URL(request.url);
    const [, name, action] = url.pathname.split('/');
    const sandbox = getSandbox(env.Sandbox, name);
    const actions = {
      exec: async () => (await sandbox.exec(await request.json())).output({ encoding: 'utf8' }),
      start: async () => {
        const process = await sandbox.exec(await request.json());
        await process.waitForPort(Number(url.searchParams.get('port')));
        return process.id;
      },
      logs: async () => {
        const process = await sandbox.getProcess(await request.text());
        return (await process.waitForLog('GET')).match;
      },
      expose: () => sandbox.exposePort(Number(url.searchParams.get('port')), { hostname: url.host }),
      code: async () => sandbox.interpreter.runCode(await request.text()),
      destroy: () => sandbox.destroy(),
    };
    try {
      if (action === 'terminal') {
        const terminal = await sandbox.createTerminal({ command: ['sh'], env: { PS1: '' } });
        return await terminal.connect(request, { cols: 77, rows: 33 });
      }
      return Response.json({ ok: (await actions[action]()) ?? null });
    } catch (error) {
      return Response.json({ error: `${error.name}: ${error.message}` }, { status: 500 });
    }
  },
};
