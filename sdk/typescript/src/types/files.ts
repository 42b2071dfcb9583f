export interface MkdirResult {
  success: boolean;
  path: string;
  recursive: boolean;
  timestamp: string;
  exitCode?: number;
}
export interface WriteFileResult {
  success: boolean;
  path: string;
  timestamp: string;
  exitCode?: number;
}
/** How `readFile` hands content over: text, base64, or with `none` a stream of bytes. Default: text if it is text. */
export type FileEncoding = 'utf-8' | 'utf8' | 'base64' | 'none';

export interface ReadFileResult {
  success: boolean;
  path: string;
  content: string;
  timestamp: string;
  exitCode?: number;
  encoding?: 'utf-8' | 'base64';
  isBinary?: boolean;
  mimeType?: string;
  size?: number;
}
/** The result of `readFile` with `encoding: 'none'`: the bytes themselves, of any size. */
export interface ReadFileStreamResult {
  success: true;
  path: string;
  content: ReadableStream<Uint8Array>;
  size: number;
  mimeType: string;
  timestamp: string;
}
/**
 * What `readFile` answers. The result does as its content in `String(file)`, in templates and in `new Response(file)`,
 * which takes any object for its text; the members of a view of bytes are there so that its types allow the object.
 */
export interface ReadFileText extends ReadFileResult {
  toString(): string;
  readonly buffer: ArrayBuffer;
  readonly byteLength: number;
  readonly byteOffset: number;
}
/** What `stat` answers. Symbolic links are followed. */
export interface FileStat {
  path: string;
  type: 'file' | 'directory' | 'other';
  size: number;
  /** ISO 8601. */
  modifiedAt: string;
  /** The same as `modifiedAt`. */
  mtime: Date;
  /** The permission bits: 0o755. */
  mode: number;
  isFile(): boolean;
  isDirectory(): boolean;
}
export interface DeleteFileResult {
  success: boolean;
  path: string;
  timestamp: string;
  exitCode?: number;
}
export interface RenameFileResult {
  success: boolean;
  path: string;
  newPath: string;
  timestamp: string;
  exitCode?: number;
}
export type MoveFileResult = RenameFileResult;
export interface FileExistsResult {
  success: boolean;
  path: string;
  exists: boolean;
  timestamp: string;
}
export interface FileInfo {
  name: string;
  absolutePath: string;
  relativePath: string;
  type: 'file' | 'directory' | 'symlink' | 'other';
  size: number;
  /** ISO 8601. */
  modifiedAt: string;
  /** Like `rwxr-xr-x`. */
  mode: string;
  /** Of the owner. */
  permissions: { readable: boolean; writable: boolean; executable: boolean };
}
/** Options of `rm`. */
export interface RmOptions {
  /** Also directories, with all that they hold. Default false. */
  recursive?: boolean;
  /** A path that does not exist is no error. Default false. */
  force?: boolean;
}
export interface ListFilesOptions {
  /** Default false. */
  recursive?: boolean;
  /** Also names that begin with a dot. Default false. */
  includeHidden?: boolean;
  sessionId?: string;
}
export interface ListFilesResult {
  success: boolean;
  path: string;
  files: FileInfo[];
  count: number;
  timestamp: string;
  exitCode?: number;
}

/** One event of `readFileStream`, as `parseSSEStream` yields it; `streamFile` and `collectFile` decode them. */
export type FileStreamEvent =
  | { type: 'metadata'; mimeType: string; size: number; isBinary: boolean; encoding: 'utf-8' | 'base64' }
  | { type: 'chunk'; data: string }
  | { type: 'complete'; bytesRead: number }
  | { type: 'error'; error: string };
export interface FileMetadata {
  mimeType: string;
  size: number;
  isBinary: boolean;
  encoding: 'utf-8' | 'base64';
}
/** A string of a text file, bytes of any other. */
export type FileChunk = string | Uint8Array;

export interface WatchOptions {
  /** Default true. */
  recursive?: boolean;
  /** Globs; not together with `exclude`. */
  include?: string[];
  /** Globs. Default `.git`, `node_modules`, `.DS_Store`. */
  exclude?: string[];
  sessionId?: string;
}
export interface CheckChangesOptions extends WatchOptions {
  /** `version` of an earlier answer. */
  since?: string;
}
export type FileWatchEventType = 'create' | 'modify' | 'delete' | 'move_from' | 'move_to' | 'attrib';

/** One event of `watch`, as `parseSSEStream` yields it. */
export type FileWatchSSEEvent =
  | { type: 'watching'; path: string; watchId: string }
  | { type: 'event'; eventType: FileWatchEventType; path: string; isDirectory: boolean; timestamp: string }
  | { type: 'error'; error: string }
  | { type: 'stopped'; reason: string };
/** `resync` means: nothing is known about the time since; look at everything. */
export type CheckChangesResult =
  | { success: true; status: 'unchanged' | 'changed'; version: string; timestamp: string }
  | { success: true; status: 'resync'; reason: 'expired' | 'restarted'; version: string; timestamp: string };
