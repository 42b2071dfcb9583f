/**
 * Bodies of known length. Between Workers, workerd keeps `Content-Length` only where the body itself has a length, and handlers
 * for buckets refuse an upload without one.
 */

/** workerd's own: a stream of which the runtime knows the length. */
type FixedLength = new (
  length: number,
) => { readable: ReadableStream<Uint8Array>; writable: WritableStream<Uint8Array> };

const EMPTY = new Uint8Array(0);

/** The request with a body as long as its `Content-Length` says. */
export function withLength(request: Request): Request {
  const length = Number(request.headers.get('content-length') ?? Number.NaN);
  const { FixedLengthStream } = globalThis as unknown as { FixedLengthStream?: FixedLength };
  if (!Number.isSafeInteger(length) || length < 0 || request.method === 'GET' || request.method === 'HEAD')
    return request;
  if (length === 0) return new Request(request, { body: EMPTY });
  if (!request.body || !FixedLengthStream) return request;
  const { readable, writable } = new FixedLengthStream(length);
  // A body that breaks off breaks the stream: whoever reads it is told.
  request.body.pipeTo(writable).catch(() => {});
  return new Request(request, { body: readable, duplex: 'half' } as RequestInit);
}
