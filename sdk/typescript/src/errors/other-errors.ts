/* Interpreter, input, backups, and the way to the sandbox. Each class has the members of its context as properties. */
import { SandboxError } from './base.js';

export interface ValidationError {
  field: string;
  message: string;
  code?: string;
}
export type ContainerUnavailableReason =
  | 'container_starting'
  | 'container_unhealthy'
  | 'container_replaced'
  | 'rpc_upgrade_failed'
  | 'no_container_instance_available'
  | 'max_container_instances_exceeded'
  | 'container_unreachable';
export type RPCTransportErrorKind =
  | 'peer_closed'
  | 'connection_failed'
  | 'upgrade_failed'
  | 'invalid_frame'
  | 'protocol_error'
  | 'session_disposed'
  | 'unknown';
export type OperationInterruptedReason =
  | 'runtime_replaced'
  | 'transport_disposed'
  | 'sandbox_lifetime_changed'
  | 'recovery_exhausted';

export interface InterpreterNotReadyContext {
  retryAfter?: number;
  progress?: number;
}
/** The interpreter is still starting: try again. */
export class InterpreterNotReadyError extends SandboxError<InterpreterNotReadyContext> {
  override name = 'InterpreterNotReadyError';
  get retryAfter(): number | undefined {
    return this.context.retryAfter;
  }
  get progress(): number | undefined {
    return this.context.progress;
  }
}

export interface ContextNotFoundContext {
  contextId: string;
}
/** No code context has this id. */
export class ContextNotFoundError extends SandboxError<ContextNotFoundContext> {
  override name = 'ContextNotFoundError';
  get contextId(): string {
    return this.context.contextId;
  }
}

export interface CodeExecutionContext {
  contextId?: string;
  ename?: string;
  evalue?: string;
  traceback?: string[];
}
/** The code could not be run to its end. */
export class CodeExecutionError extends SandboxError<CodeExecutionContext> {
  override name = 'CodeExecutionError';
  get contextId(): string | undefined {
    return this.context.contextId;
  }
  get ename(): string | undefined {
    return this.context.ename;
  }
  get evalue(): string | undefined {
    return this.context.evalue;
  }
  get traceback(): string[] | undefined {
    return this.context.traceback;
  }
}

export interface ValidationFailedContext {
  validationErrors: ValidationError[];
}
/** A field of the request is wrong. */
export class ValidationFailedError extends SandboxError<ValidationFailedContext> {
  override name = 'ValidationFailedError';
  get validationErrors(): ValidationError[] {
    return this.context.validationErrors;
  }
}

export interface BackupNotFoundContext {
  backupId: string;
}
/** There is no such backup. */
export class BackupNotFoundError extends SandboxError<BackupNotFoundContext> {
  override name = 'BackupNotFoundError';
  get backupId(): string {
    return this.context.backupId;
  }
}

export interface BackupExpiredContext {
  backupId: string;
  expiredAt?: string;
}
/** The backup is too old. */
export class BackupExpiredError extends SandboxError<BackupExpiredContext> {
  override name = 'BackupExpiredError';
  get backupId(): string {
    return this.context.backupId;
  }
  get expiredAt(): string | undefined {
    return this.context.expiredAt;
  }
}

export interface InvalidBackupConfigContext {
  reason: string;
}
/** What the backup is to hold cannot be. */
export class InvalidBackupConfigError extends SandboxError<InvalidBackupConfigContext> {
  override name = 'InvalidBackupConfigError';
  get reason(): string {
    return this.context.reason;
  }
}

export interface BackupCreateContext {
  dir: string;
  backupId?: string;
  stderr?: string;
  exitCode?: number;
}
/** The backup could not be made. */
export class BackupCreateError extends SandboxError<BackupCreateContext> {
  override name = 'BackupCreateError';
  get dir(): string {
    return this.context.dir;
  }
  get backupId(): string | undefined {
    return this.context.backupId;
  }
}

export interface BackupRestoreContext {
  dir: string;
  backupId: string;
  stderr?: string;
  exitCode?: number;
}
/** The backup could not be restored. */
export class BackupRestoreError extends SandboxError<BackupRestoreContext> {
  override name = 'BackupRestoreError';
  get dir(): string {
    return this.context.dir;
  }
  get backupId(): string {
    return this.context.backupId;
  }
}

export interface ContainerUnavailableContext {
  reason: ContainerUnavailableReason;
  retryable: true;
  retryAfterMs?: number;
  originalMessage?: string;
}
/** The sandbox cannot be reached and nothing was done: asking again is right. */
export class ContainerUnavailableError extends SandboxError<ContainerUnavailableContext> {
  override name = 'ContainerUnavailableError';
  get reason(): ContainerUnavailableReason {
    return this.context.reason;
  }
  get retryAfterMs(): number | undefined {
    return this.context.retryAfterMs;
  }
}

export interface RPCTransportContext {
  kind: RPCTransportErrorKind;
  originalMessage: string;
  errorName: string;
  closeCode?: number;
  closeReason?: string;
}
/** The connection broke after the request was sent: whether it was carried out is not known. */
export class RPCTransportError extends SandboxError<RPCTransportContext> {
  override name = 'RPCTransportError';
  get kind(): RPCTransportErrorKind {
    return this.context.kind;
  }
  get originalMessage(): string {
    return this.context.originalMessage;
  }
}

export interface OperationInterruptedContext {
  reason: OperationInterruptedReason;
  operation: string;
  phase: string;
  admitted: boolean | 'unknown';
  retryable: boolean;
  recoveryAttempts?: number;
  maxRecoveryAttempts?: number;
  containerExitCode?: number;
  stopReason?: string;
}
/** The sandbox went away while it worked on the request. */
export class OperationInterruptedError extends SandboxError<OperationInterruptedContext> {
  override name = 'OperationInterruptedError';
  get reason(): OperationInterruptedReason {
    return this.context.reason;
  }
}
