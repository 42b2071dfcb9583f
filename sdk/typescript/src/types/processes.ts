import type { BaseExecOptions } from './commands.js';

/** Options of `startProcess`. */
export interface ProcessOptions extends BaseExecOptions {
  /** The same as `session`. */
  sessionId?: string;
  /** Default: a new `proc_…` id. */
  processId?: string;
  /** Accepted for compatibility. */
  autoCleanup?: boolean;
  /** Started again when it ends, and whenever its sandbox starts. */
  service?: boolean;
  /** The sandbox does not fall asleep while it runs. */
  keepAlive?: boolean;
  onExit?: (code: number | null) => void;
  onOutput?: (stream: 'stdout' | 'stderr', data: string) => void;
  onStart?: (process: Process) => void;
  onError?: (error: Error) => void;
}

/** Where a background process is in its life. */
export type ProcessStatus = 'starting' | 'running' | 'completed' | 'failed' | 'killed' | 'error';

/** The result of `waitForLog`. */
export interface WaitForLogResult {
  line: string;
  /** For a regular expression: its match. */
  match?: RegExpMatchArray;
}

/** The result of `waitForExit`. */
export interface WaitForExitResult {
  exitCode: number;
}

/** Options of `waitForPort`. */
export interface WaitForPortOptions {
  /** `http` (default) asks for `path` and looks at the status; `tcp` only connects. */
  mode?: 'http' | 'tcp';
  /** Default `/`. */
  path?: string;
  /** Which statuses mean ready. Default 200 to 399. */
  status?: number | { min: number; max: number };
  /** Milliseconds. Default: no limit. */
  timeout?: number;
  /** Milliseconds between two looks. Default 500. */
  interval?: number;
}

/** A background process: its state when the object was created, and its methods. */
export interface Process {
  readonly id: string;
  readonly pid?: number;
  readonly command: string;
  readonly status: ProcessStatus;
  readonly startTime: Date;
  readonly endTime?: Date;
  readonly exitCode?: number;
  readonly sessionId?: string;
  /** Sends a signal (default SIGTERM, then SIGKILL after a grace period) to the process and all it started. */
  kill(signal?: string): Promise<void>;
  getStatus(): Promise<ProcessStatus>;
  getLogs(): Promise<{ stdout: string; stderr: string }>;
  /** Waits for a line of output, past output included. */
  waitForLog(pattern: string | RegExp, timeout?: number): Promise<WaitForLogResult>;
  waitForPort(port: number, options?: WaitForPortOptions): Promise<void>;
  waitForExit(timeout?: number): Promise<WaitForExitResult>;
}

/** One event of `streamProcessLogs`, as `parseSSEStream` yields it. */
export interface LogEvent {
  type: 'stdout' | 'stderr' | 'exit' | 'error';
  timestamp: string;
  data: string;
  processId: string;
  sessionId?: string;
  exitCode?: number;
}

/** A process as the wire has it. */
export interface ProcessRecord {
  id: string;
  pid?: number;
  command: string;
  status: ProcessStatus;
  startTime: string;
  endTime?: string;
  exitCode?: number;
  sessionId?: string;
}
export interface ProcessStartResult {
  success: boolean;
  processId: string;
  pid?: number;
  command: string;
  timestamp: string;
}
export interface ProcessListResult {
  success: boolean;
  processes: ProcessRecord[];
  timestamp: string;
}
export interface ProcessInfoResult {
  success: boolean;
  process: ProcessRecord;
  timestamp: string;
}
export interface ProcessKillResult {
  success: boolean;
  processId: string;
  signal?: string;
  timestamp: string;
}
export interface ProcessLogsResult {
  success: boolean;
  processId: string;
  stdout: string;
  stderr: string;
  timestamp: string;
}
export interface ProcessCleanupResult {
  success: boolean;
  message?: string;
  killedCount?: number;
  cleanedCount: number;
  timestamp: string;
}
