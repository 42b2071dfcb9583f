import { getSandbox, getSecrets } from 'atoll-sandbox';
import { type BucketEnv, workingDirectory } from '../support/bucket.ts';
import { chatModel, type ModelEnv } from '../support/model.ts';
import { serve } from '../support/serve.ts';
import { DATA, dataAnalysis, ID } from './app.ts';

const env = process.env as unknown as ModelEnv & BucketEnv;
const sandbox = getSandbox(undefined, ID);

/** The key becomes a secret of the daemon: requests are signed on their way out, and the sandbox never sees it. */
async function mount(bucket: string, endpoint: string): Promise<void> {
  const { BUCKET_KEY = '', BUCKET_SECRET = '', BUCKET_REGION = 'us-east-1' } = env;
  await getSecrets().put(ID, {
    value: BUCKET_SECRET,
    hosts: [new URL(endpoint).host],
    aws: { accessKeyId: BUCKET_KEY, region: BUCKET_REGION, service: 's3' },
  });
  await sandbox.mountBucket(bucket, DATA, { endpoint, secret: ID });
}

serve(dataAnalysis(sandbox, () => workingDirectory(sandbox, DATA, env, mount), chatModel(env)));
