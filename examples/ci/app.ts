/*
 * CI as an API: clones a repository into a sandbox of its own, installs, tests, reports a status to the git server, destroys the sandbox.
 *
 *   POST /runs {"repository": "https://git.example/team/project.git", "ref": "main"}
 *     → {"id", "commit", "state": "success" | "failure", "steps": [{"name", "command", "exitCode", "output"}, …]}
 *
 * Requests that come at the same time run in parallel.
 */
import type { ISandbox } from '@cloudflare/sandbox';

const STEP_SECONDS = 600;
const OUTPUT_CHARACTERS = 20_000; // the end of a step's output
const DIRECTORY = '/workspace/project';

type Box = Pick<ISandbox, 'exec' | 'exists' | 'gitCheckout'> & { destroy(): Promise<void> };
interface Step {
  name: string;
  command: string;
  exitCode: number;
  output: string;
}
type State = 'pending' | 'success' | 'failure' | 'error';
type Report = (repository: string, commit: string, state: State, description: string) => Promise<void>;

/** How projects are installed and tested: the first file that exists decides. */
const PROJECTS = [
  { file: 'package.json', install: 'npm install --no-audit --no-fund', test: 'npm test' },
  {
    file: 'requirements.txt',
    install: 'pip install --break-system-packages -r requirements.txt',
    test: 'python3 -m unittest -v',
  },
  { file: 'Makefile', install: 'make', test: 'make test' },
];

/** Reports to a server with GitHub's (or Gitea's) API of commit statuses: `url` is `https://api.github.com`. */
export function statusReporter(url: string, token: string): Report {
  return async (repository, commit, state, description) => {
    const project = new URL(repository).pathname.slice(1).replace(/\.git$/, '');
    const response = await fetch(`${url}/repos/${project}/statuses/${commit}`, {
      method: 'POST',
      headers: { 'content-type': 'application/json', authorization: `Bearer ${token}`, 'user-agent': 'atoll-ci' },
      body: JSON.stringify({ state, description, context: 'atoll-ci' }),
      signal: AbortSignal.timeout(30_000),
    });
    if (!response.ok)
      throw new Error(`the git server answered ${response.status} to a status: ${await response.text()}`);
  };
}

async function projectIn(sandbox: Box) {
  for (const project of PROJECTS) if ((await sandbox.exists(`${DIRECTORY}/${project.file}`)).exists) return project;
  throw new Error(`the repository has none of ${PROJECTS.map(({ file }) => file).join(', ')}`);
}

async function runSteps(sandbox: Box, env: Record<string, string>): Promise<Step[]> {
  const { install, test } = await projectIn(sandbox);
  const steps: Step[] = [];
  for (const [name, command] of Object.entries({ install, test })) {
    const options = { cwd: DIRECTORY, env: { CI: 'true', ...env }, timeout: STEP_SECONDS * 1000 };
    const { exitCode, stdout } = await sandbox.exec(`{ ${command}; } 2>&1`, options);
    steps.push({ name, command, exitCode, output: stdout.slice(-OUTPUT_CHARACTERS) });
    if (exitCode !== 0) break;
  }
  return steps;
}

async function run(
  sandbox: Box,
  repository: string,
  ref: string | undefined,
  report: Report,
  env: Record<string, string>,
) {
  await sandbox.gitCheckout(repository, { branch: ref, targetDir: DIRECTORY });
  const commit = (await sandbox.exec('git rev-parse HEAD', { cwd: DIRECTORY })).stdout.trim();
  await report(repository, commit, 'pending', 'running');
  try {
    const steps = await runSteps(sandbox, env);
    const failed = steps.find(({ exitCode }) => exitCode !== 0);
    const state: State = failed ? 'failure' : 'success';
    await report(repository, commit, state, failed ? `${failed.name} failed` : 'all steps passed');
    return { commit, state, steps };
  } catch (error) {
    await report(repository, commit, 'error', String(error).slice(0, 140));
    throw error;
  }
}

export interface Settings {
  newSandbox(id: string): Box;
  report: Report;
  /** Variables of every step, for mirrors of registries and the like. */
  env: Record<string, string>;
}

export function ci({ newSandbox, report, env }: Settings) {
  return async (request: Request): Promise<Response> => {
    if (request.method !== 'POST' || new URL(request.url).pathname !== '/runs')
      return Response.json({ error: 'no such route' }, { status: 404 });
    const { repository, ref } = (await request.json().catch(() => ({}))) as { repository?: unknown; ref?: string };
    if (typeof repository !== 'string' || !/^https?:\/\//.test(repository))
      return Response.json({ error: 'repository is an http(s) URL' }, { status: 400 });
    const id = `ci-${crypto.randomUUID()}`;
    const sandbox = newSandbox(id);
    try {
      return Response.json({ id, ...(await run(sandbox, repository, ref, report, env)) });
    } finally {
      await sandbox.destroy();
    }
  };
}
