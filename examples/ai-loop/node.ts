import { randomUUID } from 'node:crypto';
import { getSandbox } from 'atoll-sandbox';
import { chatModel, type ModelEnv } from '../support/model.ts';
import { serve } from '../support/serve.ts';
import { aiLoop } from './app.ts';

serve(aiLoop(() => getSandbox(undefined, `ai-${randomUUID()}`), chatModel(process.env as unknown as ModelEnv)));
