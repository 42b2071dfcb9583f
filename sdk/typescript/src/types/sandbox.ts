import type { components } from '../generated/openapi.js';
import type {
  ExecOptions,
  ExecResult,
  GitCheckoutOptions,
  GitCheckoutResult,
  PtyOptions,
  SessionRef,
  StreamOptions,
} from './commands.js';
import type {
  CheckChangesOptions,
  CheckChangesResult,
  DeleteFileResult,
  FileEncoding,
  FileExistsResult,
  FileStat,
  ListFilesOptions,
  ListFilesResult,
  MkdirResult,
  MoveFileResult,
  ReadFileStreamResult,
  ReadFileText,
  RenameFileResult,
  RmOptions,
  WatchOptions,
  WriteFileResult,
} from './files.js';
import type { CodeContext, CodeResult, ContextRef, CreateContextOptions, RunCodeInput } from './interpreter.js';
import type { Process, ProcessOptions } from './processes.js';
import type { BackupOptions, DirectoryBackup, MountBucketOptions, RestoreBackupResult } from './storage.js';

/** Which Atoll. Without it: `ATOLL_URL` and `ATOLL_TOKEN`, else the unix socket of this machine. */
export interface AtollOptions {
  /** `http://host:8700`, or `unix:/run/atoll/atoll.sock`. */
  url?: string | undefined;
  token?: string | undefined;
  /**
   * Milliseconds for which a request that has not reached Atoll is tried again; 0 is never. Default: 5000 for an Atoll
   * that has answered before, and none where nothing listens.
   */
  retryMs?: number | undefined;
}

/** Accepted for compatibility: Atoll is always spoken to over HTTP. */
export type SandboxTransport = 'http' | 'websocket' | 'rpc';

type Spec = components['schemas']['SandboxSpec'];
/** Fields of the contract that are declared by hand below, or are no options. */
type Declared = 'sleepAfter' | 'keepAlive' | 'labels' | 'limits' | 'image' | 'env' | 'envChanges';

/** What the daemon keeps of a sandbox beside upstream's options: `PUT /v1/sandboxes/{id}` takes it. */
export interface SandboxSettings extends Partial<Omit<Spec, Declared>> {
  /** `memory` in bytes, `cpu` in CPUs (0.5 is half of one), `pids` counts processes and threads, `disk` in bytes. */
  limits?: { memory?: number; cpu?: number; pids?: number; disk?: number };
  /** Name of an image. Default `default`. */
  image?: string;
  /** Variables of every process in the sandbox. */
  env?: Record<string, string>;
}

/** Options of `getSandbox`. Any other one throws. */
export interface SandboxOptions extends SandboxSettings {
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
export interface SandboxConfiguration extends SandboxSettings {
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
  /** A session in JSON is its id, which does wherever a session is asked for. */
  toJSON(): string;
  exec(command: string, options?: ExecOptions): Promise<ExecResult>;
  execStream(command: string, options?: StreamOptions): Promise<ReadableStream<Uint8Array>>;
  startProcess(command: string, options?: ProcessOptions): Promise<Process>;
  spawn(command: string, options?: ProcessOptions): Promise<Process>;
  isProcessRunning(id: string): Promise<boolean>;
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
  readFile(path: string, options?: { encoding?: Exclude<FileEncoding, 'none'> }): Promise<ReadFileText>;
  readFileStream(path: string): Promise<ReadableStream<Uint8Array>>;
  watch(path: string, options?: Omit<WatchOptions, 'sessionId'>): Promise<ReadableStream<Uint8Array>>;
  checkChanges(path: string, options?: Omit<CheckChangesOptions, 'sessionId'>): Promise<CheckChangesResult>;
  mkdir(path: string, options?: { recursive?: boolean }): Promise<MkdirResult>;
  deleteFile(path: string): Promise<DeleteFileResult>;
  readdir(path: string): Promise<string[]>;
  rm(path: string, options?: RmOptions): Promise<void>;
  stat(path: string): Promise<FileStat>;
  renameFile(oldPath: string, newPath: string): Promise<RenameFileResult>;
  moveFile(sourcePath: string, destinationPath: string): Promise<MoveFileResult>;
  listFiles(path: string, options?: ListFilesOptions): Promise<ListFilesResult>;
  exists(path: string): Promise<FileExistsResult>;
  gitCheckout(
    repoUrl: string,
    options?: Omit<GitCheckoutOptions, 'sessionId' | 'session'> | string,
    more?: Omit<GitCheckoutOptions, 'sessionId' | 'session' | 'targetDir'>,
  ): Promise<GitCheckoutResult>;
  setEnvVars(envVars: Record<string, string | undefined>): Promise<void>;
  createCodeContext(options?: CreateContextOptions): Promise<CodeContext>;
  runCode(code: string, options?: RunCodeInput): Promise<CodeResult>;
  runCodeStream(code: string, options?: RunCodeInput): Promise<ReadableStream<Uint8Array>>;
  listCodeContexts(): Promise<CodeContext[]>;
  deleteCodeContext(context: ContextRef): Promise<void>;
  mountBucket(bucket: string, mountPath: string, options: MountBucketOptions): Promise<void>;
  unmountBucket(mountPath: string): Promise<void>;
  createBackup(options: BackupOptions): Promise<DirectoryBackup>;
  restoreBackup(backup: DirectoryBackup): Promise<RestoreBackupResult>;
  terminal(request: Request, options?: PtyOptions): Promise<Response>;
}

/** Everything that upstream documents for a sandbox. `Sandbox` has more. */
export interface ISandbox
  extends Omit<ExecutionSession, 'id' | 'toJSON' | 'terminal' | 'watch' | 'checkChanges' | 'exists' | 'gitCheckout'> {
  watch(path: string, options?: WatchOptions): Promise<ReadableStream<Uint8Array>>;
  checkChanges(path: string, options?: CheckChangesOptions): Promise<CheckChangesResult>;
  exists(path: string, sessionId?: string): Promise<FileExistsResult>;
  gitCheckout(
    repoUrl: string,
    options?: GitCheckoutOptions | string,
    more?: Omit<GitCheckoutOptions, 'targetDir'>,
  ): Promise<GitCheckoutResult>;
  createSession(options?: SessionOptions): Promise<ExecutionSession>;
  deleteSession(session: SessionRef): Promise<SessionDeleteResult>;
  getContainerPlacementId(): Promise<string | null | undefined>;
  wsConnect(request: Request, port: number): Promise<Response>;
}
