/* The tools that adapters for agent frameworks offer to a model: names, descriptions, JSON schemas, and what they do. */
import type { ISandbox } from '../types/sandbox.js';

export type ToolSandbox = Pick<ISandbox, 'exec' | 'listFiles' | 'readFile' | 'runCode' | 'writeFile'>;

/** One tool. `run` answers text for the model; an error that the model can do something about is text, too. */
export interface SandboxTool {
  name: string;
  description: string;
  schema: { type: 'object'; properties: Record<string, object>; required: string[]; additionalProperties: false };
  run(sandbox: ToolSandbox, input: Record<string, any>): Promise<string>;
}

/** Characters of one answer; the middle of a longer one is left out. */
const ANSWER_MAX = 30_000;
const SECONDS = 120;

export function shortened(text: string): string {
  if (text.length <= ANSWER_MAX) return text;
  const half = ANSWER_MAX / 2;
  return `${text.slice(0, half)}\n… ${text.length - ANSWER_MAX} characters left out …\n${text.slice(-half)}`;
}

const text = (description: string) => ({ type: 'string', description });
const define = (
  name: string,
  description: string,
  properties: Record<string, object>,
  required: string[],
  run: SandboxTool['run'],
): SandboxTool => ({
  name,
  description,
  schema: { type: 'object', properties, required, additionalProperties: false },
  async run(sandbox, input) {
    try {
      return shortened(await run(sandbox, input));
    } catch (error) {
      const { message, suggestion } = error as Error & { suggestion?: string };
      return `Error: ${[message, suggestion].filter(Boolean).join(' ')}`;
    }
  },
});

async function runCommand(sandbox: ToolSandbox, { command, seconds = SECONDS }: Record<string, any>): Promise<string> {
  const { stdout, stderr, exitCode } = await sandbox.exec(command, { timeout: seconds * 1000 });
  return [stdout, stderr && `stderr:\n${stderr}`, `exit code ${exitCode}`].filter(Boolean).join('\n');
}

async function runCode(sandbox: ToolSandbox, { code, language = 'python' }: Record<string, any>): Promise<string> {
  const { logs, results, error } = await sandbox.runCode(code, { language, timeout: SECONDS * 1000 });
  const values = results.map((result) => result.text ?? `[${Object.keys(result).join(', ')}]`);
  const parts = [...logs.stdout, ...logs.stderr, ...values, error ? error.traceback.join('\n') : ''];
  return parts.filter(Boolean).join('\n') || 'done, without output';
}

async function editFile(sandbox: ToolSandbox, { path, old, replacement }: Record<string, any>): Promise<string> {
  const { content } = await sandbox.readFile(path, { encoding: 'utf-8' });
  const found = content.split(old).length - 1;
  if (found !== 1) return `Error: the old text occurs ${found} times in ${path}; it must occur once.`;
  await sandbox.writeFile(
    path,
    content.replace(old, () => replacement),
  );
  return `changed ${path}`;
}

export const sandboxTools: SandboxTool[] = [
  define(
    'run_command',
    'Runs a command in a Linux sandbox with bash. Directory and variables stay for the next command.',
    { command: text('The command.'), seconds: { type: 'number', description: `Time limit; ${SECONDS} unless given.` } },
    ['command'],
    runCommand,
  ),
  define(
    'run_code',
    'Runs code in an interpreter that keeps its variables. The value of the last expression is part of the answer.',
    { code: text('The code.'), language: { type: 'string', enum: ['python', 'javascript', 'typescript'] } },
    ['code'],
    runCode,
  ),
  define('read_file', 'Reads a text file.', { path: text('Its path.') }, ['path'], async (sandbox, { path }) => {
    return (await sandbox.readFile(path, { encoding: 'utf-8' })).content;
  }),
  define(
    'write_file',
    'Writes a text file, with the directories above it.',
    { path: text('Its path.'), content: text('Its whole content.') },
    ['path', 'content'],
    async (sandbox, { path, content }) => {
      await sandbox.writeFile(path, content);
      return `wrote ${path}`;
    },
  ),
  define(
    'edit_file',
    'Replaces a text that occurs once in a file.',
    { path: text('Its path.'), old: text('The text to replace.'), replacement: text('The new text.') },
    ['path', 'old', 'replacement'],
    editFile,
  ),
  define(
    'list_files',
    'Lists a directory.',
    { path: text('Its path; /workspace unless given.') },
    [],
    async (sandbox, input) => {
      const { files } = await sandbox.listFiles(input.path ?? '/workspace');
      return files.map(({ name, type }) => (type === 'directory' ? `${name}/` : name)).join('\n') || 'empty';
    },
  ),
];
