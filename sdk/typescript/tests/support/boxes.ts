import { type AtollOptions, getSandbox, parseSSEStream, type Sandbox, type SandboxOptions } from 'atoll-sandbox';
import { afterAll } from 'vitest';

/** The daemon that tests/sdk has started. */
export function daemon(): { url: string; token: string; socket: string } {
  const { ATOLL_URL, ATOLL_TOKEN, ATOLL_TEST_SOCKET } = process.env;
  if (!ATOLL_URL || !ATOLL_TOKEN || !ATOLL_TEST_SOCKET) throw new Error('run by tests/run sdk, which starts a daemon');
  return { url: ATOLL_URL, token: ATOLL_TOKEN, socket: ATOLL_TEST_SOCKET };
}

const opened = new Set<string>();
let count = 0;

/** A sandbox of its own; those of a file are destroyed at its end. */
export function box(options?: SandboxOptions, atoll?: AtollOptions): Sandbox {
  const id = `v${process.pid}-${++count}`;
  opened.add(id);
  return getSandbox(atoll, id, options);
}

afterAll(async () => {
  await Promise.all([...opened].map((id) => getSandbox(undefined, id).destroy()));
});

export async function eventsOf(
  stream: Promise<ReadableStream<Uint8Array>> | ReadableStream<Uint8Array>,
): Promise<any[]> {
  const all: any[] = [];
  for await (const event of parseSSEStream<any>(await stream)) all.push(event);
  return all;
}

export const textOf = (events: any[], type: string) =>
  events
    .filter((event) => event.type === type)
    .map((event) => event.data)
    .join('');

/** Waits for a state that has no event. */
export async function until(what: string, condition: () => Promise<boolean> | boolean): Promise<void> {
  for (const end = Date.now() + 45_000; !(await condition()); ) {
    if (Date.now() > end) throw new Error(`waited too long for ${what}`);
    await new Promise((done) => setTimeout(done, 30));
  }
}

export async function failure(promise: Promise<unknown>): Promise<any> {
  try {
    await promise;
  } catch (error) {
    return error;
  }
  throw new Error('it succeeded');
}
