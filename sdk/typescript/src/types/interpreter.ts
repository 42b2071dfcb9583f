export interface CreateContextOptions {
  /** Default `python`. */
  language?: 'python' | 'javascript' | 'typescript';
  /** Default `/workspace`. */
  cwd?: string;
  envVars?: Record<string, string | undefined>;
  /** Milliseconds for each run in this context. */
  timeout?: number;
}
/** An interpreter that keeps its state from one run to the next. */
export interface CodeContext {
  readonly id: string;
  readonly language: string;
  readonly cwd: string;
  readonly createdAt: Date;
  readonly lastUsed: Date;
}
export interface RunCodeOptions {
  /** Default: one context per language, made at first use and kept. */
  context?: CodeContext;
  /** Default `python`; of no use together with `context`. */
  language?: 'python' | 'javascript' | 'typescript';
  envVars?: Record<string, string | undefined>;
  /** Milliseconds. */
  timeout?: number;
  /** Interrupts the code; the context keeps its state. */
  signal?: AbortSignal;
  onStdout?: (output: OutputMessage) => void | Promise<void>;
  onStderr?: (output: OutputMessage) => void | Promise<void>;
  onResult?: (result: Result) => void | Promise<void>;
  onError?: (error: ExecutionError) => void | Promise<void>;
}
/** A context where a call asks for one: the object, its id, or what the object became in JSON. */
export type ContextRef = string | { readonly id: string };

/** Options of `runCode`: those of 0.12, and the spellings of the guides. */
export interface RunCodeInput extends Omit<RunCodeOptions, 'context' | keyof ExecutionCallbacks> {
  context?: ContextRef;
  /** Accepted for compatibility: the callbacks are called while the code runs. */
  stream?: boolean;
  /** Text that the code prints, on either stream, as it comes. A promise is waited for, here and below. */
  onOutput?: (text: string) => unknown;
  onStdout?: (output: OutputMessage) => unknown;
  onStderr?: (output: OutputMessage) => unknown;
  onResult?: (result: Result) => unknown;
  onError?: (error: ExecutionError) => unknown;
}
export interface OutputMessage {
  text: string;
  /** Milliseconds since 1970. */
  timestamp: number;
}
/** A value that code produced, in every form that the interpreter offers. */
export interface Result {
  text?: string;
  html?: string;
  /** base64. */
  png?: string;
  /** base64. */
  jpeg?: string;
  svg?: string;
  latex?: string;
  markdown?: string;
  javascript?: string;
  json?: any;
  chart?: ChartData;
  data?: any;
  /** Names of the forms that are there. */
  formats(): string[];
}
export interface ChartData {
  type: 'line' | 'bar' | 'scatter' | 'pie' | 'histogram' | 'heatmap' | 'unknown';
  title?: string;
  data: any;
  layout?: any;
  config?: any;
  library?: 'matplotlib' | 'plotly' | 'altair' | 'seaborn' | 'unknown';
  image?: string;
}
export interface ExecutionError {
  name: string;
  message: string;
  traceback: string[];
  lineNumber?: number;
  /** `NameError: name 'x' is not defined` */
  toString(): string;
}
/** The result of `runCode`. Code that fails is a result with `error`, not an exception. */
export interface ExecutionResult {
  code: string;
  logs: { stdout: string[]; stderr: string[] };
  error?: ExecutionError;
  executionCount?: number;
  results: Omit<Result, 'formats'>[];
}
/** What `runCode` answers: a result of 0.12, and what the guides read from it. */
export interface CodeResult extends ExecutionResult {
  /** What the code raised. Without an error it is null; the declared type is that of 0.12. */
  error?: ExecutionError;
  /** Whether the code ran to its end without an error. */
  success: boolean;
  /** All text that was printed, in its order; the text of the last value if none was. */
  output: string;
}
export interface ExecutionCallbacks {
  onStdout?: (output: OutputMessage) => void | Promise<void>;
  onStderr?: (output: OutputMessage) => void | Promise<void>;
  onResult?: (result: Result) => void | Promise<void>;
  onError?: (error: ExecutionError) => void | Promise<void>;
}
