/* Judged by the declarations of @cloudflare/sandbox: what we declare must do wherever theirs is asked for. This file is
 * compiled, with the types of Workers, and never run. */
import type * as Theirs from '@cloudflare/sandbox';
import type * as theirs from '@cloudflare/sandbox';
import type * as theirOpenai from '@cloudflare/sandbox/openai';
import type * as theirXterm from '@cloudflare/sandbox/xterm';
import type * as agents from '@openai/agents';
import type * as Ours from 'atoll-sandbox';
import * as ours from 'atoll-sandbox';
import * as openai from 'atoll-sandbox/openai';
import type { SandboxAddon, SandboxAddonOptions } from 'atoll-sandbox/xterm';

/** Compiles if the first does where the second is asked for. */
type Does<Mine extends Wanted, Wanted> = Mine;
/** Compiles if each does for the other. */
type Same<A extends B, B extends A2, A2 = A> = [A, B];

// ---- the sandbox

export const sandbox: Theirs.ISandbox = ours.getSandbox(undefined, 'x');
export const fromNamespace = (env: Theirs.SandboxEnv): Theirs.ISandbox =>
  ours.getSandbox(env.Sandbox, 'x', {} as Theirs.SandboxOptions);

/** Everything public of upstream's class that is not Cloudflare's own base class. */
type Own = Exclude<keyof Theirs.Sandbox, keyof import('@cloudflare/containers').Container>;
/** What upstream's class has for itself: its parts, not its API. */
type Internal = 'client' | 'callTunnels' | 'execWithSessionToken' | 'execStreamWithSessionToken';
export type Whole = Does<Ours.Sandbox, Pick<Theirs.Sandbox, Exclude<Own, Internal>>>;

/** Of the base class, the life of a container. */
type Life = 'destroy' | 'start' | 'stop' | 'fetch' | 'containerFetch' | 'renewActivityTimeout';
export type HasLife = Does<Life, keyof Ours.Sandbox>;
export type Fetches = Does<
  Ours.Sandbox,
  { fetch(request: Request): Promise<Response>; destroy(): Promise<void>; stop(): Promise<void> }
>;

export type Session = Does<Ours.ExecutionSession, Theirs.ExecutionSession>;
export type SessionMade = Does<Awaited<ReturnType<Ours.Sandbox['createSession']>>, Theirs.ExecutionSession>;
export type Process = Same<Ours.Process, Theirs.Process>;

/** A file that was read is allowed as a body. */
export const body = (file: Ours.ReadFileText): Response => new Response(file);

// ---- options and results, both ways

export type Shapes = [
  Same<Ours.SandboxOptions, Theirs.SandboxOptions>,
  Same<Ours.SandboxTransport, Theirs.SandboxTransport>,
  Same<Ours.SessionOptions, Theirs.SessionOptions>,
  Same<Ours.BaseExecOptions, Theirs.BaseExecOptions>,
  Same<Ours.ExecOptions, Theirs.ExecOptions>,
  Same<Ours.ExecResult, Theirs.ExecResult>,
  Same<Ours.ExecEvent, Theirs.ExecEvent>,
  Same<Ours.StreamOptions, Theirs.StreamOptions>,
  Same<Ours.PtyOptions, Theirs.PtyOptions>,
  Same<Ours.ProcessOptions, Theirs.ProcessOptions>,
  Same<Ours.ProcessStatus, Theirs.ProcessStatus>,
  Same<Ours.LogEvent, Theirs.LogEvent>,
  Same<Ours.WaitForLogResult, Theirs.WaitForLogResult>,
  Same<Ours.WaitForPortOptions, Theirs.WaitForPortOptions>,
  Does<Ours.ProcessListResult, Theirs.ProcessListResult>,
  Does<Ours.ProcessInfoResult, Theirs.ProcessInfoResult>,
  Same<Ours.ProcessStartResult, Theirs.ProcessStartResult>,
  Same<Ours.ProcessKillResult, Theirs.ProcessKillResult>,
  Same<Ours.ProcessLogsResult, Theirs.ProcessLogsResult>,
  Same<Ours.ProcessCleanupResult, Theirs.ProcessCleanupResult>,
  Same<Ours.FileChunk, Theirs.FileChunk>,
  Same<Ours.FileMetadata, Theirs.FileMetadata>,
  Same<Ours.FileStreamEvent, Theirs.FileStreamEvent>,
  Same<Ours.ListFilesOptions, Theirs.ListFilesOptions>,
  Same<Ours.WatchOptions, Theirs.WatchOptions>,
  Same<Ours.FileWatchSSEEvent, Theirs.FileWatchSSEEvent>,
  Same<Ours.CheckChangesOptions, Theirs.CheckChangesOptions>,
  Same<Ours.CheckChangesResult, Theirs.CheckChangesResult>,
  Same<Ours.GitCheckoutResult, Theirs.GitCheckoutResult>,
  Same<Ours.CodeContext, Theirs.CodeContext>,
  Same<Ours.CreateContextOptions, Theirs.CreateContextOptions>,
  Same<Ours.RunCodeOptions, Theirs.RunCodeOptions>,
  Same<Ours.ExecutionResult, Theirs.ExecutionResult>,
  Same<Ours.ExecutionCallbacks, Theirs.ExecutionCallbacks>,
  Same<Ours.BackupOptions, Theirs.BackupOptions>,
  Same<Ours.DirectoryBackup, Theirs.DirectoryBackup>,
  Same<Ours.RestoreBackupResult, Theirs.RestoreBackupResult>,
  Same<Ours.MountBucketOptions, Theirs.MountBucketOptions>,
  Same<Ours.BucketCredentials, Theirs.BucketCredentials>,
  Same<Ours.TunnelInfo, Theirs.TunnelInfo>,
  Same<Ours.TunnelOptions, Theirs.TunnelOptions>,
  Same<Ours.ErrorCode, Theirs.SessionTerminatedError['code']>,
  Same<Ours.OperationType | undefined, Theirs.SessionTerminatedError['operation']>,
  Same<Ours.ContainerUnavailableReason, Theirs.ContainerUnavailableReason>,
  Same<Ours.RPCTransportErrorKind, Theirs.RPCTransportErrorKind>,
  Same<Ours.OperationInterruptedReason, Theirs.OperationInterruptedReason>,
  Same<Ours.ContainerUnavailableContext, Theirs.ContainerUnavailableContext>,
  Same<Ours.RPCTransportContext, Theirs.RPCTransportContext>,
  Same<Ours.OperationInterruptedContext, Theirs.OperationInterruptedContext>,
];

// ---- functions

export const functions: Pick<
  typeof theirs,
  | 'parseSSEStream'
  | 'responseToAsyncIterable'
  | 'asyncIterableToSSEStream'
  | 'streamFile'
  | 'collectFile'
  | 'proxyTerminal'
  | 'isExecResult'
  | 'isProcess'
  | 'isProcessStatus'
  | 'isDurableObjectCodeUpdateReset'
  | 'isPlatformTransientError'
> = ours;
export const proxied: (request: Request, env: Theirs.SandboxEnv) => Promise<Response | null> = ours.proxyToSandbox;

// ---- errors: constructors and instances

export const errors: Pick<
  typeof theirs,
  | 'SessionTerminatedError'
  | 'ProcessReadyTimeoutError'
  | 'ProcessExitedBeforeReadyError'
  | 'BackupNotFoundError'
  | 'BackupExpiredError'
  | 'InvalidBackupConfigError'
  | 'BackupCreateError'
  | 'BackupRestoreError'
  | 'ContainerUnavailableError'
  | 'RPCTransportError'
  | 'OperationInterruptedError'
  | 'BucketMountError'
  | 'S3FSMountError'
  | 'BucketUnmountError'
  | 'MissingCredentialsError'
  | 'InvalidMountConfigError'
> = ours;

// ---- add-ons

export const shell: agents.Shell = new openai.Shell(ours.getSandbox(undefined, 'x'));
export const editor: agents.Editor = new openai.Editor(ours.getSandbox(undefined, 'x'), '/workspace');
export type AddOns = [
  Same<openai.CommandResult, theirOpenai.CommandResult>,
  Same<openai.FileOperationResult, theirOpenai.FileOperationResult>,
  Same<SandboxAddonOptions, theirXterm.SandboxAddonOptions>,
  Does<SandboxAddon, Pick<theirXterm.SandboxAddon, keyof theirXterm.SandboxAddon>>,
];

// ---- nothing that upstream exports is missing, but for this

/** Cloudflare's platform, and the clients of upstream's in-container server. */
type Elsewhere =
  | 'ContainerProxy'
  | 'SandboxClient'
  | `${'Backup' | 'Command' | 'File' | 'Git' | 'Port' | 'Process' | 'Utility'}Client`;
export type NothingMissing = Does<Exclude<keyof typeof theirs, keyof typeof ours>, Elsewhere>;
