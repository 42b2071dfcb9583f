import { readFile } from 'node:fs/promises';
import { extname } from 'node:path';
import { getSandbox } from 'atoll-sandbox';
import { type AtollEnv, atoll } from '../support/atoll.ts';
import { serve } from '../support/serve.ts';
import { devEnvironment, type Environment, ID, PORT, terminalUrl } from './app.ts';

const env = process.env as unknown as AtollEnv & { NPM_REGISTRY?: string };
const sandbox = getSandbox({ url: env.ATOLL_URL, token: env.ATOLL_TOKEN }, ID);
const environment: Environment = {
  sandbox,
  registry: env.NPM_REGISTRY,
  preview: async () => (await sandbox.exposePort(PORT)).url,
  async terminal() {
    const { ticket } = await atoll<{ ticket: string }>(env, 'POST', '/tickets', { sandbox: ID, for: 'terminal' });
    return terminalUrl(env.ATOLL_URL, ticket);
  },
};

const TYPES: Record<string, string> = { '.html': 'text/html', '.css': 'text/css', '.mjs': 'text/javascript' };
const page = async (path: string): Promise<Response> => {
  const body = await readFile(new URL(`public${path === '/' ? '/index.html' : path}`, import.meta.url)).catch(
    () => null,
  );
  if (!body) return new Response('not found', { status: 404 });
  return new Response(body, { headers: { 'content-type': TYPES[extname(path)] ?? 'text/html' } });
};

serve(async (request) => (await devEnvironment(environment, request)) ?? page(new URL(request.url).pathname));
