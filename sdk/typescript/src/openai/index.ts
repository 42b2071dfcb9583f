/**
 * Shell and Editor for agents of `@openai/agents`, at work in a sandbox.
 *
 *     const agent = new Agent({ tools: [shellTool({ shell: new Shell(sandbox) }), applyPatchTool({ editor: new Editor(sandbox) })] });
 */
import { applyDiff } from '@openai/agents';
import type { ISandbox } from '../types/sandbox.js';

/* The shapes of @openai/agents, written out: its own declarations cannot be resolved everywhere. tests/types holds them
 * against the real ones. */

/** Commands that an agent wants to run. */
export interface ShellAction {
  commands: string[];
  timeoutMs?: number;
}
/** How one of them ended. */
export interface ShellOutput {
  command: string;
  stdout: string;
  stderr: string;
  outcome: { type: 'exit'; exitCode: number | null } | { type: 'timeout' };
}
export interface ShellResult {
  output: ShellOutput[];
  providerData: { working_directory: string };
}
/** A patch that an agent wants to apply. */
export interface PatchOperation {
  path: string;
  diff: string;
}
export interface PatchResult {
  status: 'completed' | 'failed';
  output: string;
}

/** A command that an agent ran. */
export interface CommandResult {
  command: string;
  stdout: string;
  stderr: string;
  /** null: it was ended by its time limit. */
  exitCode: number | null;
  /** Milliseconds since 1970. */
  timestamp: number;
}

/** A change that an agent made to a file. */
export interface FileOperationResult {
  operation: 'create' | 'update' | 'delete';
  path: string;
  status: 'completed' | 'failed';
  output: string;
  error?: string;
  timestamp: number;
}

const messageOf = (error: unknown) => (error instanceof Error ? error.message : String(error));
const isTimeout = (error: unknown) => /time(d )?\s?out/i.test(messageOf(error));

/** Runs an agent's commands one after the other, each from /workspace; the first that takes too long is the last. */
export class Shell {
  /** Everything that was run, in order. */
  results: CommandResult[] = [];
  readonly #sandbox: Pick<ISandbox, 'exec'>;
  readonly #directory = '/workspace';

  constructor(sandbox: Pick<ISandbox, 'exec'>) {
    this.#sandbox = sandbox;
  }

  async run(action: ShellAction): Promise<ShellResult> {
    const output: ShellOutput[] = [];
    for (const command of action.commands) {
      const { stdout, stderr, outcome } = await this.#one(command, action.timeoutMs);
      output.push({ command, stdout, stderr, outcome });
      const exitCode = outcome.type === 'exit' ? outcome.exitCode : null;
      this.results.push({ command, stdout, stderr, exitCode, timestamp: Date.now() });
      if (outcome.type === 'timeout') break;
    }
    return { output, providerData: { working_directory: this.#directory } };
  }

  async #one(command: string, timeout: number | undefined): Promise<Omit<ShellOutput, 'command'>> {
    try {
      const { stdout, stderr, exitCode } = await this.#sandbox.exec(command, { timeout, cwd: this.#directory });
      return { stdout, stderr, outcome: { type: 'exit', exitCode } };
    } catch (error) {
      const { stdout = '', stderr = '', exitCode } = error as Partial<CommandResult>;
      if (isTimeout(error)) return { stdout, stderr, outcome: { type: 'timeout' } };
      // An agent that is told why can do something about it.
      return { stdout, stderr: stderr || messageOf(error), outcome: { type: 'exit', exitCode: exitCode ?? 1 } };
    }
  }
}

/** Applies an agent's patches to files below one directory of the sandbox, and nowhere else. */
export class Editor {
  /** Everything that was changed, in order. */
  results: FileOperationResult[] = [];
  readonly #sandbox: Pick<ISandbox, 'readFile' | 'writeFile' | 'mkdir' | 'deleteFile'>;
  readonly #root: string;

  constructor(sandbox: Pick<ISandbox, 'readFile' | 'writeFile' | 'mkdir' | 'deleteFile'>, root = '/workspace') {
    this.#sandbox = sandbox;
    this.#root = root.replace(/\/+$/, '');
  }

  createFile(operation: PatchOperation): Promise<PatchResult> {
    return this.#record('create', operation.path, async (path) => {
      const content = applyDiff('', operation.diff, 'create');
      const parent = path.slice(0, path.lastIndexOf('/'));
      if (parent && parent !== this.#root) await this.#sandbox.mkdir(parent, { recursive: true });
      await this.#sandbox.writeFile(path, content, { encoding: 'utf-8' });
    });
  }

  updateFile(operation: PatchOperation): Promise<PatchResult> {
    return this.#record('update', operation.path, async (path) => {
      const original = await this.#read(path, operation.path);
      await this.#sandbox.writeFile(path, applyDiff(original, operation.diff), { encoding: 'utf-8' });
    });
  }

  deleteFile(operation: Pick<PatchOperation, 'path'>): Promise<PatchResult> {
    return this.#record('delete', operation.path, async (path) => {
      await this.#sandbox.deleteFile(path);
    });
  }

  async #read(path: string, given: string): Promise<string> {
    try {
      return (await this.#sandbox.readFile(path, { encoding: 'utf-8' })).content;
    } catch (error) {
      if ((error as { code?: string }).code !== 'FILE_NOT_FOUND') throw error;
      throw new Error(`Cannot update missing file: ${given}`, { cause: error });
    }
  }

  async #record(
    operation: FileOperationResult['operation'],
    path: string,
    change: (path: string) => Promise<void>,
  ): Promise<PatchResult> {
    const timestamp = () => Date.now();
    try {
      await change(this.#resolve(path));
      const output = `${operation[0]!.toUpperCase()}${operation.slice(1)}d ${path}`;
      this.results.push({ operation, path, status: 'completed', output, timestamp: timestamp() });
      return { status: 'completed', output };
    } catch (error) {
      const output = `Failed to ${operation} ${path}`;
      this.results.push({ operation, path, status: 'failed', output, error: messageOf(error), timestamp: timestamp() });
      throw error;
    }
  }

  /** The path below the root, with dots resolved; a path that leads out of the root is refused. */
  #resolve(given: string): string {
    const below = given === this.#root || given.startsWith(`${this.#root}/`) ? given.slice(this.#root.length) : given;
    const names: string[] = [];
    for (const name of below.split('/')) {
      if (name === '' || name === '.') continue;
      if (name !== '..') names.push(name);
      else if (names.pop() === undefined) throw new Error(`Operation outside workspace: ${given}`);
    }
    return [this.#root, ...names].join('/');
  }
}
