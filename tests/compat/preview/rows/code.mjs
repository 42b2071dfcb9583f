import { parseSSEStream } from '@cloudflare/sandbox';
import { assert, rejects } from './util.mjs';

export default {
  async 'interpreter.createCodeContext, interpreter.listCodeContexts, interpreter.deleteCodeContext'(t) {
    const { sandbox } = t.box();
    const context = await sandbox.interpreter.createCodeContext({ language: 'python', cwd: '/tmp' });
    assert.deepEqual([context.language, context.cwd], ['python', '/tmp']);
    assert.ok(context.createdAt instanceof Date);
    assert.deepEqual((await sandbox.interpreter.listCodeContexts()).map((c) => c.id), [context.id]);
    await sandbox.interpreter.deleteCodeContext(context.id);
    assert.deepEqual(await sandbox.interpreter.listCodeContexts(), []);
    await rejects(sandbox.interpreter.deleteCodeContext(context.id), /context|not found/i);
    await rejects(sandbox.interpreter.createCodeContext({ language: 'cobol' }), /Unsupported language/);
  },

  async 'interpreter.runCode'(t) {
    const { sandbox } = t.box();
    const context = await sandbox.interpreter.createCodeContext({ language: 'python' });
    const one = await sandbox.interpreter.runCode('import sys\nx = 6\nprint("out")\nprint("err", file=sys.stderr)\nx * 7', { context });
    assert.deepEqual([one.logs.stdout.join(''), one.logs.stderr.join(''), one.results[0].text], ['out\n', 'err\n', '42']);
    const two = await sandbox.interpreter.runCode('x + 1', { context });
    assert.equal(two.results[0].text, '7');
    assert.ok(two.executionCount > one.executionCount);
    const bad = await sandbox.interpreter.runCode('1/0', { context });
    assert.deepEqual([bad.error.name, /division/.test(bad.error.message), bad.error.traceback.length > 0], ['ZeroDivisionError', true, true]);
    const js = await sandbox.interpreter.runCode('const a = [1, 2]; a.map((n) => n * 2)', { language: 'javascript' });
    assert.match(js.results[0].text ?? JSON.stringify(js.results[0].json), /2[^]*4/);
  },

  async 'interpreter.runCodeStream'(t) {
    const { sandbox } = t.box();
    const context = await sandbox.interpreter.createCodeContext({ language: 'python' });
    const all = [];
    for await (const e of parseSSEStream(await sandbox.interpreter.runCodeStream('print(1)\n2', { context }))) all.push(e);
    assert.deepEqual(all.map((e) => e.type), ['stdout', 'result', 'execution_complete']);
    // A stream that is not wanted any more interrupts its run, and the context is there for the next.
    await sandbox.cancelRun('import time\nprint("in")\nwhile True: time.sleep(0.05)', context);
    assert.equal((await sandbox.interpreter.runCode('40 + 2', { context })).results[0].text, '42');
  },

  async 'an extension with a package of its own'(t) {
    const { sandbox } = t.box();
    await rejects(sandbox.foreign.call(), /not run here/);
    await rejects(sandbox.foreign.health(), /not run here/);
  },
};
