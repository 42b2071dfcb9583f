import { getSandbox } from 'atoll-sandbox';
import { serve } from '../support/serve.ts';
import { codeApi, LIMITS, SECONDS } from './app.ts';

const timeout = 1000 * Number(process.env.RUN_SECONDS ?? SECONDS);

serve(
  codeApi(async (user) => {
    const sandbox = getSandbox(undefined, `code-${user}`, { limits: LIMITS, sleepAfter: '10m', labels: { user } });
    return { sandbox, createContext: (language) => sandbox.createCodeContext({ language, timeout }) };
  }),
);
