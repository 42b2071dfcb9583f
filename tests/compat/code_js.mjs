// Code contexts in JavaScript and TypeScript with the unmodified CodeInterpreter of the client.
import { CodeInterpreter } from '@cloudflare/sandbox';
import { assert, events } from './client.mjs';

const interpreter = (box) => new CodeInterpreter(() => box.interpreter);

export async function code_js_values_and_state(box) {
  const code = interpreter(box);
  const context = await code.createCodeContext({ language: 'javascript', cwd: '/tmp', envVars: { COLOUR: 'red' } });
  assert.deepEqual([context.language, context.cwd], ['javascript', '/tmp']);
  await code.runCode('const x = 40', { context });
  const run = await code.runCode('console.log("hello"); ({ sum: x + 2, cwd: process.cwd(), colour: process.env.COLOUR })', { context });
  assert.deepEqual(run.results[0].json, { sum: 42, cwd: '/tmp', colour: 'red' });
  assert.deepEqual(run.results[0].formats(), ['text', 'json']);
  assert.deepEqual(run.logs, { stdout: ['hello\n'], stderr: [] });
  assert.equal(run.error, undefined);
  assert.equal((await code.runCode('const x = 1; x', { context })).results[0].text, '1');
}

export async function code_js_default_context(box) {
  const code = interpreter(box);
  await code.runCode('let kept = await Promise.resolve(5)', { language: 'javascript' });
  assert.equal((await code.runCode('kept', { language: 'javascript' })).results[0].text, '5');
  assert.equal((await code.runCode('typeof kept', { language: 'typescript' })).results[0].text, 'undefined');
  const listed = await code.listCodeContexts();
  assert.deepEqual(listed.map((c) => c.language).sort(), ['javascript', 'typescript']);
}

export async function code_js_errors(box) {
  const code = interpreter(box);
  const seen = [];
  const run = await code.runCode('console.error("before")\nfunction f() {\n  null.x\n}\nf()', { language: 'javascript', onError: (e) => seen.push(e) });
  assert.deepEqual([run.error.name, run.error.message], ['TypeError', "Cannot read properties of null (reading 'x')"]);
  assert.deepEqual(run.error.traceback, [`TypeError: ${run.error.message}`, '    at f (cell-1.js:3:8)', '    at cell-1.js:5:1']);
  assert.deepEqual(seen, [run.error]);
  assert.deepEqual([run.results, run.logs.stderr], [[], ['before\n']]);
  assert.equal((await code.runCode('const x = ;', { language: 'javascript' })).error.name, 'SyntaxError');
  assert.equal((await code.runCode('1', { language: 'javascript' })).error, undefined);
}

export async function code_js_formats(box) {
  const run = await interpreter(box).runCode(
    `display.html('<b>é</b>'); display.svg('<svg/>'); display.latex('x'); display.markdown('# m'); display.javascript('f()')
     display.chart({ type: 'bar', data: [1] }); display.data({ rows: [1] }); display.jpeg('aGk=')
     Buffer.from('89504e470d0a1a0a00', 'hex')`,
    { language: 'javascript' },
  );
  assert.deepEqual(run.results.map((r) => r.formats()), [['html'], ['svg'], ['latex'], ['markdown'], ['javascript'], ['chart'], [], ['jpeg'], ['text', 'png']]);
  assert.deepEqual(run.results[6].data, { rows: [1] });
  assert.deepEqual(run.results[5].chart, { type: 'bar', data: [1] });
  assert.equal(run.results[0].html, '<b>é</b>');
}

export async function code_js_stream(box) {
  const code = interpreter(box);
  const all = await events(code.runCodeStream('console.log("o"); console.error("e"); display(1); console.log("p"); 2', { language: 'javascript' }));
  assert.deepEqual(all.map((e) => [e.type, e.text]), [
    ['stdout', 'o\n'], ['stderr', 'e\n'], ['result', '1'], ['stdout', 'p\n'], ['result', '2'], ['execution_complete', undefined],
  ]);
  assert.equal(all.at(-1).execution_count, 1);
}

export async function code_js_unicode_and_size(box) {
  const text = '日本😀é'.repeat(50_000);
  const run = await interpreter(box).runCode('const text = "日本😀é".repeat(50_000)\nconsole.log(text)\ntext', { language: 'javascript' });
  assert.equal(run.logs.stdout.join(''), `${text}\n`);
  assert.equal(run.results[0].text, text);
}

export async function code_ts(box) {
  const code = interpreter(box);
  const context = await code.createCodeContext({ language: 'typescript' });
  const run = await code.runCode('enum Level { Low = 1, High }\ninterface P<T> { v: T }\nconst p: P<Level> = { v: Level.High }; p', { context });
  assert.deepEqual(run.results[0].json, { v: 2 });
  const failed = await code.runCode('type T = {\n  a: string\n}\nconst f = (x: T): never => {\n  throw new RangeError(x.a)\n}\nf({ a: "no" } as T)', { context });
  assert.deepEqual([failed.error.name, failed.error.message], ['RangeError', 'no']);
  assert.match(failed.error.traceback[1], /cell-2\.ts:5:9/);
  assert.equal((await code.runCode('let y: number = ;', { context })).error.name, 'SyntaxError');
  await code.deleteCodeContext(context.id);
}
