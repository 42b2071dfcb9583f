import { AbortError } from '../errors/plain-errors.js';
import { eventOf, type Frame, FrameReader } from './frames.js';

/**
 * The events of a stream that `execStream`, `streamProcessLogs`, `runCodeStream`, `watch` or `readFileStream` answered.
 * Leaving the loop early closes the stream.
 *
 *     for await (const event of parseSSEStream<ExecEvent>(await sandbox.execStream('make')))
 *       if (event.type === 'stdout') process.stdout.write(event.data ?? '');
 */
export async function* parseSSEStream<T>(stream: ReadableStream<Uint8Array>, signal?: AbortSignal): AsyncGenerator<T> {
  for await (const frame of framesOf(stream, signal)) {
    const event = eventOf<T>(frame);
    if (event !== undefined) yield event;
  }
}

/** The frames of a stream; throws AbortError when the signal comes. `strict` drops a last one without its empty line. */
export async function* framesOf(
  stream: ReadableStream<Uint8Array>,
  signal?: AbortSignal,
  strict = false,
): AsyncGenerator<Frame> {
  if (signal?.aborted) {
    await stream.cancel().catch(() => {});
    throw new AbortError(signal.reason);
  }
  const reader = stream.getReader();
  const abort = () => void reader.cancel(signal?.reason).catch(() => {});
  signal?.addEventListener('abort', abort, { once: true });
  const frames = new FrameReader();
  try {
    for (;;) {
      const { done, value } = await reader.read();
      if (signal?.aborted) throw new AbortError(signal.reason);
      if (!done || !strict) yield* done ? frames.end() : frames.push(value);
      if (done) return;
    }
  } finally {
    signal?.removeEventListener('abort', abort);
    await reader.cancel().catch(() => {});
    reader.releaseLock();
  }
}

/** The same for a Response; throws when it is not a stream of events. */
export async function* responseToAsyncIterable<T>(response: Response, signal?: AbortSignal): AsyncGenerator<T> {
  if (!response.ok) throw new Error(`Response not ok: ${response.status} ${response.statusText}`);
  if (!response.body) throw new Error('No response body');
  yield* parseSSEStream<T>(response.body, signal);
}

/** The other way round: a stream of server-sent events from anything that can be iterated. It ends with `[DONE]`. */
export function asyncIterableToSSEStream<T>(
  events: AsyncIterable<T>,
  options?: { signal?: AbortSignal; serialize?: (event: T) => string },
): ReadableStream<Uint8Array> {
  const encoder = new TextEncoder();
  const serialize = options?.serialize ?? JSON.stringify;
  const iterator = events[Symbol.asyncIterator]();
  const line = (data: string) => encoder.encode(`data: ${data.split('\n').join('\ndata: ')}\n\n`);
  return new ReadableStream({
    async pull(controller) {
      try {
        if (options?.signal?.aborted) throw new AbortError(options.signal.reason);
        const { done, value } = await iterator.next();
        controller.enqueue(line(done ? '[DONE]' : serialize(value)));
        if (done) controller.close();
      } catch (error) {
        controller.error(error);
        await iterator.return?.();
      }
    },
    async cancel() {
      await iterator.return?.();
    },
  });
}

/** The same bytes. `translate` converts errors, and the signal closes the stream. */
export function guarded(
  stream: ReadableStream<Uint8Array>,
  translate: (error: unknown) => unknown,
  signal?: AbortSignal,
): ReadableStream<Uint8Array> {
  const reader = stream.getReader();
  let abort = () => {};
  const stop = () => signal?.removeEventListener('abort', abort);
  return new ReadableStream<Uint8Array>(
    {
      start(controller) {
        abort = () => {
          controller.error(new AbortError(signal?.reason));
          void reader.cancel(signal?.reason).catch(() => {});
        };
        if (signal?.aborted) abort();
        else signal?.addEventListener('abort', abort, { once: true });
      },
      async pull(controller) {
        try {
          const { done, value } = await reader.read();
          if (signal?.aborted) return;
          if (!done) return controller.enqueue(value);
          stop();
          controller.close();
        } catch (error) {
          stop();
          if (!signal?.aborted) controller.error(translate(error));
        }
      },
      cancel(reason) {
        stop();
        return reader.cancel(reason);
      },
    },
    { highWaterMark: 0 },
  );
}
