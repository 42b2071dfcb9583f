import { AIMessage, type BaseMessage, HumanMessage } from '@langchain/core/messages';
import { END, MessagesAnnotation, START, StateGraph } from '@langchain/langgraph';
import { ToolNode } from '@langchain/langgraph/prebuilt';
import { sandboxTools } from 'atoll-sandbox/langchain';
import { expect, test } from 'vitest';
import { box } from './support/boxes.js';

test('LangChain: a tool is called, and refuses what its schema does not have', async () => {
  const tools = sandboxTools(box());
  expect(tools.map(({ name }) => name)).toEqual([
    'run_command',
    'run_code',
    'read_file',
    'write_file',
    'edit_file',
    'list_files',
  ]);
  expect(await tools[0]!.invoke({ command: 'echo $((6 * 7)); echo no >&2; (exit 3)' })).toBe(
    '42\n\nstderr:\nno\n\nexit code 3',
  );
  await expect(tools[0]!.invoke({ comand: 'true' } as any)).rejects.toThrow();
  const long = await tools[0]!.invoke({ command: 'seq 1 20000' });
  expect(long).toMatch(/characters left out/);
  expect(long.length).toBeLessThan(31_000);
});

test('LangGraph: a graph of a model and the tools', async () => {
  const script = [
    { name: 'write_file', args: { path: 'note.txt', content: 'grüße' }, id: '1' },
    { name: 'run_code', args: { code: 'open("note.txt").read()' }, id: '2' },
    null,
  ];
  const model = async () => {
    const next = script.shift();
    return { messages: [new AIMessage(next ? { content: '', tool_calls: [next] } : 'done')] };
  };
  const more = ({ messages }: { messages: BaseMessage[] }) =>
    (messages.at(-1) as AIMessage).tool_calls?.length ? 'tools' : END;
  const graph = new StateGraph(MessagesAnnotation)
    .addNode('model', model)
    .addNode('tools', new ToolNode(sandboxTools(box())))
    .addEdge(START, 'model')
    .addConditionalEdges('model', more)
    .addEdge('tools', 'model')
    .compile();
  const { messages } = await graph.invoke({ messages: [new HumanMessage('go')] });
  expect(messages.map(({ content }) => content)).toEqual(['go', '', 'wrote note.txt', '', "'grüße'", 'done']);
});
