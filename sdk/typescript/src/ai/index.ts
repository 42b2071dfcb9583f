/**
 * Tools of the Vercel AI SDK (`ai`), at work in a sandbox.
 *
 *     const { text } = await generateText({ model, prompt, tools: sandboxTools(sandbox), stopWhen: stepCountIs(20) });
 */
import { jsonSchema, type Tool, tool } from 'ai';
import { sandboxTools as all, type ToolSandbox } from '../agents/tools.js';

/** `run_command`, `run_code`, `read_file`, `write_file`, `edit_file` and `list_files` for `generateText`, `streamText` and agents. */
export function sandboxTools(sandbox: ToolSandbox): Record<string, Tool<any, string>> {
  return Object.fromEntries(
    all.map(({ name, description, schema, run }) => [
      name,
      tool({
        description,
        inputSchema: jsonSchema<Record<string, unknown>>(schema as Parameters<typeof jsonSchema>[0]),
        execute: (input: Record<string, unknown>) => run(sandbox, input),
      }),
    ]),
  );
}
