import type { ExecResult } from './types/commands.js';
import type { Process, ProcessStatus } from './types/processes.js';

const statuses: readonly string[] = ['starting', 'running', 'completed', 'failed', 'killed', 'error'];

export function isExecResult(value: any): value is ExecResult {
  return (
    typeof value?.success === 'boolean' &&
    typeof value.exitCode === 'number' &&
    typeof value.stdout === 'string' &&
    typeof value.stderr === 'string'
  );
}
export function isProcessStatus(value: string): value is ProcessStatus {
  return statuses.includes(value);
}
export function isProcess(value: any): value is Process {
  return typeof value?.id === 'string' && typeof value.command === 'string' && isProcessStatus(value.status);
}
