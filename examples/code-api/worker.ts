import { Sandbox as Base, type CodeContext, getSandbox, type SandboxEnv } from '@cloudflare/sandbox';
import { onAtoll } from 'atoll-sandbox/workers';
import { type AtollEnv, atoll } from '../support/atoll.ts';
import { failed } from '../support/failed.ts';
import { codeApi, LIMITS } from './app.ts';

export const Sandbox = onAtoll(Base);

interface Env extends AtollEnv, SandboxEnv {
  RUN_SECONDS: string;
}

export default {
  fetch(request: Request, env: Env): Promise<Response> {
    const api = codeApi(async (user) => {
      // Upstream's class has no limits of memory, CPU, processes and time: the daemon has.
      await atoll(env, 'PUT', `/sandboxes/code-${user}`, { limits: LIMITS, labels: { user } });
      const timeout_ms = 1000 * Number(env.RUN_SECONDS);
      return {
        sandbox: getSandbox(env.Sandbox, `code-${user}`, { sleepAfter: '10m' }),
        async createContext(language) {
          const path = `/sandboxes/code-${user}/api/contexts`;
          const { contextId } = await atoll<{ contextId: string }>(env, 'POST', path, { language, timeout_ms });
          return { id: contextId, language } as CodeContext;
        },
      };
    });
    return api(request).catch(failed);
  },
};
