import { AbortError } from '../errors/plain-errors.js';
import { delayOf, pause } from '../transport/exchange.js';
import { eventOf, type Frame } from './frames.js';
import { framesOf } from './streams.js';

/** How to follow something whose events have ids. */
export interface Follow {
  /** Opens the stream behind the event of this id; from the beginning without one. `again`: not for the first time. */
  open: (lastEventId: string | undefined, signal: AbortSignal, again: boolean) => Promise<ReadableStream<Uint8Array>>;
  /** Whether this is the last event: only then may the stream end. */
  isLast: (event: any) => boolean;
  /** Whether an event opens every stream anew, and is to be seen once. */
  isOpening: (event: any) => boolean;
  /** The reader wants no more, and the last event has not come. */
  onLeave?: () => void;
  /** Milliseconds without any connection after which the stream fails. */
  patienceMs: number;
  signal?: AbortSignal;
}

/** The frames of all connections as if they were one: none twice, none missing. */
async function* follow(f: Follow, signal: AbortSignal): AsyncGenerator<{ frame: Frame; last: boolean }> {
  let lastId: string | undefined;
  let tried = false;
  let opened = false;
  let failures = 0;
  for (let lostAt = 0; ; ) {
    try {
      // Half a frame at a break is dropped: the server sends it again, whole.
      const stream = await f.open(lastId, signal, tried);
      tried = true;
      for await (const frame of framesOf(stream, signal, true)) {
        const event = eventOf<any>(frame);
        if (event === undefined) continue;
        const opening = f.isOpening(event);
        lastId = frame.id ?? lastId;
        failures = 0;
        if (opening && opened) continue;
        opened ||= opening;
        const last = f.isLast(event);
        yield { frame, last };
        if (last) return;
      }
      throw new Error('the stream ended before its last event');
    } catch (error) {
      if (signal.aborted || !isBreak(error)) throw error;
      if (failures++ === 0) lostAt = Date.now();
      else if (Date.now() - lostAt > f.patienceMs) throw error;
      await pause(delayOf(failures), signal);
    }
  }
}

/** Whether a retry can help: the connection broke, or no daemon answered. */
function isBreak(error: unknown): boolean {
  const { code, httpStatus } = error as { code?: string; httpStatus?: number };
  return httpStatus === undefined || code === 'RPC_TRANSPORT_ERROR' || code === 'CONTAINER_UNAVAILABLE';
}

/** A stream that resumes after a broken connection, without losing or repeating a byte. */
export function resumable(f: Follow): ReadableStream<Uint8Array> {
  const encoder = new TextEncoder();
  const stop = new AbortController();
  const frames = follow(f, stop.signal);
  let abort = () => {};
  const done = () => f.signal?.removeEventListener('abort', abort);
  const leave = () => {
    done();
    f.onLeave?.();
    stop.abort(f.signal?.reason);
  };
  return new ReadableStream<Uint8Array>(
    {
      start(controller) {
        abort = () => {
          leave();
          controller.error(new AbortError(f.signal?.reason));
        };
        if (f.signal?.aborted) abort();
        else f.signal?.addEventListener('abort', abort, { once: true });
      },
      async pull(controller) {
        try {
          const { value } = await frames.next();
          controller.enqueue(encoder.encode(`${value!.frame.text}\n\n`));
          // The stream closes together with its last event, so the reader has seen every event.
          if (!value!.last) return;
          done();
          controller.close();
        } catch (error) {
          done();
          if (!f.signal?.aborted) controller.error(error);
        }
      },
      async cancel() {
        leave();
        await frames.return(undefined).catch(() => {});
      },
    },
    { highWaterMark: 0 },
  );
}
