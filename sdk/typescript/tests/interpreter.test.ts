import { parseSSEStream, type Result } from 'atoll-sandbox';
import { expect, test } from 'vitest';
import { box, failure, until } from './support/boxes.js';

const textsOf = (results: { text?: string }[]) => results.map((result) => result.text).join('');

test('callbacks come in order, results have their formats', async () => {
  const sandbox = box();
  const seen: string[] = [];
  const results: Result[] = [];
  const run = await sandbox.runCode('import sys\nprint("a")\nprint("b", file=sys.stderr)\n6 * 7', {
    onStdout: ({ text, timestamp }) => void seen.push(`out ${text} ${timestamp > 0}`),
    onStderr: async ({ text }) => void seen.push(`err ${text}`),
    onResult: (result) => void results.push(result),
    onError: () => void seen.push('error'),
  });
  expect(seen).toEqual(['out a\n true', 'err b\n']);
  expect(results[0]!.formats()).toEqual(['text']);
  expect(textsOf(run.results)).toBe('42');
  expect(run.logs).toEqual({ stdout: ['a\n'], stderr: ['b\n'] });
  expect(run.executionCount).toBe(1);
  expect(run.code).toContain('6 * 7');
  expect(JSON.parse(JSON.stringify(run)).results[0].text).toBe('42');
});

test('an error is a result, with its line', async () => {
  const sandbox = box();
  let told: string | undefined;
  const run = await sandbox.runCode('x = 1\nx.nope', { onError: (error) => void (told = error.name) });
  expect(run.error).toMatchObject({ name: 'AttributeError', lineNumber: 2 });
  expect(run.error!.traceback.length).toBeGreaterThan(0);
  expect(told).toBe('AttributeError');
});

test('output comes while the code runs', async () => {
  const sandbox = box();
  const context = await sandbox.createCodeContext({ language: 'python' });
  const code =
    'import os, time\nprint("first", flush=True)\nwhile not os.path.exists("/tmp/go"): time.sleep(0.02)\nprint("second")';
  let text = '';
  for await (const event of parseSSEStream<any>(await sandbox.runCodeStream(code, { context }))) {
    if (event.type !== 'stdout') continue;
    text += event.text;
    if (text === 'first\n') await sandbox.writeFile('/tmp/go', '');
  }
  expect(text).toBe('first\nsecond\n');
});

test('a time limit and an abort interrupt; what was computed stays', async () => {
  const sandbox = box();
  const context = await sandbox.createCodeContext({ language: 'python' });
  await sandbox.runCode('kept = 1', { context });
  const limited = await sandbox.createCodeContext({ timeout: 500 });
  expect((await sandbox.runCode('while True: pass', { context: limited })).error?.name).toBe('KeyboardInterrupt');
  const late = await sandbox.runCode('while True: pass', { context, timeout: 300 });
  expect(late.error?.message ?? '').toMatch(/timed? ?out/i);
  const stop = new AbortController();
  const code = 'import time\nprint("on", flush=True)\ntime.sleep(600)';
  const running = sandbox.runCode(code, { context, signal: stop.signal, onStdout: () => stop.abort() });
  expect((await failure(running)).name).toBe('AbortError');
  expect(textsOf((await sandbox.runCode('kept', { context })).results)).toBe('1');
});

test('one default context per language, made anew when the sandbox is', async () => {
  const sandbox = box();
  await Promise.all([
    sandbox.runCode('a = 1'),
    sandbox.runCode('b = 2'),
    sandbox.runCode('var c = 3', { language: 'javascript' }),
  ]);
  expect(textsOf((await sandbox.runCode('a + b')).results)).toBe('3');
  expect(await sandbox.listCodeContexts()).toHaveLength(2);
  await sandbox.destroy();
  expect((await sandbox.runCode('a')).error?.name).toBe('NameError');
  expect((await failure(sandbox.createCodeContext({ language: 'cobol' as 'python' }))).code).toBe('INVALID_LANGUAGE');
});

test('variables of the sandbox, of the context, of the run', async () => {
  const sandbox = box();
  await sandbox.setEnvVars({ A: 'sandbox', B: 'sandbox', C: 'sandbox' });
  const context = await sandbox.createCodeContext({ envVars: { B: 'context', C: 'context' } });
  const code = 'import os; print(*[os.environ.get(n) for n in "ABC"])';
  const run = await sandbox.runCode(code, { context, envVars: { C: 'run' } });
  expect(run.logs.stdout.join('')).toBe('sandbox context run\n');
  expect((await sandbox.runCode(code, { context })).logs.stdout.join('')).toBe('sandbox context context\n');
});

test('a context that is killed is told, never a success', async () => {
  const sandbox = box();
  const context = await sandbox.createCodeContext({ language: 'python' });
  const run = await sandbox.runCode('import os; os.kill(os.getpid(), 9)', { context });
  expect(run.error).toBeDefined();
  await until('a new default context to work', async () => textsOf((await sandbox.runCode('1 + 1')).results) === '2');
});
