import { errorResponse, SandboxError } from '../errors/base.js';
import { eventOf, FrameReader } from '../sse/frames.js';
import type { CheckChangesOptions, CheckChangesResult, FileWatchSSEEvent, WatchOptions } from '../types/files.js';
import type { Box } from './box.js';

const failed = (text: string, path: string) =>
  new SandboxError(errorResponse('WATCH_START_ERROR', `Failed to watch ${path}: ${text}`, { path }, 500));

/** Watches of one sandbox. */
export class Watches {
  readonly #box: Box;

  constructor(box: Box) {
    this.#box = box;
  }

  /** Resolves when the watch is active; the stream has every later change. */
  async watch(path: string, sessionId: string, options: WatchOptions = {}): Promise<ReadableStream<Uint8Array>> {
    const { recursive, include, exclude } = options;
    const stream = await this.#box.stream('POST', '/api/watch', { path, recursive, include, exclude, sessionId });
    const reader = stream.getReader();
    const frames = new FrameReader();
    const read: Uint8Array[] = [];
    for (let ready = false; !ready; ) {
      const { done, value } = await reader.read();
      if (done) throw failed('the stream ended before the watch was in place', path);
      read.push(value);
      for (const frame of frames.push(value)) {
        const event = eventOf<FileWatchSSEEvent>(frame);
        if (event?.type === 'watching') ready = true;
        if (event?.type === 'error') {
          await reader.cancel().catch(() => {});
          throw failed(event.error, path);
        }
      }
    }
    return new ReadableStream(
      {
        async pull(controller) {
          const early = read.shift();
          if (early) return controller.enqueue(early);
          const { done, value } = await reader.read();
          if (done) controller.close();
          else controller.enqueue(value);
        },
        cancel: (reason) => reader.cancel(reason),
      },
      { highWaterMark: 0 },
    );
  }

  check(path: string, sessionId: string, options: CheckChangesOptions = {}): Promise<CheckChangesResult> {
    const { recursive, include, exclude, since } = options;
    return this.#box.json('POST', '/api/watch/check', { path, recursive, include, exclude, since, sessionId });
  }
}
