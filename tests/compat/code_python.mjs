// Code contexts in Python with the unmodified CodeInterpreter of the client.
import { CodeInterpreter } from '@cloudflare/sandbox';
import { assert, events, rejects } from './client.mjs';

const interpreter = (box) => new CodeInterpreter(() => box.interpreter);

export async function code_python_values_and_state(box) {
  const code = interpreter(box);
  const context = await code.createCodeContext({ language: 'python', cwd: '/tmp', envVars: { COLOUR: 'red' } });
  assert.equal(context.language, 'python');
  assert.equal(context.cwd, '/tmp');
  assert.ok(context.createdAt instanceof Date);
  await code.runCode('x = 40', { context });
  const run = await code.runCode('import os\nprint("hello")\nx + 2, os.getcwd(), os.environ["COLOUR"]', { context });
  assert.equal(run.results[0].text, "(42, '/tmp', 'red')");
  assert.deepEqual(run.results[0].formats(), ['text']);
  assert.deepEqual(run.logs, { stdout: ['hello\n'], stderr: [] });
  assert.equal(run.error, undefined);
}

export async function code_python_default_context(box) {
  const code = interpreter(box);
  await code.runCode('kept = 1');
  assert.equal((await code.runCode('kept')).results[0].text, '1');
  const listed = await code.listCodeContexts();
  assert.equal(listed.filter((c) => c.language === 'python').length, 1);
}

export async function code_python_errors(box) {
  const code = interpreter(box);
  const seen = [];
  const run = await code.runCode('print("before")\n1/0', { onError: (error) => seen.push(error) });
  assert.equal(run.error.name, 'ZeroDivisionError');
  assert.equal(run.error.message, 'division by zero');
  assert.match(run.error.traceback.join('\n'), /<cell 1>", line 2, in <module>\n    1\/0/);
  assert.deepEqual(seen, [run.error]);
  assert.deepEqual(run.logs.stdout, ['before\n']);
  assert.equal((await code.runCode('x = (')).error.name, 'SyntaxError');
  assert.equal((await code.runCode('input()')).error.name, 'StdinNotImplementedError');
}

export async function code_python_rich_results(box) {
  const code = interpreter(box);
  const shown = [];
  const run = await code.runCode(
    'import pandas as pd\ndisplay(pd.DataFrame({"a": [1, 2]}))\nprint("between")\n{"nan": float("nan"), "é": [1]}',
    // Over rpc a callback gets plain data.
    { onResult: (result) => shown.push(result.formats?.() ?? ['text', result.html ? 'html' : 'json']) },
  );
  assert.match(run.results[0].html, /<table/);
  assert.deepEqual(run.results[0].data, { a: [1, 2] });
  assert.deepEqual(run.results[1].json, { nan: null, é: [1] });
  assert.deepEqual(shown, [['text', 'html'], ['text', 'json']]);
  assert.ok(JSON.parse(JSON.stringify(run)).results.length === 2);
}

export async function code_python_charts(box) {
  const run = await interpreter(box).runCode(
    'import matplotlib.pyplot as plt\nplt.bar(["a", "b"], [1, 2]); plt.title("T"); plt.show()\nplt.pie([1], labels=["all"]);',
  );
  assert.deepEqual(run.results.map((r) => r.formats()), [['text', 'png', 'chart'], ['text', 'png', 'chart']]);
  const png = Buffer.from(run.results[0].png, 'base64');
  assert.deepEqual([...png.subarray(0, 4)], [0x89, 0x50, 0x4e, 0x47]);
  const { type, title, library, data } = run.results[0].chart;
  assert.deepEqual({ type, title, library }, { type: 'bar', title: 'T', library: 'matplotlib' });
  assert.deepEqual(data, [{ label: 'a', group: '', value: 1 }, { label: 'b', group: '', value: 2 }]);
  assert.equal(run.results[1].chart.type, 'pie');
}

export async function code_python_stream(box) {
  const code = interpreter(box);
  const all = await events(code.runCodeStream('import sys\nprint("o")\nprint("e", file=sys.stderr)\ndisplay(1)\nprint("p")\n2'));
  assert.deepEqual(all.map((e) => [e.type, e.text]), [
    ['stdout', 'o\n'], ['stderr', 'e\n'], ['result', '1'], ['stdout', 'p\n'], ['result', '2'], ['execution_complete', undefined],
  ]);
  assert.equal(all.at(-1).execution_count, 1);
  const again = await events(code.runCodeStream('1'));
  assert.equal(again.at(-1).execution_count, 2);
}

export async function code_python_unicode_and_size(box) {
  // The client decodes each piece of the answer by itself: a character in two pieces would be lost.
  const run = await interpreter(box).runCode('text = "日本😀é" * 50_000\nprint(text)\ntext');
  const text = '日本😀é'.repeat(50_000);
  assert.equal(run.logs.stdout.join(''), `${text}\n`);
  assert.equal(run.results[0].text, `'${text}'`);
  const long = await interpreter(box).runCode('"x" * 10_000_000');
  assert.equal(long.results[0].text.length, 10_000_002);
}

export async function code_python_list_and_delete(box) {
  const code = interpreter(box);
  const made = await Promise.all([1, 2, 3].map(() => code.createCodeContext({ language: 'python' })));
  assert.equal(new Set(made.map((c) => c.id)).size, 3);
  const answers = await Promise.all(made.map((context, i) => code.runCode(`v = ${i}\nv`, { context })));
  assert.deepEqual(answers.map((a) => a.results[0].text), ['0', '1', '2']);
  const ids = (await code.listCodeContexts()).map((c) => c.id);
  assert.ok(made.every((c) => ids.includes(c.id)));
  await code.deleteCodeContext(made[0].id);
  assert.ok(!(await code.listCodeContexts()).some((c) => c.id === made[0].id));
  await rejects(code.deleteCodeContext(made[0].id), 'CONTEXT_NOT_FOUND', 404);
  await rejects(code.runCode('1', { context: made[0] }), 'CONTEXT_NOT_FOUND');
}
