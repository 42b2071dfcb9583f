/* Files and commands. Each class has the members of its context as properties. */
import { errorWith } from './base.js';
import type { OperationType } from './codes.js';

export interface FileNotFoundContext {
  path: string;
  operation?: OperationType;
}
/** There is no such file. */
export class FileNotFoundError extends errorWith<FileNotFoundContext>()('path') {
  override name = 'FileNotFoundError';
}

export interface FileExistsContext {
  path: string;
  operation?: OperationType;
}
/** There is one already. */
export class FileExistsError extends errorWith<FileExistsContext>()('path') {
  override name = 'FileExistsError';
}

export interface FileTooLargeContext {
  path: string;
  operation?: OperationType;
  maxSize: number;
  actualSize: number;
}
/** More than can be answered at once; `readFileStream` has no such limit. */
export class FileTooLargeError extends errorWith<FileTooLargeContext>()('path') {
  override name = 'FileTooLargeError';
}

export interface FileSystemContext {
  path: string;
  operation?: OperationType;
  stderr?: string;
  exitCode?: number;
}
/** The file system refused: a directory where a file should be, no space, too many links … */
export class FileSystemError extends errorWith<FileSystemContext>()('path', 'stderr', 'exitCode') {
  override name = 'FileSystemError';
}

export interface PermissionDeniedContext {
  path: string;
  operation?: OperationType;
}
/** The path may not be used so. */
export class PermissionDeniedError extends errorWith<PermissionDeniedContext>()('path') {
  override name = 'PermissionDeniedError';
}

export interface CommandNotFoundContext {
  command: string;
}
/** There is no such command, or it is over. */
export class CommandNotFoundError extends errorWith<CommandNotFoundContext>()('command') {
  override name = 'CommandNotFoundError';
}

export interface CommandContext {
  command: string;
  exitCode?: number;
  stdout?: string;
  stderr?: string;
}
/** A command could not be run to its end. `stdout` and `stderr` hold its output so far. */
export class CommandError extends errorWith<CommandContext>()('command', 'exitCode', 'stdout', 'stderr') {
  override name = 'CommandError';
}
