import { asyncIterableToSSEStream, parseSSEStream, responseToAsyncIterable } from 'atoll-sandbox';
import { describe, expect, test } from 'vitest';

/** The text in pieces of `n` bytes. */
function streamOf(text: string, n = 1): ReadableStream<Uint8Array> {
  const bytes = new TextEncoder().encode(text);
  let at = 0;
  return new ReadableStream({
    pull(controller) {
      if (at >= bytes.length) return controller.close();
      controller.enqueue(bytes.subarray(at, (at += n)));
    },
  });
}

async function all(stream: ReadableStream<Uint8Array>): Promise<unknown[]> {
  const events: unknown[] = [];
  for await (const event of parseSSEStream(stream)) events.push(event);
  return events;
}

describe('parseSSEStream', () => {
  const text =
    ': beat\n\nevent: x\nid: 7\ndata: {"a":"grüße 👍"}\n\ndata:{"b":\ndata: 2}\r\n\r\ndata: [DONE]\n\ndata: nonsense\n\n';

  test.each([1, 2, 3, 7, 1000])('is the same in pieces of %i bytes', async (n) => {
    expect(await all(streamOf(text, n))).toEqual([{ a: 'grüße 👍' }, { b: 2 }]);
  });

  test('takes a last event without its empty line', async () => {
    expect(await all(streamOf('data: 1\n\ndata: 2', 4))).toEqual([1, 2]);
  });

  test('closes the stream when its reader leaves', async () => {
    let cancelled = false;
    const stream = new ReadableStream<Uint8Array>({
      pull: (controller) => controller.enqueue(new TextEncoder().encode('data: 1\n\n')),
      cancel: () => void (cancelled = true),
    });
    for await (const event of parseSSEStream(stream)) if (event === 1) break;
    expect(cancelled).toBe(true);
  });

  test('ends with AbortError when the signal comes', async () => {
    const stop = new AbortController();
    const never = new ReadableStream<Uint8Array>({});
    const reading = all2(never, stop.signal);
    stop.abort();
    await expect(reading).rejects.toMatchObject({ name: 'AbortError', message: 'Operation was aborted' });
    await expect(all2(never, AbortSignal.abort())).rejects.toMatchObject({ name: 'AbortError' });
  });

  async function all2(stream: ReadableStream<Uint8Array>, signal: AbortSignal) {
    for await (const _ of parseSSEStream(stream, signal));
  }
});

describe('asyncIterableToSSEStream', () => {
  test('goes there and back', async () => {
    async function* events() {
      yield { type: 'a', data: 'x\ny' };
      yield { type: 'b' };
    }
    const back: unknown[] = [];
    for await (const event of responseToAsyncIterable(new Response(asyncIterableToSSEStream(events()))))
      back.push(event);
    expect(back).toEqual([{ type: 'a', data: 'x\ny' }, { type: 'b' }]);
  });

  test('asks for no more than is read', async () => {
    let made = 0;
    async function* endless() {
      for (;;) yield ++made;
    }
    const reader = asyncIterableToSSEStream(endless()).getReader();
    await reader.read();
    await reader.read();
    await new Promise((done) => setImmediate(done));
    expect(made).toBeLessThanOrEqual(3);
    await reader.cancel();
  });

  test('responseToAsyncIterable refuses what failed', async () => {
    const failed = responseToAsyncIterable(new Response('no', { status: 500 }));
    await expect(failed[Symbol.asyncIterator]().next()).rejects.toThrow(/500/);
  });
});
