/* The spellings of guides and older versions (docs/spellings.md), beside those of 0.12. */
import { type ExecutionSession, FileNotFoundError, FileSystemError, type SessionRef } from 'atoll-sandbox';
import { describe, expect, test } from 'vitest';
import { box, failure, until } from './support/boxes.js';

describe('sessions as an option', () => {
  test('an object, its id, and what JSON made of either', async () => {
    const sandbox = box();
    const session = await sandbox.createSession({ id: 'build', cwd: '/tmp', env: { MODE: 'debug' } });
    const stored = JSON.parse(JSON.stringify({ session }));
    expect(stored).toEqual({ session: 'build' });
    expect(String(session)).toBe('build');
    const refs: SessionRef[] = [session, session.id, JSON.parse(JSON.stringify(session)), { id: 'build' }];
    for (const ref of refs)
      expect((await sandbox.exec('echo $MODE $PWD', { session: ref })).stdout).toBe('debug /tmp\n');
    expect((await sandbox.exec('echo $MODE $PWD', { sessionId: 'build' })).stdout).toBe('debug /tmp\n');
    expect((await sandbox.exec('echo "<$MODE>" $PWD')).stdout).toBe('<> /workspace\n');
    expect(await (await sandbox.getSession(stored.session)).exec('pwd')).toMatchObject({ stdout: '/tmp\n' });
    expect((await sandbox.deleteSession(stored.session)).sessionId).toBe('build');
  });

  test('two sessions run in parallel, each in a directory of its own', async () => {
    const sandbox = box();
    const [a, b] = (await Promise.all([
      sandbox.createSession({ id: 'a', cwd: '/tmp' }),
      sandbox.createSession({ id: 'b', cwd: '/workspace' }),
    ])) as [ExecutionSession, ExecutionSession];
    // Each waits for the other: one after the other would never end.
    const meet = (mine: string, other: string) =>
      `touch /tmp/${mine}; until [ -e /tmp/${other} ]; do sleep 0.02; done; pwd`;
    const [first, second] = await Promise.all([
      sandbox.exec(meet('a', 'b'), { session: a }),
      sandbox.exec(meet('b', 'a'), { session: b }),
    ]);
    expect([first!.stdout, second!.stdout]).toEqual(['/tmp\n', '/workspace\n']);
  });

  test('files, processes and streams take one too; something else is refused', async () => {
    const sandbox = box();
    const session = await sandbox.createSession({ id: 's', cwd: '/tmp' });
    await sandbox.writeFile('here.txt', 'x', { session });
    expect((await sandbox.readFile('/tmp/here.txt')).content).toBe('x');
    expect(await sandbox.readdir('.', { session })).toContain('here.txt');
    const p = await sandbox.startProcess('pwd', { session });
    await p.waitForExit();
    expect((await p.getLogs()).stdout).toBe('/tmp\n');
    // @ts-expect-error
    expect((await failure(sandbox.exec('true', { session: 5 }))).message).toMatch(/a session is named by its id/);
    expect((await failure(sandbox.exec('true', { session: ' ' }))).message).toMatch(/must not be empty/);
  });
});

test('exec calls back with text, beside onOutput', async () => {
  const sandbox = box();
  const seen: string[] = [];
  const result = await sandbox.exec('echo out; echo err >&2', {
    stream: true,
    onStdout: (text) => void seen.push(`out:${text}`),
    onStderr: (text) => void seen.push(`err:${text}`),
    onOutput: (stream, data) => void seen.push(`${stream}:${data}`),
  });
  expect(seen.sort()).toEqual(['err:err\n', 'out:out\n', 'stderr:err\n', 'stdout:out\n']);
  expect(result).toMatchObject({ success: true, stdout: 'out\n', stderr: 'err\n' });
  let only = '';
  await sandbox.exec('echo alone >&2', { stream: true, onStderr: (text) => void (only += text) });
  expect(only).toBe('alone\n');
});

describe('code', () => {
  test('contexts by object, id and JSON; deleted by object and id', async () => {
    const sandbox = box();
    const context = await sandbox.createCodeContext({ language: 'python' });
    await sandbox.runCode('kept = 20', { context: context.id });
    await sandbox.runCode('kept += 1', { context: JSON.parse(JSON.stringify(context)) });
    expect((await sandbox.runCode('kept * 2', { context })).output).toBe('42');
    await sandbox.deleteCodeContext(context);
    const other = await sandbox.createCodeContext({ language: 'javascript' });
    await sandbox.deleteCodeContext(other.id);
    expect(await sandbox.listCodeContexts()).toEqual([]);
    expect((await failure(sandbox.runCode('1', { context: 'nope' }))).code).toBe('CONTEXT_NOT_FOUND');
    // @ts-expect-error
    expect((await failure(sandbox.runCode('1', { context: 7 }))).message).toMatch(/code context is named by its id/);
  });

  test('success, output, error', async () => {
    const sandbox = box();
    const printed = await sandbox.runCode(
      'import sys\nprint("a", flush=True)\nprint("b", file=sys.stderr, flush=True)\n7',
    );
    expect(printed).toMatchObject({ success: true, output: 'a\nb\n' });
    expect((await sandbox.runCode('6 * 7')).output).toBe('42');
    const silent = await sandbox.runCode('x = 1');
    expect(silent).toMatchObject({ success: true, output: '' });
    expect(silent.error).toBeNull();
    expect(JSON.parse(JSON.stringify(silent))).toMatchObject({ success: true, output: '', error: null });
    const failed = await sandbox.runCode('nope');
    expect(failed.success).toBe(false);
    expect(`${failed.error}`).toBe("NameError: name 'nope' is not defined");
    expect(JSON.parse(JSON.stringify(failed)).error).toMatchObject({ name: 'NameError', lineNumber: 1 });
  });

  test('onOutput gets text while the code runs', async () => {
    const sandbox = box();
    let text = '';
    const code =
      'import os, time\nprint("first", flush=True)\nwhile not os.path.exists("/tmp/go"): time.sleep(0.02)\nprint("second")';
    const result = await sandbox.runCode(code, {
      stream: true,
      onOutput: async (chunk) => {
        text += chunk;
        if (text === 'first\n') await sandbox.writeFile('/tmp/go', '');
      },
      onStdout: (output) => void expect(`${output}`).toBe(output.text),
    });
    expect(text).toBe('first\nsecond\n');
    expect(result.output).toBe(text);
  });
});

describe('files', () => {
  test('the result of readFile is its text', async () => {
    const sandbox = box();
    await sandbox.writeFile('/workspace/a.txt', 'grüße\n');
    const file = await sandbox.readFile('/workspace/a.txt');
    expect(`${file}`).toBe('grüße\n');
    expect(String(file)).toBe('grüße\n');
    expect(await new Response(file).text()).toBe('grüße\n');
    expect(file.content).toBe('grüße\n');
    expect(new TextDecoder().decode(file.buffer)).toBe('grüße\n');
    expect(Object.keys(file)).not.toContain('toString');
    expect(structuredClone(file)).toEqual(file);
  });

  test('readdir, rm, stat', async () => {
    const sandbox = box();
    await sandbox.writeFile("/workspace/d/it's.txt", 'four');
    await sandbox.writeFile('/workspace/d/.hidden', '');
    await sandbox.mkdir('/workspace/d/sub/deep', { recursive: true });
    expect(await sandbox.readdir('/workspace/d')).toEqual(['.hidden', "it's.txt", 'sub']);
    expect(await failure(sandbox.readdir('/workspace/none'))).toBeInstanceOf(FileNotFoundError);

    const file = await sandbox.stat("/workspace/d/it's.txt");
    expect(file).toMatchObject({ type: 'file', size: 4, mode: 0o644 });
    expect([file.isFile(), file.isDirectory()]).toEqual([true, false]);
    expect(Math.abs(file.mtime.getTime() - Date.now())).toBeLessThan(3_600_000);
    expect((await sandbox.stat('/workspace/d')).isDirectory()).toBe(true);
    expect((await sandbox.stat('d')).type).toBe('directory'); // where the session is
    expect((await sandbox.stat('/')).type).toBe('directory');
    expect(await failure(sandbox.stat('/workspace/none'))).toBeInstanceOf(FileNotFoundError);

    expect(await failure(sandbox.rm('/workspace/d'))).toBeInstanceOf(FileSystemError);
    await sandbox.rm("/workspace/d/it's.txt");
    await sandbox.rm('/workspace/d', { recursive: true });
    expect((await sandbox.exists('/workspace/d')).exists).toBe(false);
    expect(await failure(sandbox.rm('/workspace/d', { recursive: true }))).toBeInstanceOf(FileNotFoundError);
    await sandbox.rm('/workspace/d', { force: true });
  });
});

test('spawn, isProcessRunning, killProcess', async () => {
  const sandbox = box();
  const p = await sandbox.spawn('sleep 600', { cwd: '/tmp' });
  expect(await sandbox.isProcessRunning(p.id)).toBe(true);
  await sandbox.killProcess(p.id);
  await until('the process to be over', async () => !(await sandbox.isProcessRunning(p.id)));
  expect(await sandbox.isProcessRunning('nope')).toBe(false);
});

test('gitCheckout into a directory, at a branch, a tag or a commit', async () => {
  const sandbox = box();
  const made = await sandbox.exec(`(set -e; export GIT_CONFIG_GLOBAL=/tmp/gitconfig
    git config --global user.email a@b.c; git config --global user.name n
    git init -q -b main /tmp/repo; cd /tmp/repo
    echo 1 > f; git add f; git commit -qm one; git rev-parse HEAD
    echo 2 > f; git commit -qam two; git tag v2; echo 3 > f; git commit -qam three; git branch side v2)`);
  expect(made.stderr).toBe('');
  const first = made.stdout.trim();
  const url = 'file:///tmp/repo';
  const content = async (dir: string) => `${await sandbox.readFile(`${dir}/f`)}`.trim();
  expect((await sandbox.gitCheckout(url, '/workspace/whole')).targetDir).toBe('/workspace/whole');
  expect(await content('/workspace/whole')).toBe('3');
  const third = await sandbox.gitCheckout(url, '/workspace/third', { ref: 'v2', depth: 1 });
  expect([third.branch, third.targetDir, await content('/workspace/third')]).toEqual(['v2', '/workspace/third', '2']);
  const session = await sandbox.createSession();
  expect((await session.gitCheckout(url, '/workspace/fourth', { branch: 'side' })).branch).toBe('side');
  expect(await content('/workspace/fourth')).toBe('2');
  for (const [ref, wanted] of [
    ['side', '2'],
    ['v2', '2'],
    [first, '1'],
    [first.slice(0, 10), '1'],
  ] as const) {
    const done = await sandbox.gitCheckout(url, { ref, targetDir: `/workspace/${ref}`, depth: 1 });
    expect([done.success, done.branch, await content(`/workspace/${ref}`)]).toEqual([true, ref, wanted]);
  }
  expect((await failure(sandbox.gitCheckout(url, { ref: 'none' }))).code).toBe('GIT_BRANCH_NOT_FOUND');
  const missing = await failure(sandbox.gitCheckout(url, { ref: '1234567890', targetDir: '/workspace/m' }));
  expect(missing.message).toMatch(/no branch, tag or commit '1234567890'/);
  expect((await sandbox.exists('/workspace/m')).exists).toBe(false);
  expect(await failure(sandbox.gitCheckout(url, { ref: 'a', branch: 'b' }))).toBeInstanceOf(TypeError);
});

test('exposePort without options gives the URL of the preview', async () => {
  const sandbox = box();
  const p = await sandbox.startProcess('python3 -m http.server 8080');
  await p.waitForPort(8080);
  const exposed = await sandbox.exposePort(8080);
  expect(exposed.url).toMatch(/^http:\/\/8080-.*\.localhost:\d+\/$/);
  expect(`${exposed}`).toBe(exposed.url);
  const shown = (await Response.json({ previewUrl: exposed }).json()) as { previewUrl: { url: string } };
  expect(shown.previewUrl.url).toBe(exposed.url);
});
