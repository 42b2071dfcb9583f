import { ContainerUnavailableError, InterpreterNotReadyError } from './other-errors.js';

/** Upstream tells so an isolate that a deployment has replaced. Atoll has no isolates: always false. */
export function isDurableObjectCodeUpdateReset(_error: unknown): boolean {
  return false;
}

/** Whether the same call may succeed a moment later because nothing was done yet. */
export function isPlatformTransientError(error: unknown): boolean {
  return error instanceof ContainerUnavailableError || error instanceof InterpreterNotReadyError;
}
