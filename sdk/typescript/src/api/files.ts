import { errorResponse, type SandboxError } from '../errors/base.js';
import { FileNotFoundError, FileSystemError } from '../errors/file-errors.js';
import { withBody } from '../text.js';
import type { ExecResult } from '../types/commands.js';
import type * as f from '../types/files.js';
import type { Box, CallOptions } from './box.js';
import { noSession } from './commands.js';

const quoted = (text: string) => `'${text.replaceAll("'", "'\\''")}'`;

function pathError(code: 'FILE_NOT_FOUND' | 'FILESYSTEM_ERROR' | 'IS_DIRECTORY', message: string, path: string) {
  if (code === 'FILE_NOT_FOUND') return new FileNotFoundError(errorResponse(code, message, { path }, 404));
  return new FileSystemError(errorResponse(code, message, { path }, code === 'IS_DIRECTORY' ? 400 : 500));
}

const read: CallOptions = { repeatable: true };

/** Files of one sandbox. Relative paths begin where the session is. */
export class Files {
  readonly #box: Box;

  constructor(box: Box) {
    this.#box = box;
  }

  async write(
    path: string,
    content: string | ReadableStream<Uint8Array>,
    sessionId: string,
    encoding?: string,
  ): Promise<f.WriteFileResult> {
    if (typeof content !== 'string' && !(content instanceof ReadableStream))
      throw new TypeError(
        `writeFile takes a string or a ReadableStream of bytes, not ${content === null ? 'null' : `a value of type ${typeof content}`}. Use JSON.stringify(value) to write an object.`,
      );
    if (typeof content === 'string')
      return this.#box.json('POST', '/api/write', { path, content, encoding, sessionId });
    const response = await this.#box.send('PUT', this.#raw(path, sessionId), content);
    return response.json();
  }

  async read(path: string, sessionId: string, encoding?: f.FileEncoding): Promise<f.ReadFileText> {
    const file = await this.#box.json<f.ReadFileResult>('POST', '/api/read', { path, encoding, sessionId }, read);
    return withBody(file, () => file.content);
  }

  /** The bytes of a file of any size, as they are. */
  async readRaw(path: string, sessionId: string): Promise<f.ReadFileStreamResult> {
    const response = await this.#box.send('GET', this.#raw(path, sessionId));
    const mimeType = response.headers.get('content-type') ?? 'application/octet-stream';
    const size = Number(response.headers.get('content-length') ?? 0);
    const content = response.body ?? new Response('').body!;
    return { success: true, path, content, size, mimeType, timestamp: new Date().toISOString() };
  }

  readStream(path: string, sessionId: string): Promise<ReadableStream<Uint8Array>> {
    return this.#box.stream('POST', '/api/read/stream', { path, sessionId }, read);
  }

  mkdir(path: string, sessionId: string, recursive?: boolean): Promise<f.MkdirResult> {
    return this.#box.json('POST', '/api/mkdir', { path, recursive: recursive ?? false, sessionId });
  }

  remove(path: string, sessionId: string): Promise<f.DeleteFileResult> {
    return this.#box.json('POST', '/api/delete', { path, sessionId });
  }

  /** Removes a file; with `recursive` also a directory. */
  async removeTree(path: string, sessionId: string, options: f.RmOptions = {}): Promise<void> {
    try {
      await this.remove(path, sessionId);
    } catch (error) {
      if (error instanceof FileNotFoundError && options.force) return;
      if ((error as SandboxError).code !== 'IS_DIRECTORY') throw error;
      if (!options.recursive)
        throw pathError('IS_DIRECTORY', `'${path}' is a directory: use rm(path, { recursive: true })`, path);
      const { exitCode, stderr } = await this.#run(`rm -r -- ${quoted(path)}`, path, sessionId);
      if (exitCode !== 0) throw pathError('FILESYSTEM_ERROR', `Removing '${path}' failed: ${stderr.trim()}`, path);
    }
  }

  async stat(path: string, sessionId: string): Promise<f.FileStat> {
    const result = await this.#run(`stat -L -c '%a %s %Y %F' -- ${quoted(path)}`, path, sessionId);
    const match = /^(\d+) (\d+) (-?\d+) (.*)\n$/.exec(result.stdout);
    if (result.exitCode !== 0 || !match) {
      const missing = /No such file|Not a directory/.test(result.stderr);
      const message = `'${path}' cannot be looked at: ${result.stderr.trim() || 'stat gave no answer'}`;
      throw pathError(missing ? 'FILE_NOT_FOUND' : 'FILESYSTEM_ERROR', message, path);
    }
    const type = match[4] === 'directory' ? 'directory' : match[4]!.startsWith('regular') ? 'file' : 'other';
    const mtime = new Date(Number(match[3]) * 1000);
    return {
      path,
      type,
      size: Number(match[2]),
      modifiedAt: mtime.toISOString(),
      mtime,
      mode: Number.parseInt(match[1]!, 8),
      isFile: () => type === 'file',
      isDirectory: () => type === 'directory',
    };
  }

  /** A command of this client's own. Only a relative path needs the session, which may be busy. */
  #run(command: string, path: string, session: string): Promise<ExecResult> {
    const sessionId = path.startsWith('/') ? noSession : session;
    return this.#box.json('POST', '/api/execute', { command: `LC_ALL=C ${command}`, sessionId, origin: 'internal' });
  }

  rename(oldPath: string, newPath: string, sessionId: string): Promise<f.RenameFileResult> {
    return this.#box.json('POST', '/api/rename', { oldPath, newPath, sessionId });
  }

  move(sourcePath: string, destinationPath: string, sessionId: string): Promise<f.MoveFileResult> {
    return this.#box.json('POST', '/api/move', { sourcePath, destinationPath, sessionId });
  }

  list(path: string, sessionId: string, options: f.ListFilesOptions = {}): Promise<f.ListFilesResult> {
    const { recursive = false, includeHidden = false } = options;
    return this.#box.json('POST', '/api/list-files', { path, options: { recursive, includeHidden }, sessionId }, read);
  }

  exists(path: string, sessionId: string): Promise<f.FileExistsResult> {
    return this.#box.json('POST', '/api/exists', { path, sessionId }, read);
  }

  #raw(path: string, sessionId: string): string {
    return `/api/file?${new URLSearchParams({ path, sessionId })}`;
  }
}
