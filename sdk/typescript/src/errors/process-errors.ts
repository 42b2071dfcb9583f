/* Processes and sessions. Each class has the members of its context as properties. */
import { SandboxError } from './base.js';

export interface ProcessNotFoundContext {
  processId: string;
}
/** No process has this id. */
export class ProcessNotFoundError extends SandboxError<ProcessNotFoundContext> {
  override name = 'ProcessNotFoundError';
  get processId(): string {
    return this.context.processId;
  }
}

export interface ProcessContext {
  processId: string;
  pid?: number;
  exitCode?: number;
  stderr?: string;
}
/** A process could not be started or ended. */
export class ProcessError extends SandboxError<ProcessContext> {
  override name = 'ProcessError';
  get processId(): string {
    return this.context.processId;
  }
  get pid(): number | undefined {
    return this.context.pid;
  }
  get exitCode(): number | undefined {
    return this.context.exitCode;
  }
  get stderr(): string | undefined {
    return this.context.stderr;
  }
}

export interface ProcessReadyTimeoutContext {
  processId: string;
  command: string;
  condition: string;
  timeout: number;
}
/** What was waited for did not come in time. */
export class ProcessReadyTimeoutError extends SandboxError<ProcessReadyTimeoutContext> {
  override name = 'ProcessReadyTimeoutError';
  get processId(): string {
    return this.context.processId;
  }
  get command(): string {
    return this.context.command;
  }
  get condition(): string {
    return this.context.condition;
  }
  get timeout(): number {
    return this.context.timeout;
  }
}

export interface ProcessExitedBeforeReadyContext {
  processId: string;
  command: string;
  condition: string;
  exitCode: number;
}
/** The process ended before what was waited for came. */
export class ProcessExitedBeforeReadyError extends SandboxError<ProcessExitedBeforeReadyContext> {
  override name = 'ProcessExitedBeforeReadyError';
  get processId(): string {
    return this.context.processId;
  }
  get command(): string {
    return this.context.command;
  }
  get condition(): string {
    return this.context.condition;
  }
  get exitCode(): number {
    return this.context.exitCode;
  }
}

export interface SessionAlreadyExistsContext {
  sessionId: string;
  containerPlacementId?: string | null;
}
/** A session of this id is there. */
export class SessionAlreadyExistsError extends SandboxError<SessionAlreadyExistsContext> {
  override name = 'SessionAlreadyExistsError';
  get sessionId(): string {
    return this.context.sessionId;
  }
  get containerPlacementId(): string | null | undefined {
    return this.context.containerPlacementId;
  }
}

export interface SessionDestroyedContext {
  sessionId: string;
}
/** The session was deleted while the command waited or ran. */
export class SessionDestroyedError extends SandboxError<SessionDestroyedContext> {
  override name = 'SessionDestroyedError';
  get sessionId(): string {
    return this.context.sessionId;
  }
}

export interface SessionTerminatedContext {
  sessionId: string;
  exitCode: number | null;
}
/** The shell of the session ended (`exit`, `exec`, a crash). The next call starts a fresh one. */
export class SessionTerminatedError extends SandboxError<SessionTerminatedContext> {
  override name = 'SessionTerminatedError';
  get sessionId(): string {
    return this.context.sessionId;
  }
  get exitCode(): number | null {
    return this.context.exitCode;
  }
}
