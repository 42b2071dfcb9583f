/*
 * A code-execution API: every user gets a sandbox, every notebook in it a context that keeps its variables.
 *
 *   POST   /users/{user}/run      {"code": "...", "language": "python", "notebook": "a"}
 *   POST   /users/{user}/stream   the same, answered as server-sent events while the code runs
 *   DELETE /users/{user}          everything of that user is gone
 *
 *   bun examples/code-api.ts           serves on port 8080
 *   bun examples/code-api.ts --demo    serves, uses itself, and ends
 */
import {
  type CodeContext,
  type CreateContextOptions,
  getSandbox,
  isPlatformTransientError,
  SandboxError,
} from 'atoll-sandbox';
import { serve } from './support/serve.ts';

interface RunRequest {
  code: string;
  language?: CreateContextOptions['language'];
  notebook?: string;
}

const SECONDS = 1000;
const contexts = new Map<string, Promise<CodeContext>>();
const sandboxOf = (user: string) => getSandbox(undefined, `code-${user}`, { sleepAfter: '10m', labels: { user } });

/** One context for each notebook and language of a user. */
function contextOf(user: string, { notebook = 'default', language = 'python' }: RunRequest): Promise<CodeContext> {
  const key = `${user} ${notebook} ${language}`;
  const known = contexts.get(key);
  if (known) return known;
  const made = sandboxOf(user).createCodeContext({ language });
  contexts.set(key, made);
  made.catch(() => contexts.delete(key));
  return made;
}

async function run(user: string, request: RunRequest): Promise<Response> {
  const context = await contextOf(user, request);
  const { logs, results, error, executionCount } = await sandboxOf(user).runCode(request.code, {
    context,
    timeout: 30 * SECONDS,
  });
  return Response.json({ stdout: logs.stdout.join(''), stderr: logs.stderr.join(''), results, error, executionCount });
}

async function stream(user: string, request: RunRequest, signal: AbortSignal): Promise<Response> {
  const context = await contextOf(user, request);
  // Who closes the page interrupts the code.
  const events = await sandboxOf(user).runCodeStream(request.code, { context, timeout: 30 * SECONDS, signal });
  return new Response(events, { headers: { 'content-type': 'text/event-stream' } });
}

async function forget(user: string): Promise<Response> {
  await sandboxOf(user).destroy();
  for (const key of contexts.keys()) if (key.startsWith(`${user} `)) contexts.delete(key);
  return new Response(null, { status: 204 });
}

/** The API as a function, for any server that speaks web requests. */
export async function handler(request: Request): Promise<Response> {
  const [, users, user, action] = new URL(request.url).pathname.split('/');
  if (users !== 'users' || !/^[a-z0-9]{1,40}$/.test(user ?? ''))
    return Response.json({ error: 'no such route' }, { status: 404 });
  try {
    if (request.method === 'DELETE' && !action) return await forget(user!);
    if (request.method === 'POST' && action === 'run') return await run(user!, await request.json());
    if (request.method === 'POST' && action === 'stream')
      return await stream(user!, await request.json(), request.signal);
    return Response.json({ error: 'no such route' }, { status: 404 });
  } catch (error) {
    if (!(error instanceof SandboxError)) throw error;
    const status = isPlatformTransientError(error) ? 503 : error.httpStatus;
    return Response.json({ error: error.message, code: error.code, suggestion: error.suggestion }, { status });
  }
}

async function demo(url: string): Promise<void> {
  const post = (path: string, body: RunRequest) => fetch(url + path, { method: 'POST', body: JSON.stringify(body) });
  await post('/users/ada/run', { code: 'import pandas as pd\ntable = pd.DataFrame({"n": range(5)})' });
  const sum = await (await post('/users/ada/run', { code: 'print("rows:", len(table))\nint(table.n.sum())' })).json();
  console.log('python:', sum.stdout.trim(), '→', sum.results[0].text, `(run ${sum.executionCount})`);
  const plot = await (await post('/users/ada/run', { code: 'table.plot(); None' })).json();
  console.log('a chart:', plot.results.some((result: { png?: string }) => result.png) ? 'png' : 'none');
  const broken = await (await post('/users/ada/run', { code: 'table.nope' })).json();
  console.log('an error:', broken.error.name, 'in line', broken.error.lineNumber);
  const script = { language: 'typescript', code: 'const half = (n: number): number => n / 2;\nhalf(84)' } as const;
  console.log('typescript:', (await (await post('/users/ada/run', script)).json()).results[0].text);
  const live = await post('/users/ada/stream', { code: 'for i in range(3): print(i)' });
  console.log('streamed:', (await live.text()).match(/"type":"stdout"/g)!.length > 0 ? 'events' : 'nothing');
  console.log('deleted:', (await fetch(`${url}/users/ada`, { method: 'DELETE' })).status);
}

const demonstrating = process.argv.includes('--demo');
const { url, close } = await serve(handler, demonstrating ? 0 : 8080);
console.log(`serving on ${url}`);
if (demonstrating) {
  await demo(url);
  close();
}
