/*
 * A CI run: checks a repository out in a sandbox of its own, runs the steps of its `ci.json`, streams what they print, takes
 * the artifacts out, and answers with an exit code.
 *
 *   bun examples/ci.ts https://example.com/project.git [branch]
 *   bun examples/ci.ts --demo      runs a small repository that it makes itself
 */
import { mkdir, writeFile } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { basename, join } from 'node:path';
import { collectFile, getSandbox, type Sandbox } from 'atoll-sandbox';

interface Pipeline {
  steps: { name: string; run: string; timeout?: number }[];
  artifacts?: string[];
}

/** A repository inside the sandbox itself, behind HTTP: sandboxes reach no other machine. */
async function demoRepository(sandbox: Sandbox): Promise<string> {
  const pipeline: Pipeline = {
    steps: [
      { name: 'lint', run: 'python3 -m py_compile calc.py' },
      { name: 'test', run: 'python3 -m unittest -v', timeout: 60_000 },
      { name: 'package', run: 'tar czf calc.tar.gz calc.py' },
    ],
    artifacts: ['calc.tar.gz'],
  };
  await sandbox.writeFile('/srv/work/calc.py', 'def double(n):\n    return 2 * n\n');
  await sandbox.writeFile(
    '/srv/work/test_calc.py',
    'import unittest\nfrom calc import double\n\nclass Calc(unittest.TestCase):\n    def test_double(self):\n        self.assertEqual(double(21), 42)\n',
  );
  await sandbox.writeFile('/srv/work/ci.json', JSON.stringify(pipeline));
  const commit =
    'git init -q -b main && git add . && git -c user.name=demo -c user.email=demo@localhost commit -qm demo';
  const made = await sandbox.exec(
    `${commit} && git clone -q --bare . /srv/www/calc.git && git -C /srv/www/calc.git update-server-info`,
    {
      cwd: '/srv/work',
    },
  );
  if (!made.success) throw new Error(made.stderr);
  const server = await sandbox.startProcess('python3 -m http.server 9000 --directory /srv/www --bind 127.0.0.1');
  await server.waitForPort(9000);
  return 'http://127.0.0.1:9000/calc.git';
}

/** Runs one step and answers whether it succeeded. */
async function step(
  sandbox: Sandbox,
  directory: string,
  { name, run, timeout }: Pipeline['steps'][number],
): Promise<boolean> {
  console.log(`── ${name}: ${run}`);
  const result = await sandbox.exec(run, {
    cwd: directory,
    timeout: timeout ?? 600_000,
    env: { CI: 'true' },
    stream: true,
    onOutput: (_stream, data) => process.stdout.write(data),
  });
  console.log(`── ${name}: ${result.success ? 'ok' : `failed with ${result.exitCode}`}`);
  return result.success;
}

async function ci(sandbox: Sandbox, repository: string, branch?: string): Promise<boolean> {
  const checkout = await sandbox.gitCheckout(repository, { branch, targetDir: '/workspace/repository' });
  const { stdout: commit } = await sandbox.exec('git rev-parse --short HEAD', { cwd: checkout.targetDir });
  console.log(`checked out ${checkout.branch} at ${commit.trim()}`);
  const pipeline: Pipeline = JSON.parse((await sandbox.readFile(`${checkout.targetDir}/ci.json`)).content);
  for (const one of pipeline.steps) if (!(await step(sandbox, checkout.targetDir, one))) return false;
  const target = join(tmpdir(), `artifacts-${process.pid}`);
  await mkdir(target, { recursive: true });
  for (const path of pipeline.artifacts ?? []) {
    const { content } = await collectFile(await sandbox.readFileStream(`${checkout.targetDir}/${path}`));
    await writeFile(join(target, basename(path)), content);
    console.log(`artifact: ${join(target, basename(path))} (${content.length} bytes)`);
  }
  return true;
}

const [source = '--demo', branch] = process.argv.slice(2);
const sandbox = getSandbox(undefined, `ci-${process.pid}`, { keepAlive: true });
try {
  const repository = source === '--demo' ? await demoRepository(sandbox) : source;
  const passed = await ci(sandbox, repository, branch);
  console.log(passed ? 'PASSED' : 'FAILED');
  process.exitCode = passed ? 0 : 1;
} finally {
  await sandbox.destroy();
}
