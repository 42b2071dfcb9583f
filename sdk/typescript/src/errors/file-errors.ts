/* Files and commands. Each class has the members of its context as properties. */
import { SandboxError } from './base.js';
import type { OperationType } from './codes.js';

export interface FileNotFoundContext {
  path: string;
  operation?: OperationType;
}
/** There is no such file. */
export class FileNotFoundError extends SandboxError<FileNotFoundContext> {
  override name = 'FileNotFoundError';
  get path(): string {
    return this.context.path;
  }
}

export interface FileExistsContext {
  path: string;
  operation?: OperationType;
}
/** There is one already. */
export class FileExistsError extends SandboxError<FileExistsContext> {
  override name = 'FileExistsError';
  get path(): string {
    return this.context.path;
  }
}

export interface FileTooLargeContext {
  path: string;
  operation?: OperationType;
  maxSize: number;
  actualSize: number;
}
/** More than can be answered at once; `readFileStream` has no such limit. */
export class FileTooLargeError extends SandboxError<FileTooLargeContext> {
  override name = 'FileTooLargeError';
  get path(): string {
    return this.context.path;
  }
}

export interface FileSystemContext {
  path: string;
  operation?: OperationType;
  stderr?: string;
  exitCode?: number;
}
/** The file system refused: a directory where a file should be, no space, too many links … */
export class FileSystemError extends SandboxError<FileSystemContext> {
  override name = 'FileSystemError';
  get path(): string {
    return this.context.path;
  }
  get stderr(): string | undefined {
    return this.context.stderr;
  }
  get exitCode(): number | undefined {
    return this.context.exitCode;
  }
}

export interface PermissionDeniedContext {
  path: string;
  operation?: OperationType;
}
/** The path may not be used so. */
export class PermissionDeniedError extends SandboxError<PermissionDeniedContext> {
  override name = 'PermissionDeniedError';
  get path(): string {
    return this.context.path;
  }
}

export interface CommandNotFoundContext {
  command: string;
}
/** There is no such command, or it is over. */
export class CommandNotFoundError extends SandboxError<CommandNotFoundContext> {
  override name = 'CommandNotFoundError';
  get command(): string {
    return this.context.command;
  }
}

export interface CommandContext {
  command: string;
  exitCode?: number;
  stdout?: string;
  stderr?: string;
}
/** A command could not be run to its end. `stdout` and `stderr` hold what it had printed. */
export class CommandError extends SandboxError<CommandContext> {
  override name = 'CommandError';
  get command(): string {
    return this.context.command;
  }
  get exitCode(): number | undefined {
    return this.context.exitCode;
  }
  get stdout(): string | undefined {
    return this.context.stdout;
  }
  get stderr(): string | undefined {
    return this.context.stderr;
  }
}
