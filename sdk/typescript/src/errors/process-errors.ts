/* Processes and sessions. Each class has the members of its context as properties. */
import { errorWith } from './base.js';

export interface ProcessNotFoundContext {
  processId: string;
}
/** No process has this id. */
export class ProcessNotFoundError extends errorWith<ProcessNotFoundContext>()('processId') {
  override name = 'ProcessNotFoundError';
}

export interface ProcessContext {
  processId: string;
  pid?: number;
  exitCode?: number;
  stderr?: string;
}
/** A process could not be started or ended. */
export class ProcessError extends errorWith<ProcessContext>()('processId', 'pid', 'exitCode', 'stderr') {
  override name = 'ProcessError';
}

export interface ProcessReadyTimeoutContext {
  processId: string;
  command: string;
  condition: string;
  timeout: number;
}
/** The awaited event did not happen in time. */
export class ProcessReadyTimeoutError extends errorWith<ProcessReadyTimeoutContext>()(
  'processId',
  'command',
  'condition',
  'timeout',
) {
  override name = 'ProcessReadyTimeoutError';
}

export interface ProcessExitedBeforeReadyContext {
  processId: string;
  command: string;
  condition: string;
  exitCode: number;
}
/** The process ended before the awaited event. */
export class ProcessExitedBeforeReadyError extends errorWith<ProcessExitedBeforeReadyContext>()(
  'processId',
  'command',
  'condition',
  'exitCode',
) {
  override name = 'ProcessExitedBeforeReadyError';
}

export interface SessionAlreadyExistsContext {
  sessionId: string;
  containerPlacementId?: string | null;
}
/** A session with this id exists. */
export class SessionAlreadyExistsError extends errorWith<SessionAlreadyExistsContext>()(
  'sessionId',
  'containerPlacementId',
) {
  override name = 'SessionAlreadyExistsError';
}

export interface SessionDestroyedContext {
  sessionId: string;
}
/** The session was deleted while the command waited or ran. */
export class SessionDestroyedError extends errorWith<SessionDestroyedContext>()('sessionId') {
  override name = 'SessionDestroyedError';
}

export interface SessionTerminatedContext {
  sessionId: string;
  exitCode: number | null;
}
/** The shell of the session ended (`exit`, `exec`, a crash). The next call starts a fresh one. */
export class SessionTerminatedError extends errorWith<SessionTerminatedContext>()('sessionId', 'exitCode') {
  override name = 'SessionTerminatedError';
}
