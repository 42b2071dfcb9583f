/*
 * Data analysis: upload CSV files, ask questions about them, get answers with charts and tables.
 *
 *   PUT  /files/{name}.csv                     GET /files
 *   POST /ask {"question": "Which month …?"}   → {"answer", "tables": [html], "charts": [base64 of a PNG], "code", "attempts"}
 *
 * A model writes Python for the question; a sandbox runs it in the directory of the files. An error goes back to the model.
 */
import type { ISandbox } from '@cloudflare/sandbox';
import { codeOf, type Message, type Model } from '../support/model.ts';

export const ID = 'data-analysis';
/** The working directory: mount a bucket here and the files outlive the sandbox. */
export const DATA = '/workspace/data';
const CSV_MAX = 10_000_000; // characters
const ATTEMPTS_MAX = 3;
const PROMPT =
  'You answer questions about CSV files in the current directory with Python: pandas is there, matplotlib too. ' +
  'Answer with code alone. Print the answer in words; leave tables and figures as values or with display().';

type Box = Pick<
  ISandbox,
  'createCodeContext' | 'deleteCodeContext' | 'exec' | 'listFiles' | 'mkdir' | 'runCode' | 'writeFile'
>;

async function names(sandbox: Box): Promise<string[]> {
  const { files } = await sandbox.listFiles(DATA);
  return files
    .map(({ name }) => name)
    .filter((name) => name.endsWith('.csv'))
    .sort();
}

/** What the model is told about the files: names, and the first lines of each. */
async function described(sandbox: Box): Promise<string> {
  return (await sandbox.exec('for f in *.csv; do echo "$f:"; head -n 4 "$f" | cut -c 1-300; done', { cwd: DATA }))
    .stdout;
}

async function ask(sandbox: Box, model: Model, question: string): Promise<object> {
  const messages: Message[] = [
    { role: 'system', content: PROMPT },
    { role: 'user', content: `${await described(sandbox)}\n${question}` },
  ];
  const context = await sandbox.createCodeContext({ language: 'python', cwd: DATA });
  try {
    for (let attempts = 1; ; attempts++) {
      const reply = await model(messages);
      const code = codeOf(reply);
      const { logs, results, error } = await sandbox.runCode(code, { context });
      if (!error || attempts === ATTEMPTS_MAX) {
        const tables = results.flatMap(({ html }) => html ?? []);
        const charts = results.flatMap(({ png }) => png ?? []);
        const failure = error ? `${error.name}: ${error.message}` : null;
        return { answer: logs.stdout.join('').trim(), tables, charts, code, attempts, error: failure };
      }
      const told = `That failed:\n${error.traceback.join('\n')}\nRepair it.`;
      messages.push({ role: 'assistant', content: reply }, { role: 'user', content: told });
    }
  } finally {
    await sandbox.deleteCodeContext(context.id);
  }
}

async function upload(sandbox: Box, name: string, request: Request): Promise<Response> {
  const content = await request.text();
  if (content.length > CSV_MAX) return Response.json({ error: 'the file is too large' }, { status: 413 });
  await sandbox.writeFile(`${DATA}/${name}`, content);
  return new Response(null, { status: 204 });
}

/** The application; `prepare` makes the working directory. */
export function dataAnalysis(sandbox: Box, prepare: () => Promise<unknown>, model: Model) {
  return async (request: Request): Promise<Response> => {
    const { pathname } = new URL(request.url);
    const name = /^\/files\/([\w-]+\.csv)$/.exec(pathname)?.[1];
    await prepare();
    if (request.method === 'PUT' && name) return upload(sandbox, name, request);
    if (request.method === 'GET' && pathname === '/files') return Response.json({ files: await names(sandbox) });
    if (request.method === 'POST' && pathname === '/ask') {
      const { question } = (await request.json().catch(() => ({}))) as { question?: unknown };
      if (typeof question === 'string') return Response.json(await ask(sandbox, model, question));
      return Response.json({ error: 'question is a text' }, { status: 400 });
    }
    return Response.json({ error: 'no such route' }, { status: 404 });
  };
}
