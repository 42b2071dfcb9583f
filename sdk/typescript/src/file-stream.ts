import { parseSSEStream } from './sse/streams.js';
import type { FileChunk, FileMetadata, FileStreamEvent } from './types/files.js';

function bytesOf(base64: string): Uint8Array {
  const text = atob(base64);
  const bytes = new Uint8Array(text.length);
  for (let i = 0; i < text.length; i++) bytes[i] = text.charCodeAt(i);
  return bytes;
}

/**
 * Decodes a stream of `readFileStream` piece by piece: strings of a text file, bytes of any other. Returns the metadata.
 *
 *     for await (const chunk of streamFile(await sandbox.readFileStream('/workspace/big.csv'))) …
 */
export async function* streamFile(stream: ReadableStream<Uint8Array>): AsyncGenerator<FileChunk, FileMetadata> {
  let metadata: FileMetadata | undefined;
  for await (const event of parseSSEStream<FileStreamEvent>(stream)) {
    if (event.type === 'metadata') {
      const { mimeType, size, isBinary, encoding } = event;
      metadata = { mimeType, size, isBinary, encoding };
    } else if (event.type === 'chunk') {
      if (!metadata) throw new Error('Received chunk before metadata');
      yield metadata.encoding === 'base64' ? bytesOf(event.data) : event.data;
    } else if (event.type === 'error') throw new Error(`File streaming error: ${event.error}`);
    else if (metadata) return metadata;
  }
  throw new Error('Stream ended before the file was complete');
}

/** A whole file in memory: a string, or bytes if it is binary. */
export async function collectFile(
  stream: ReadableStream<Uint8Array>,
): Promise<{ content: string | Uint8Array; metadata: FileMetadata }> {
  const chunks: FileChunk[] = [];
  const file = streamFile(stream);
  let next = await file.next();
  for (; !next.done; next = await file.next()) chunks.push(next.value);
  const metadata = next.value;
  if (metadata.encoding !== 'base64') return { content: chunks.join(''), metadata };
  const parts = chunks as Uint8Array[];
  const content = new Uint8Array(parts.reduce((sum, part) => sum + part.length, 0));
  let at = 0;
  for (const part of parts) {
    content.set(part, at);
    at += part.length;
  }
  return { content, metadata };
}
