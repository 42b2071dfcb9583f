/** A session where a call asks for one: the object, its id, or what the object became in JSON. */
export type SessionRef = string | { readonly id: string };

/** Options that commands, streams and background processes share. */
export interface BaseExecOptions {
  /** Milliseconds after which the command is ended with all it started. Default: no limit. */
  timeout?: number;
  /** Variables for this command only; `undefined` leaves a variable as it is. */
  env?: Record<string, string | undefined>;
  /** Directory for this command only. Default: where the session is. */
  cwd?: string;
  /** `utf-8` (default), or `base64` for output that is not text. */
  encoding?: string;
  /** Where to run. Default: the default session of the sandbox. */
  session?: SessionRef;
}

/** Options of `exec`. */
export interface ExecOptions extends BaseExecOptions {
  /** The same as `session`. */
  sessionId?: string;
  /** With `onOutput`, `onStdout` or `onStderr`: hand output on while the command runs. The command then leaves no state in the session. */
  stream?: boolean;
  onOutput?: (stream: 'stdout' | 'stderr', data: string) => void;
  onStdout?: (text: string) => void;
  onStderr?: (text: string) => void;
  onComplete?: (result: ExecResult) => void;
  onError?: (error: Error) => void;
  /** Stops waiting for a buffered command, which runs on; ends a streamed one. */
  signal?: AbortSignal;
  /** Accepted for compatibility. */
  origin?: 'user' | 'internal';
}

/** How a command ended. A command that fails is a result, not an exception. */
export interface ExecResult {
  /** Whether the exit code is 0. */
  success: boolean;
  exitCode: number;
  stdout: string;
  stderr: string;
  command: string;
  /** Milliseconds, as this client saw them. */
  duration: number;
  /** ISO 8601. */
  timestamp: string;
  /** The session it ran in; absent when it ran outside of any. */
  sessionId?: string;
}

/** Options of `execStream`. */
export interface StreamOptions extends BaseExecOptions {
  sessionId?: string;
  /** Accepted for compatibility: a stream is read as fast as its consumer reads, and buffers no more than that. */
  bufferSize?: number;
  /** Ends the command. */
  signal?: AbortSignal;
}

/** One event of `execStream`, as `parseSSEStream` yields it. */
export interface ExecEvent {
  type: 'start' | 'stdout' | 'stderr' | 'complete' | 'error';
  timestamp: string;
  data?: string;
  command?: string;
  exitCode?: number;
  result?: ExecResult;
  error?: string;
  sessionId?: string;
  pid?: number;
}

/** Options of `terminal`. */
export interface PtyOptions {
  /** Default 80. */
  cols?: number;
  /** Default 24. */
  rows?: number;
  /** Default bash. */
  shell?: string;
}

/** The result of `gitCheckout`. */
export interface GitCheckoutResult {
  success: boolean;
  repoUrl: string;
  branch: string;
  targetDir: string;
  timestamp: string;
  exitCode?: number;
}

/** Options of `gitCheckout`. */
export interface GitCheckoutOptions {
  /** A branch, a tag or a commit. Not together with `branch`. A commit is looked for in the whole history. */
  ref?: string;
  /** Default: the repository's own. */
  branch?: string;
  /** Default: `/workspace/` and the repository's name. */
  targetDir?: string;
  sessionId?: string;
  session?: SessionRef;
  /** How many commits of history to fetch. */
  depth?: number;
  /** Default: ten minutes. */
  cloneTimeoutMs?: number;
}
