import { getSandbox } from 'atoll-sandbox';
import { type BucketEnv, workingDirectory } from '../support/bucket.ts';
import { chatModel, type ModelEnv } from '../support/model.ts';
import { serve } from '../support/serve.ts';
import { DATA, dataAnalysis, ID } from './app.ts';

const env = process.env as unknown as ModelEnv & BucketEnv;
const sandbox = getSandbox(undefined, ID);

serve(dataAnalysis(sandbox, () => workingDirectory(sandbox, DATA, env), chatModel(env)));
