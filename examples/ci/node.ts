import { getSandbox } from 'atoll-sandbox';
import { serve } from '../support/serve.ts';
import { ci, statusReporter } from './app.ts';

const { STATUS_URL = 'https://api.github.com', STATUS_TOKEN = '', CI_ENV = '{}' } = process.env;

serve(
  ci({
    newSandbox: (id) => getSandbox(undefined, id, { keepAlive: true }),
    report: statusReporter(STATUS_URL, STATUS_TOKEN),
    env: JSON.parse(CI_ENV),
  }),
);
