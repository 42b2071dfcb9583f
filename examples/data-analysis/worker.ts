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
    // Upstream's way: the sandbox holds the key while the bucket is mounted.
    const credentials = { accessKeyId: env.BUCKET_KEY ?? '', secretAccessKey: env.BUCKET_SECRET ?? '' };
    const mount = (bucket: string, endpoint: string) => sandbox.mountBucket(bucket, DATA, { endpoint, credentials });
    const prepare = () => workingDirectory(sandbox, DATA, env, mount);
    return dataAnalysis(sandbox, prepare, chatModel(env))(request).catch(failed);
  },
};
