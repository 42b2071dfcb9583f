import { Sandbox as Base, getSandbox, type SandboxEnv } from '@cloudflare/sandbox';
import { onAtoll } from 'atoll-sandbox/workers';
import { failed } from '../support/failed.ts';
import { chatModel, type ModelEnv } from '../support/model.ts';
import { aiLoop } from './app.ts';

export const Sandbox = onAtoll(Base);

export default {
  fetch(request: Request, env: ModelEnv & SandboxEnv): Promise<Response> {
    const handle = aiLoop(() => getSandbox(env.Sandbox, `ai-${crypto.randomUUID()}`), chatModel(env));
    return handle(request).catch(failed);
  },
};
