/*
 * A code-execution API. Each user has a sandbox with limits; its interpreters keep their variables from one request to the next.
 *
 *   POST   /users/{user}/run      {"code": "…", "language": "python"}   the whole result
 *   POST   /users/{user}/stream   the same; server-sent events while the code runs
 *   DELETE /users/{user}          the user's sandbox with everything in it
 */
import type { CodeContext, ISandbox } from '@cloudflare/sandbox';

export const LIMITS = { memory: 512 * 2 ** 20, cpu: 1, pids: 128 };
export const SECONDS = 30; // for each run
const CODE_MAX = 100_000; // characters
const LANGUAGES = ['python', 'javascript', 'typescript'] as const;

export type Language = (typeof LANGUAGES)[number];
type Box = Pick<ISandbox, 'runCode' | 'runCodeStream'> & { destroy(): Promise<void> };
/** Where a user's code runs: a sandbox with LIMITS, and contexts whose runs end after a time. */
export interface Place {
  sandbox: Box;
  createContext(language: Language): Promise<CodeContext>;
}

class BadRequest extends Error {
  httpStatus = 400;
}
const contexts = new Map<string, Promise<CodeContext>>();

/** One context for each user and language. */
function contextOf(user: string, language: Language, place: Place): Promise<CodeContext> {
  const key = `${user} ${language}`;
  const known = contexts.get(key);
  if (known) return known;
  const made = place.createContext(language);
  contexts.set(key, made);
  made.catch(() => contexts.delete(key));
  return made;
}

/** What the client asked for, checked. */
async function asked(request: Request): Promise<{ code: string; language: Language }> {
  const { code, language = 'python' } = (await request.json().catch(() => ({}))) as Record<string, any>;
  if (typeof code !== 'string' || code.length > CODE_MAX)
    throw new BadRequest(`code is a text of at most ${CODE_MAX} characters`);
  if (!LANGUAGES.includes(language)) throw new BadRequest(`language is one of ${LANGUAGES.join(', ')}`);
  return { code, language };
}

async function run(sandbox: Box, code: string, context: CodeContext): Promise<Response> {
  const { logs, results, error } = await sandbox.runCode(code, { context });
  const [stdout, stderr] = [logs.stdout.join(''), logs.stderr.join('')];
  return Response.json({ stdout, stderr, results, error: error ?? null });
}

async function stream(sandbox: Box, code: string, context: CodeContext): Promise<Response> {
  const events = await sandbox.runCodeStream(code, { context }); // cancelling it interrupts the code
  return new Response(events, { headers: { 'content-type': 'text/event-stream' } });
}

async function forget(user: string, sandbox: Box): Promise<Response> {
  await sandbox.destroy();
  for (const language of LANGUAGES) contexts.delete(`${user} ${language}`);
  return new Response(null, { status: 204 });
}

/** The API as a function from request to response. */
export function codeApi(placeOf: (user: string) => Promise<Place>) {
  return async (request: Request): Promise<Response> => {
    const { pathname } = new URL(request.url);
    const [, user, action] = /^\/users\/([a-z0-9]{1,40})(?:\/(run|stream))?$/.exec(pathname) ?? [];
    if (!user || request.method !== (action ? 'POST' : 'DELETE'))
      return Response.json({ error: 'no such route' }, { status: 404 });
    const place = await placeOf(user);
    if (!action) return forget(user, place.sandbox);
    const { code, language } = await asked(request);
    const context = await contextOf(user, language, place);
    return (action === 'run' ? run : stream)(place.sandbox, code, context);
  };
}
