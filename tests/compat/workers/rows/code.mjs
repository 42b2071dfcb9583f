import { assert, events, rejects } from './util.mjs';

const text = (result) => result.results.map((r) => r.text ?? JSON.stringify(r.json)).join('');

export default {
  async createCodeContext(t) {
    const { sandbox } = t.box();
    const context = await sandbox.createCodeContext({ language: 'python', cwd: '/tmp', envVars: { FROM: 'context' } });
    assert.ok(context.id);
    assert.deepEqual([context.language, context.cwd], ['python', '/tmp']);
    assert.ok(context.createdAt instanceof Date);
    const r = await sandbox.runCode('import os; print(os.getcwd(), os.environ["FROM"])', { context });
    assert.equal(r.logs.stdout.join(''), '/tmp context\n');
    await rejects(sandbox.createCodeContext({ language: 'cobol' }), /language/i);
  },

  async 'runCode: python'(t) {
    const { sandbox } = t.box();
    const context = await sandbox.createCodeContext({ language: 'python' });
    await sandbox.runCode('x = 41', { context });
    const r = await sandbox.runCode('print("out"); x + 1', { context });
    assert.equal(r.logs.stdout.join(''), 'out\n');
    assert.equal(text(r), '42');
    assert.equal(r.error ?? undefined, undefined); // Atoll's own client says null
    const bad = await sandbox.runCode('1 / 0', { context });
    assert.equal(bad.error.name, 'ZeroDivisionError');
    const plot = await sandbox.runCode('import matplotlib.pyplot as p; p.plot([1, 2]); p.show()', { context });
    assert.ok(plot.results.some((one) => one.png?.startsWith('iVBOR')), 'a figure');
  },

  async 'runCode: javascript'(t) {
    const { sandbox } = t.box();
    const context = await sandbox.createCodeContext({ language: 'javascript' });
    await sandbox.runCode('const x = await Promise.resolve(41)', { context });
    const r = await sandbox.runCode('console.log("out"); x + 1', { context });
    assert.equal(r.logs.stdout.join(''), 'out\n');
    assert.equal(text(r), '42');
    const bad = await sandbox.runCode('null.x', { context });
    assert.equal(bad.error.name, 'TypeError');
  },

  async 'runCode: typescript'(t) {
    const { sandbox } = t.box();
    const context = await sandbox.createCodeContext({ language: 'typescript' });
    const r = await sandbox.runCode('interface P { n: number }\nconst p: P = { n: 42 };\np.n', { context });
    assert.equal(text(r), '42');
  },

  async 'runCode: default context, callbacks'(t) {
    const { sandbox } = t.box();
    await sandbox.runCode('kept = 7', { language: 'python' });
    const seen = [];
    const r = await sandbox.runCode('print("hello"); kept', {
      language: 'python',
      onStdout: (output) => void seen.push(output.text),
    });
    assert.equal(text(r), '7');
    assert.equal(seen.join(''), 'hello\n');
  },

  async runCodeStream(t) {
    const { sandbox } = t.box();
    const all = await events(sandbox.runCodeStream('print("hi")\n6 * 7', { language: 'python' }));
    assert.equal(all.filter((e) => e.type === 'stdout').map((e) => e.text).join(''), 'hi\n');
    assert.equal(all.find((e) => e.type === 'result').text, '42');
    assert.equal(all.at(-1).type, 'execution_complete');
  },

  async 'listCodeContexts, deleteCodeContext'(t) {
    const { sandbox } = t.box();
    const context = await sandbox.createCodeContext({ language: 'python' });
    assert.ok((await sandbox.listCodeContexts()).some((one) => one.id === context.id));
    await sandbox.deleteCodeContext(context.id);
    assert.ok(!(await sandbox.listCodeContexts()).some((one) => one.id === context.id));
    await rejects(sandbox.runCode('1', { context }), /not found|ContextNotFoundError/i);
  },

  async 'session.createCodeContext, runCode, runCodeStream, listCodeContexts, deleteCodeContext'(t) {
    const { sandbox } = t.box();
    const session = await sandbox.createSession({ id: 's' });
    const context = await session.createCodeContext({ language: 'python' });
    assert.equal(text(await session.runCode('6 * 7', { context })), '42');
    const all = await events(session.runCodeStream('print(1)', { context }));
    assert.equal(all.find((e) => e.type === 'stdout').text, '1\n');
    assert.ok((await session.listCodeContexts()).some((one) => one.id === context.id));
    await session.deleteCodeContext(context.id);
  },
};
