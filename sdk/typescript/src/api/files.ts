import type * as f from '../types/files.js';
import type { Box, CallOptions } from './box.js';

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

  async read(path: string, sessionId: string, encoding?: f.FileEncoding): Promise<f.ReadFileResult> {
    return this.#box.json('POST', '/api/read', { path, encoding, sessionId }, read);
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
