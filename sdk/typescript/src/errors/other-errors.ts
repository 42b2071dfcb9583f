/* Interpreter, input, backups, and the way to the sandbox. Each class has the members of its context as properties. */
import { errorWith } from './base.js';

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
export class InterpreterNotReadyError extends errorWith<InterpreterNotReadyContext>()('retryAfter', 'progress') {
  override name = 'InterpreterNotReadyError';
}

export interface ContextNotFoundContext {
  contextId: string;
}
/** No code context has this id. */
export class ContextNotFoundError extends errorWith<ContextNotFoundContext>()('contextId') {
  override name = 'ContextNotFoundError';
}

export interface CodeExecutionContext {
  contextId?: string;
  ename?: string;
  evalue?: string;
  traceback?: string[];
}
/** The code could not be run to its end. */
export class CodeExecutionError extends errorWith<CodeExecutionContext>()('contextId', 'ename', 'evalue', 'traceback') {
  override name = 'CodeExecutionError';
}

export interface ValidationFailedContext {
  validationErrors: ValidationError[];
}
/** A field of the request is wrong. */
export class ValidationFailedError extends errorWith<ValidationFailedContext>()('validationErrors') {
  override name = 'ValidationFailedError';
}

export interface BackupNotFoundContext {
  backupId: string;
}
/** There is no such backup. */
export class BackupNotFoundError extends errorWith<BackupNotFoundContext>()('backupId') {
  override name = 'BackupNotFoundError';
}

export interface BackupExpiredContext {
  backupId: string;
  expiredAt?: string;
}
/** The backup is too old. */
export class BackupExpiredError extends errorWith<BackupExpiredContext>()('backupId', 'expiredAt') {
  override name = 'BackupExpiredError';
}

export interface InvalidBackupConfigContext {
  reason: string;
}
/** The content for the backup is invalid. */
export class InvalidBackupConfigError extends errorWith<InvalidBackupConfigContext>()('reason') {
  override name = 'InvalidBackupConfigError';
}

export interface BackupCreateContext {
  dir: string;
  backupId?: string;
  stderr?: string;
  exitCode?: number;
}
/** The backup could not be made. */
export class BackupCreateError extends errorWith<BackupCreateContext>()('dir', 'backupId') {
  override name = 'BackupCreateError';
}

export interface BackupRestoreContext {
  dir: string;
  backupId: string;
  stderr?: string;
  exitCode?: number;
}
/** The backup could not be restored. */
export class BackupRestoreError extends errorWith<BackupRestoreContext>()('dir', 'backupId') {
  override name = 'BackupRestoreError';
}

export interface ContainerUnavailableContext {
  reason: ContainerUnavailableReason;
  retryable: true;
  retryAfterMs?: number;
  originalMessage?: string;
}
/** The sandbox cannot be reached and nothing was done: asking again is right. */
export class ContainerUnavailableError extends errorWith<ContainerUnavailableContext>()('reason', 'retryAfterMs') {
  override name = 'ContainerUnavailableError';
}

export interface RPCTransportContext {
  kind: RPCTransportErrorKind;
  originalMessage: string;
  errorName: string;
  closeCode?: number;
  closeReason?: string;
}
/** The connection broke after the request was sent: whether it was carried out is not known. */
export class RPCTransportError extends errorWith<RPCTransportContext>()('kind', 'originalMessage') {
  override name = 'RPCTransportError';
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
export class OperationInterruptedError extends errorWith<OperationInterruptedContext>()('reason') {
  override name = 'OperationInterruptedError';
}
