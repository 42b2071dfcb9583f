import {
  Agent,
  applyPatchTool,
  type Model,
  type ModelRequest,
  type ModelResponse,
  Runner,
  shellTool,
  Usage,
} from '@openai/agents';
import { Editor, Shell } from 'atoll-sandbox/openai';
import { expect, test } from 'vitest';
import { box, failure } from './support/boxes.js';

/** A model that says what it was told to say, and remembers what it was asked. */
class ScriptedModel implements Model {
  readonly asked: ModelRequest[] = [];
  readonly #script: any[];
  constructor(script: any[]) {
    this.#script = script;
  }
  async getResponse(request: ModelRequest): Promise<ModelResponse> {
    this.asked.push(request);
    return { usage: new Usage(), output: [this.#script.shift()] } as ModelResponse;
  }
  // biome-ignore lint/correctness/useYield: the agents of these tests do not stream
  async *getStreamedResponse(): AsyncGenerator<never> {
    throw new Error('not streamed');
  }
}
const says = (text: string) => ({
  type: 'message',
  role: 'assistant',
  status: 'completed',
  content: [{ type: 'output_text', text }],
});
const shellCall = (callId: string, commands: string[], timeoutMs?: number) => ({
  type: 'shell_call',
  callId,
  status: 'completed',
  action: { commands, timeoutMs },
});
const patchCall = (callId: string, operation: object) => ({
  type: 'apply_patch_call',
  callId,
  status: 'completed',
  operation,
});

test('an agent writes a program, runs it, repairs it and runs it again', async () => {
  const sandbox = box();
  const shell = new Shell(sandbox);
  const editor = new Editor(sandbox);
  const model = new ScriptedModel([
    patchCall('1', { type: 'create_file', path: 'app/sum.py', diff: '+print(6 *)\n' }),
    shellCall('2', ['python3 app/sum.py']),
    patchCall('3', { type: 'update_file', path: 'app/sum.py', diff: '@@\n-print(6 *)\n+print(6 * 7)\n' }),
    shellCall('4', ['python3 app/sum.py', 'pwd']),
    patchCall('5', { type: 'delete_file', path: 'app/sum.py' }),
    says('done'),
  ]);
  const tools = [shellTool({ shell }), applyPatchTool({ editor })];
  const agent = new Agent({ name: 'coder', model, tools });
  const result = await new Runner({ tracingDisabled: true }).run(agent, 'print the answer');
  expect(result.finalOutput).toBe('done');
  expect(shell.results.map(({ command, exitCode }) => [command, exitCode])).toEqual([
    ['python3 app/sum.py', 1],
    ['python3 app/sum.py', 0],
    ['pwd', 0],
  ]);
  expect(shell.results[0]!.stderr).toMatch(/SyntaxError/);
  expect(shell.results.slice(1).map(({ stdout }) => stdout)).toEqual(['42\n', '/workspace\n']);
  expect(editor.results.map(({ operation, status }) => `${operation} ${status}`)).toEqual([
    'create completed',
    'update completed',
    'delete completed',
  ]);
  // What the model saw of the failure is what the shell said.
  expect(JSON.stringify(model.asked[2]!.input)).toMatch(/SyntaxError/);
  expect((await sandbox.exists('/workspace/app/sum.py')).exists).toBe(false);
});

test('Shell: a time limit ends the list, failures go on', async () => {
  const shell = new Shell(box());
  const { output, providerData } = await shell.run({ commands: ['echo a; (exit 4)', 'echo b'] });
  expect(output.map(({ stdout, outcome }) => [stdout, outcome])).toEqual([
    ['a\n', { type: 'exit', exitCode: 4 }],
    ['b\n', { type: 'exit', exitCode: 0 }],
  ]);
  expect(providerData).toEqual({ working_directory: '/workspace' });
  const late = await shell.run({ commands: ['sleep 60', 'echo never'], timeoutMs: 300 });
  expect(late.output.map(({ outcome }) => outcome)).toEqual([{ type: 'timeout' }]);
  expect(shell.results.at(-1)).toMatchObject({ command: 'sleep 60', exitCode: null });
});

test('Editor: stays in its directory, and says what is missing', async () => {
  const sandbox = box();
  const editor = new Editor(sandbox, '/workspace/project');
  await editor.createFile({ path: '/workspace/project/a/../b.txt', diff: '+one\n' });
  expect((await sandbox.readFile('/workspace/project/b.txt')).content.trim()).toBe('one');
  for (const path of ['../x', 'a/../../x', '/workspace/project/../../etc/passwd'])
    expect((await failure(editor.createFile({ path, diff: '+x\n' }))).message).toBe(
      `Operation outside workspace: ${path}`,
    );
  await editor.createFile({ path: '/workspace/project-evil/x', diff: '+x\n' });
  expect((await sandbox.exists('/workspace/project-evil/x')).exists).toBe(false);
  expect((await failure(editor.updateFile({ path: 'none', diff: '@@\n-x\n+y\n' }))).message).toBe(
    'Cannot update missing file: none',
  );
  expect(editor.results.at(-1)).toMatchObject({
    operation: 'update',
    path: 'none',
    status: 'failed',
    error: 'Cannot update missing file: none',
  });
});
