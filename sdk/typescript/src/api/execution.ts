import type { CodeContext, ExecutionError, ExecutionResult, Result } from '../types/interpreter.js';

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

/** The output of a run of code. */
export class Execution {
  readonly code: string;
  readonly context: CodeContext;
  results: Result[] = [];
  logs: { stdout: string[]; stderr: string[] } = { stdout: [], stderr: [] };
  error?: ExecutionError;
  executionCount?: number;

  constructor(code: string, context: CodeContext) {
    this.code = code;
    this.context = context;
  }

  toJSON(): ExecutionResult {
    const { code, logs, error, executionCount, results } = this;
    return { code, logs, error, executionCount, results };
  }
}
