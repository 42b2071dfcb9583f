/**
 * Tools of LangChain.js, at work in a sandbox; LangGraph takes the same tools.
 *
 *     const agent = createReactAgent({ llm, tools: sandboxTools(sandbox) });
 */
import { DynamicStructuredTool } from '@langchain/core/tools';
import { sandboxTools as all, type ToolSandbox } from '../agents/tools.js';

/** `run_command`, `run_code`, `read_file`, `write_file`, `edit_file` and `list_files`. */
export function sandboxTools(sandbox: ToolSandbox): DynamicStructuredTool[] {
  return all.map(
    ({ name, description, schema, run }) =>
      new DynamicStructuredTool({
        name,
        description,
        schema,
        func: (input: Record<string, unknown>) => run(sandbox, input),
      }),
  );
}
