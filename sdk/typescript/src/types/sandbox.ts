import type {
  ExecOptions,
  ExecResult,
  GitCheckoutOptions,
  GitCheckoutResult,
  PtyOptions,
  StreamOptions,
} from './commands.js';
import type {
  CheckChangesOptions,
  CheckChangesResult,
  DeleteFileResult,
  FileEncoding,
  FileExistsResult,
  ListFilesOptions,
  ListFilesResult,
  MkdirResult,
  MoveFileResult,
  ReadFileResult,
  ReadFileStreamResult,
  RenameFileResult,
  WatchOptions,
  WriteFileResult,
} from './files.js';
import type { CodeContext, CreateContextOptions, ExecutionResult, RunCodeOptions } from './interpreter.js';
import type { Process, ProcessOptions } from './processes.js';
import type { BackupOptions, DirectoryBackup, MountBucketOptions, RestoreBackupResult } from './storage.js';

/** Which Atoll. Without it: `ATOLL_URL` and `ATOLL_TOKEN`, else the unix socket of this machine. */
export interface AtollOptions {
  /** `http://host:8700`, or `unix:/run/atoll/atoll.sock`. */
  url?: string;
  token?: string;
  /** Milliseconds for which a request that has not reached Atoll is tried again. Default 5000; 0 is never. */
  retryMs?: number;
}

/** Accepted for compatibility: Atoll is always spoken to over HTTP. */
export type SandboxTransport = 'http' | 'websocket' | 'rpc';

/** Options of `getSandbox`. */
export interface SandboxOptions {
  /** `30s`, `10m`, `1h`, or seconds without a request after which the sandbox may sleep. */
  sleepAfter?: string | number;
  /** Do not sleep, whatever `sleepAfter` says. */
  keepAlive?: boolean;
  /** With false, calls that name no session run outside of any. Default true. */
  enableDefaultSession?: boolean;
  /** Turns the id into lower case, which preview URLs need. */
  normalizeId?: boolean;
  /** How long to wait for a sandbox that is not ready; see `AtollOptions.retryMs`. */
  containerTimeouts?: { instanceGetTimeoutMS?: number; portReadyTimeoutMS?: number; waitIntervalMS?: number };
  transport?: SandboxTransport;
  labels?: Record<string, string>;
}

/** The argument of `configure`: any of the options that a sandbox keeps. */
export interface SandboxConfiguration {
  sandboxName?: { name: string; normalizeId?: boolean };
  sleepAfter?: string | number;
  keepAlive?: boolean;
  containerTimeouts?: NonNullable<SandboxOptions['containerTimeouts']>;
  transport?: SandboxTransport;
  labels?: Record<string, string>;
}

/** Options of `createSession`. */
export interface SessionOptions {
  /** Default `session-` and the time. */
  id?: string;
  name?: string;
  /** Over the variables of the sandbox. */
  env?: Record<string, string | undefined>;
  /** Default `/workspace`. */
  cwd?: string;
  isolation?: boolean;
  /** Time limit of commands that have none of their own. */
  commandTimeoutMs?: number;
}
export interface SessionDeleteResult {
  success: boolean;
  sessionId: string;
  timestamp: string;
}

/** A port that a preview URL leads to. */
export interface ExposedPort {
  url: string;
  port: number;
  status: 'active';
}

/** A shell that stays: directory, variables, functions and jobs last from one command to the next. */
export interface ExecutionSession {
  readonly id: string;
  exec(command: string, options?: ExecOptions): Promise<ExecResult>;
  execStream(command: string, options?: StreamOptions): Promise<ReadableStream<Uint8Array>>;
  startProcess(command: string, options?: ProcessOptions): Promise<Process>;
  listProcesses(sessionId?: string): Promise<Process[]>;
  getProcess(id: string, sessionId?: string): Promise<Process | null>;
  killProcess(id: string, signal?: string): Promise<void>;
  killAllProcesses(): Promise<number>;
  cleanupCompletedProcesses(): Promise<number>;
  getProcessLogs(id: string): Promise<{ stdout: string; stderr: string; processId: string }>;
  streamProcessLogs(processId: string, options?: { signal?: AbortSignal }): Promise<ReadableStream<Uint8Array>>;
  writeFile(
    path: string,
    content: string | ReadableStream<Uint8Array>,
    options?: { encoding?: string },
  ): Promise<WriteFileResult>;
  readFile(path: string, options: { encoding: 'none' }): Promise<ReadFileStreamResult>;
  readFile(path: string, options?: { encoding?: Exclude<FileEncoding, 'none'> }): Promise<ReadFileResult>;
  readFileStream(path: string): Promise<ReadableStream<Uint8Array>>;
  watch(path: string, options?: Omit<WatchOptions, 'sessionId'>): Promise<ReadableStream<Uint8Array>>;
  checkChanges(path: string, options?: Omit<CheckChangesOptions, 'sessionId'>): Promise<CheckChangesResult>;
  mkdir(path: string, options?: { recursive?: boolean }): Promise<MkdirResult>;
  deleteFile(path: string): Promise<DeleteFileResult>;
  renameFile(oldPath: string, newPath: string): Promise<RenameFileResult>;
  moveFile(sourcePath: string, destinationPath: string): Promise<MoveFileResult>;
  listFiles(path: string, options?: ListFilesOptions): Promise<ListFilesResult>;
  exists(path: string): Promise<FileExistsResult>;
  gitCheckout(repoUrl: string, options?: Omit<GitCheckoutOptions, 'sessionId'>): Promise<GitCheckoutResult>;
  setEnvVars(envVars: Record<string, string | undefined>): Promise<void>;
  createCodeContext(options?: CreateContextOptions): Promise<CodeContext>;
  runCode(code: string, options?: RunCodeOptions): Promise<ExecutionResult>;
  runCodeStream(code: string, options?: RunCodeOptions): Promise<ReadableStream<Uint8Array>>;
  listCodeContexts(): Promise<CodeContext[]>;
  deleteCodeContext(contextId: string): Promise<void>;
  mountBucket(bucket: string, mountPath: string, options: MountBucketOptions): Promise<void>;
  unmountBucket(mountPath: string): Promise<void>;
  createBackup(options: BackupOptions): Promise<DirectoryBackup>;
  restoreBackup(backup: DirectoryBackup): Promise<RestoreBackupResult>;
  terminal(request: Request, options?: PtyOptions): Promise<Response>;
}

/** Everything that upstream documents for a sandbox. `Sandbox` has more. */
export interface ISandbox
  extends Omit<ExecutionSession, 'id' | 'terminal' | 'watch' | 'checkChanges' | 'exists' | 'gitCheckout'> {
  watch(path: string, options?: WatchOptions): Promise<ReadableStream<Uint8Array>>;
  checkChanges(path: string, options?: CheckChangesOptions): Promise<CheckChangesResult>;
  exists(path: string, sessionId?: string): Promise<FileExistsResult>;
  gitCheckout(repoUrl: string, options?: GitCheckoutOptions): Promise<GitCheckoutResult>;
  createSession(options?: SessionOptions): Promise<ExecutionSession>;
  deleteSession(sessionId: string): Promise<SessionDeleteResult>;
  getContainerPlacementId(): Promise<string | null | undefined>;
  wsConnect(request: Request, port: number): Promise<Response>;
}
