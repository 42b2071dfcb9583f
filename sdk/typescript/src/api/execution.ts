import { withText } from '../text.js';
import type { CodeContext, CodeResult, ExecutionError, ExecutionResult, Result } from '../types/interpreter.js';

const forms = [
  'text',
  'html',
  'png',
  'jpeg',
  'svg',
  'latex',
  'markdown',
  'javascript',
  'json',
  'chart',
  'data',
] as const;

/** A result event as a Result: the forms that it has, and `formats()`, which is not part of its JSON. */
export function resultOf(event: object): Result {
  const from = event as Record<string, unknown>;
  const there = forms.filter((form) => from[form] !== undefined && from[form] !== null);
  const result = Object.fromEntries(there.map((form) => [form, from[form]]));
  Object.defineProperty(result, 'formats', { value: () => [...there], enumerable: false });
  return result as unknown as Result;
}

/** An error that prints as interpreters print it. */
export function errorOf(name: string, message: string, traceback: string[], lineNumber?: number): ExecutionError {
  const error = { name, message, traceback, ...(lineNumber !== undefined && { lineNumber }) };
  return withText(error, () => (message ? `${name}: ${message}` : name));
}

/** The output of a run of code. */
export class Execution {
  readonly code: string;
  /** No more than the id, if the caller gave no more. */
  readonly context: Pick<CodeContext, 'id'> & Partial<CodeContext>;
  results: Result[] = [];
  logs: { stdout: string[]; stderr: string[] } = { stdout: [], stderr: [] };
  error?: ExecutionError;
  executionCount?: number;
  /** Whether the interpreter has told the end of the run. */
  ended = false;
  /** What was printed, on either stream, in the order in which it came. */
  readonly #printed: string[] = [];

  constructor(code: string, context: Execution['context']) {
    this.code = code;
    this.context = context;
  }

  print(stream: 'stdout' | 'stderr', text: string): void {
    this.logs[stream].push(text);
    this.#printed.push(text);
  }

  get success(): boolean {
    return this.ended && !this.error;
  }
  get output(): string {
    return this.#printed.length ? this.#printed.join('') : (this.results.at(-1)?.text ?? '');
  }

  /** What `runCode` answers. Without an error `error` is null, as the guides show it; 0.12 declares it as one that may be missing. */
  result(): CodeResult {
    const error = (this.error ?? null) as ExecutionError | undefined;
    return { ...this.toJSON(), error, success: this.success, output: this.output };
  }

  toJSON(): ExecutionResult {
    const { code, logs, error, executionCount, results } = this;
    return { code, logs, error, executionCount, results };
  }
}
