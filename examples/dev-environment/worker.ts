import { Sandbox as Base, getSandbox, type SandboxEnv } from '@cloudflare/sandbox';
import { onAtoll } from 'atoll-sandbox/workers';
import { type AtollEnv, atoll } from '../support/atoll.ts';
import { failed } from '../support/failed.ts';
import { devEnvironment, ID, PORT, terminalUrl } from './app.ts';

export const Sandbox = onAtoll(Base);

interface Env extends AtollEnv, SandboxEnv {
  NPM_REGISTRY: string;
  ASSETS: { fetch(request: Request): Promise<Response> };
}

export default {
  async fetch(request: Request, env: Env): Promise<Response> {
    const environment = {
      sandbox: getSandbox(env.Sandbox, ID),
      registry: env.NPM_REGISTRY,
      /** By the daemon: upstream's class keeps port 3000 for itself. */
      preview: async () => (await atoll<{ url: string }>(env, 'POST', `/sandboxes/${ID}/ports/${PORT}`, {})).url,
      async terminal() {
        const { ticket } = await atoll<{ ticket: string }>(env, 'POST', '/tickets', { sandbox: ID, for: 'terminal' });
        return terminalUrl(env.ATOLL_URL, ticket);
      },
    };
    return (await devEnvironment(environment, request).catch(failed)) ?? env.ASSETS.fetch(request);
  },
};
