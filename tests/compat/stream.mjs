// Event streams as lists, for the client's tests here and for those inside workerd.
import { parseSSEStream } from '@cloudflare/sandbox';

export async function events(stream) {
  const all = [];
  for await (const event of parseSSEStream(await stream)) all.push(event);
  return all;
}

/** Collects until `enough` says so, then cancels the stream as a client that goes away. */
export async function eventsUntil(stream, enough) {
  const all = [];
  for await (const event of parseSSEStream(await stream)) {
    all.push(event);
    if (enough(event)) break;
  }
  return all;
}

export const text = (all, type) => all.filter((e) => e.type === type).map((e) => e.data).join('');
