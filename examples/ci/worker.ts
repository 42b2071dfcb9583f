import { Sandbox as Base, getSandbox, type SandboxEnv } from '@cloudflare/sandbox';
import { onAtoll } from 'atoll-sandbox/workers';
import { failed } from '../support/failed.ts';
import { ci, statusReporter } from './app.ts';

export const Sandbox = onAtoll(Base);

interface Env extends SandboxEnv {
  STATUS_URL: string;
  STATUS_TOKEN: string;
  CI_ENV: string;
}

export default {
  fetch(request: Request, env: Env): Promise<Response> {
    const handle = ci({
      newSandbox: (id) => getSandbox(env.Sandbox, id, { keepAlive: true }),
      report: statusReporter(env.STATUS_URL, env.STATUS_TOKEN),
      env: JSON.parse(env.CI_ENV),
    });
    return handle(request).catch(failed);
  },
};
