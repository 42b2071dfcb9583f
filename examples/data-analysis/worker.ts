import { Sandbox as Base, getSandbox, type SandboxEnv } from '@cloudflare/sandbox';
import { onAtoll } from 'atoll-sandbox/workers';
import { type BucketEnv, workingDirectory } from '../support/bucket.ts';
import { failed } from '../support/failed.ts';
import { chatModel, type ModelEnv } from '../support/model.ts';
import { DATA, dataAnalysis, ID } from './app.ts';

export const Sandbox = onAtoll(Base);

export default {
  fetch(request: Request, env: ModelEnv & BucketEnv & SandboxEnv): Promise<Response> {
    const sandbox = getSandbox(env.Sandbox, ID);
    return dataAnalysis(sandbox, () => workingDirectory(sandbox, DATA, env), chatModel(env))(request).catch(failed);
  },
};
