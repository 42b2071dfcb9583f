/*
 * Five agents try five fixes in forks of one sandbox; a judge promotes the best.
 *
 *   POST /repair {"files": {"slug.py": "…", "test_slug.py": "…"}}
 *     → {"promoted": "repair-…-3", "attempts": [{"agent", "passed", "failed", "lines"}, …]}
 *   GET  /repair/{id}/files/{name}     a file of the repaired sandbox
 *   DELETE /repair/{id}
 */
import { randomUUID } from 'node:crypto';
import { getSandbox } from 'atoll-sandbox';
import { chatModel, codeOf, type ModelEnv } from '../support/model.ts';
import { serve } from '../support/serve.ts';

const AGENTS = [
  'a minimal change',
  'a regular expression',
  'the standard library',
  'a loop over characters',
  'a rewrite',
];
const TEST_SECONDS = 60;
const model = chatModel(process.env as unknown as ModelEnv);

interface Attempt {
  agent: string;
  passed: number;
  failed: number;
  lines: number;
}

/** One agent at work in its fork: asks the model for a fix in its own style, writes it, runs the tests. */
async function attempt(agent: string, style: string, file: string, source: string, tests: string): Promise<Attempt> {
  const sandbox = getSandbox(undefined, agent);
  const ask = `Repair ${file} with ${style}. Answer with the whole file.\n${source}\nThese tests must pass:\n${tests}`;
  const fixed = codeOf(await model([{ role: 'user', content: ask }]));
  await sandbox.writeFile(`/workspace/${file}`, fixed);
  const { stderr } = await sandbox.exec('python3 -m unittest', { timeout: TEST_SECONDS * 1000 });
  const ran = Number(/^Ran (\d+) test/m.exec(stderr)?.[1] ?? 0);
  const bad = [...stderr.matchAll(/(?:failures|errors)=(\d+)/g)].reduce((sum, [, n]) => sum + Number(n), 0);
  return { agent, passed: ran - bad, failed: bad, lines: fixed.trim().split('\n').length };
}

/** The judge: most tests passed, then the shortest program. */
const best = (attempts: Attempt[]): Attempt =>
  attempts.toSorted((a, b) => b.passed - a.passed || a.failed - b.failed || a.lines - b.lines)[0]!;

async function repair(files: Record<string, string>): Promise<object> {
  const id = `repair-${randomUUID()}`;
  const sandbox = getSandbox(undefined, id);
  for (const [name, content] of Object.entries(files)) await sandbox.writeFile(`/workspace/${name}`, content);
  const names = Object.keys(files);
  const file = names.find((name) => !name.startsWith('test_'))!;
  const tests = files[names.find((name) => name.startsWith('test_'))!]!;
  // Forks share the files of the sandbox at this moment; each takes milliseconds, whatever the size.
  const forks = await sandbox.storage.fork(AGENTS.length);
  try {
    const attempts = await Promise.all(forks.map((fork, i) => attempt(fork, AGENTS[i]!, file, files[file]!, tests)));
    const promoted = best(attempts);
    if (promoted.failed === 0 && promoted.passed > 0) await sandbox.storage.replace({ sandbox: promoted.agent });
    return { id, promoted: promoted.failed === 0 ? promoted.agent : null, attempts };
  } finally {
    await Promise.all(forks.map((fork) => getSandbox(undefined, fork).destroy()));
  }
}

const isFiles = (files: any): files is Record<string, string> =>
  Object.entries(files ?? {}).every(([name, content]) => /^\w+\.py$/.test(name) && typeof content === 'string') &&
  Object.keys(files ?? {}).filter((name) => !name.startsWith('test_')).length === 1 &&
  Object.keys(files ?? {}).length === 2;

serve(async (request) => {
  const { pathname } = new URL(request.url);
  const [, id, file] = /^\/repair\/(repair-[0-9a-f-]{36})(?:\/files\/(\w+\.py))?$/.exec(pathname) ?? [];
  if (request.method === 'POST' && pathname === '/repair') {
    const { files } = (await request.json().catch(() => ({}))) as { files?: unknown };
    if (!isFiles(files)) return Response.json({ error: 'files holds NAME.py and test_NAME.py' }, { status: 400 });
    return Response.json(await repair(files));
  }
  if (request.method === 'GET' && id && file)
    return new Response((await getSandbox(undefined, id).readFile(`/workspace/${file}`)).content);
  if (request.method === 'DELETE' && id && !file) {
    await getSandbox(undefined, id).destroy();
    return new Response(null, { status: 204 });
  }
  return Response.json({ error: 'no such route' }, { status: 404 });
});
