import { generateText, stepCountIs } from 'ai';
import { MockLanguageModelV4 } from 'ai/test';
import { sandboxTools } from 'atoll-sandbox/ai';
import { expect, test } from 'vitest';
import { box } from './support/boxes.js';

const call = (toolName: string, input: object) => ({
  type: 'tool-call' as const,
  toolCallId: `${toolName}-${Math.random()}`,
  toolName,
  input: JSON.stringify(input),
});

test('generateText uses the tools until the model has its answer', async () => {
  const sandbox = box();
  const script = [
    call('write_file', { path: '/workspace/sum.py', content: 'print(6 *)\n' }),
    call('run_command', { command: 'python3 sum.py' }),
    call('edit_file', { path: '/workspace/sum.py', old: '6 *', replacement: '6 * 7' }),
    call('run_command', { command: 'python3 sum.py' }),
    call('run_code', { code: 'x = 20\nx + 1' }),
    call('read_file', { path: '/workspace/none' }),
    call('list_files', {}),
    { type: 'text' as const, text: 'It is 42.' },
  ];
  const model = new MockLanguageModelV4({
    doGenerate: async () => {
      const next = script.shift()!;
      const unified = next.type === 'text' ? 'stop' : 'tool-calls';
      const usage = {
        inputTokens: { total: 1, noCache: 1, cacheRead: 0, cacheWrite: 0 },
        outputTokens: { total: 1, text: 1, reasoning: 0 },
      };
      return { content: [next], finishReason: { unified, raw: unified }, usage, warnings: [] };
    },
  });
  const done = await generateText({ model, prompt: 'go', tools: sandboxTools(sandbox), stopWhen: stepCountIs(20) });
  expect(done.text).toBe('It is 42.');
  const outputs = done.steps.flatMap(({ toolResults }) => toolResults.map(({ output }) => output as string));
  expect(outputs[1]).toMatch(/SyntaxError[\s\S]*exit code 1/);
  expect(outputs[3]).toBe('42\n\nexit code 0');
  expect(outputs[4]).toBe('21');
  expect(outputs[5]).toMatch(/^Error: .*none/);
  expect(outputs[6]).toContain('sum.py');
});
