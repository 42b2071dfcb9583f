/*
 * Generate, run, repair: a model writes a program, a sandbox runs its tests, and the failure goes back to the model until the tests pass.
 *
 *   POST /solve {"task": "Write …", "file": "roman.py", "tests": "import unittest …"}
 *     → {"solved": true, "code": "…", "rounds": [{"code": "…", "failure": "SyntaxError …"}, …]}
 */
import type { ISandbox } from '@cloudflare/sandbox';
import { codeOf, type Message, type Model } from '../support/model.ts';

const ROUNDS_MAX = 5;
const TEST_SECONDS = 60;
const FAILURE_CHARACTERS = 2000; // the end of it, where Python says what is wrong

type Box = Pick<ISandbox, 'exec' | 'writeFile'> & { destroy(): Promise<void> };
interface Task {
  task: string;
  file: string;
  tests: string;
}
interface Round {
  code: string;
  /** What the tests said; null when they pass. */
  failure: string | null;
}

/** Runs the tests against a program. */
async function failureOf(sandbox: Box, file: string, code: string): Promise<string | null> {
  await sandbox.writeFile(`/workspace/${file}`, code);
  const result = await sandbox.exec('python3 -m unittest -q test_it.py', { timeout: TEST_SECONDS * 1000 });
  return result.success ? null : result.stderr.slice(-FAILURE_CHARACTERS);
}

async function solve(sandbox: Box, model: Model, { task, file, tests }: Task): Promise<Round[]> {
  const messages: Message[] = [
    { role: 'system', content: 'You write one Python file. Answer with its code alone.' },
    { role: 'user', content: `${task}\nThe file is ${file}. These tests must pass:\n${tests}` },
  ];
  const rounds: Round[] = [];
  await sandbox.writeFile('/workspace/test_it.py', tests);
  while (rounds.length < ROUNDS_MAX) {
    const answer = await model(messages);
    const code = codeOf(answer);
    const failure = await failureOf(sandbox, file, code);
    rounds.push({ code, failure });
    if (failure === null) break;
    messages.push(
      { role: 'assistant', content: answer },
      { role: 'user', content: `The tests fail:\n${failure}\nRepair it.` },
    );
  }
  return rounds;
}

function isTask(asked: any): asked is Task {
  const { task, file, tests } = asked ?? {};
  return typeof task === 'string' && typeof tests === 'string' && /^\w+\.py$/.test(file);
}

/** The application; `newSandbox` makes one for each task. */
export function aiLoop(newSandbox: () => Box, model: Model) {
  return async (request: Request): Promise<Response> => {
    if (request.method !== 'POST' || new URL(request.url).pathname !== '/solve')
      return Response.json({ error: 'no such route' }, { status: 404 });
    const asked = await request.json().catch(() => null);
    if (!isTask(asked)) return Response.json({ error: 'task, file (NAME.py) and tests are texts' }, { status: 400 });
    const sandbox = newSandbox();
    try {
      const rounds = await solve(sandbox, model, asked);
      const last = rounds.at(-1)!;
      return Response.json({ solved: last.failure === null, code: last.code, rounds });
    } finally {
      await sandbox.destroy();
    }
  };
}
