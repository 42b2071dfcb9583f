import { errorResponse, SandboxError } from '../errors/base.js';
import { errorOf } from '../errors/from-response.js';
import { ContainerUnavailableError, RPCTransportError } from '../errors/other-errors.js';
import { AbortError } from '../errors/plain-errors.js';
import { packageVersion } from '../generated/openapi.js';
import { ConnectionLostError, NotSentError, type Transport, type TransportRequest } from './types.js';

/** A request, and whether it may be sent again. */
export interface Exchange extends TransportRequest {
  /** It only reads, or doing it twice is doing it once: a broken connection is no reason to give up. */
  repeatable?: boolean;
  /** Milliseconds for which a daemon that cannot be reached is tried. */
  retryMs: number;
  /** Try also where nothing listens and nothing has answered before. */
  insist?: boolean;
  /** Milliseconds for which a sandbox that is not ready (503) is waited for. */
  readyMs: number;
}

/** For the question which version answers, and whether Atoll answers at all. */
const healthMs = 5_000;
/** Without an answer for so long, Atoll is asked whether it answers at all: a command may take any time, a lost host is noticed. */
const silenceMs = 15_000;

/** Waits, unless the signal comes first. */
export function pause(ms: number, signal?: AbortSignal): Promise<void> {
  return new Promise((resolve, reject) => {
    const stop = () => {
      clearTimeout(timer);
      reject(new AbortError(signal?.reason));
    };
    if (signal?.aborted) return reject(new AbortError(signal.reason));
    const timer = setTimeout(() => {
      signal?.removeEventListener('abort', stop);
      resolve();
    }, ms);
    signal?.addEventListener('abort', stop, { once: true });
  });
}

/** The delay before try number `n` (from 0): doubling, a little different each time, at most a second. */
export const delayOf = (n: number) => Math.min(25 * 2 ** n, 1000) * (0.75 + Math.random() / 2);

/** An error of the transport in the words and classes of the API. */
export function translate(error: unknown, where: string, signal?: AbortSignal): unknown {
  if (signal?.aborted) return error instanceof AbortError ? error : new AbortError(signal.reason);
  if (error instanceof NotSentError) {
    const context = { reason: 'container_unreachable', retryable: true, originalMessage: error.message } as const;
    const message = `Atoll at ${where} cannot be reached: ${error.message}`;
    const hint = 'Start it with `atoll up`, or name another one with {url, token} or ATOLL_URL and ATOLL_TOKEN.';
    return new ContainerUnavailableError(errorResponse('CONTAINER_UNAVAILABLE', message, context, 503, hint), {
      cause: error,
    });
  }
  if (error instanceof ConnectionLostError) {
    const context = { kind: 'peer_closed', originalMessage: error.message, errorName: error.name } as const;
    const message = `The connection to Atoll at ${where} broke (${error.message}): whether the request was carried out is not known`;
    return new RPCTransportError(errorResponse('RPC_TRANSPORT_ERROR', message, context, 503), { cause: error });
  }
  return error;
}

/** The same for an error inside an answer's body, which every runtime tells in words of its own. */
export function translateBody(error: unknown, where: string, signal?: AbortSignal): unknown {
  const known = error instanceof ConnectionLostError || error instanceof AbortError || error instanceof SandboxError;
  if (known || signal?.aborted) return translate(error, where, signal);
  const text = error instanceof Error ? error.message : String(error);
  return translate(new ConnectionLostError(text, { cause: error }), where);
}

/** Places that have answered: a daemon that restarts comes back there. */
const answered = new Set<string>();

function mayRepeat(error: unknown, request: Exchange, where: string): boolean {
  if (error instanceof NotSentError && error.nothingListens && !request.insist && !answered.has(where)) return false;
  // A body that is a stream cannot be sent from its beginning a second time.
  if (request.body instanceof ReadableStream) return error instanceof NotSentError && !request.body.locked;
  return error instanceof NotSentError || (error instanceof ConnectionLostError && request.repeatable === true);
}

/** A caller's stream on its way to Atoll. Its own error is kept, so that it is not taken for one of the connection. */
class Source {
  readonly stream: ReadableStream<Uint8Array>;
  failure: { error: unknown } | undefined;

  constructor(body: ReadableStream<Uint8Array>) {
    let reader: ReadableStreamDefaultReader<unknown> | undefined;
    const pull = async (controller: ReadableStreamDefaultController<Uint8Array>) => {
      try {
        reader ??= body.getReader();
        const { done, value } = await reader.read();
        if (done) controller.close();
        else controller.enqueue(bytesOf(value));
      } catch (error) {
        this.failure = { error };
        void reader?.cancel(error).catch(() => {});
        controller.error(error);
      }
    };
    const cancel = (reason: unknown) => (reader ?? body).cancel(reason);
    this.stream = new ReadableStream<Uint8Array>({ pull, cancel }, { highWaterMark: 0 });
  }
}

function bytesOf(chunk: unknown): Uint8Array {
  if (chunk instanceof Uint8Array) return chunk;
  if (typeof chunk === 'string') return new TextEncoder().encode(chunk);
  if (chunk instanceof ArrayBuffer) return new Uint8Array(chunk);
  if (ArrayBuffer.isView(chunk)) return new Uint8Array(chunk.buffer, chunk.byteOffset, chunk.byteLength);
  throw new TypeError(`a stream to write must yield bytes or text, not ${chunk === null ? 'null' : typeof chunk}`);
}

/** Errors that an Atoll of another version may have caused: it does not know a route, a method or a field. */
const versionCodes = new Set<string>(['NOT_FOUND', 'METHOD_NOT_ALLOWED', 'VALIDATION_FAILED', 'INVALID_LIMITS']);

/** Suggests an update where Atoll has another version than this package. */
async function explainVersion(transport: Transport, error: unknown): Promise<void> {
  if (!(error instanceof SandboxError) || !versionCodes.has(error.code)) return;
  const signal = AbortSignal.timeout(healthMs);
  try {
    const health = await transport.send({ method: 'GET', path: '/v1/health', signal });
    const { version } = (await health.json()) as { version?: string };
    if (version && version !== packageVersion)
      error.errorResponse.suggestion = `Atoll at ${transport.where} has version ${version}, atoll-sandbox ${packageVersion}: update the older one.`;
  } catch {
    // The first error says enough.
  }
}

/** Whether Atoll answers anything. A connection that fails is left to the request itself to notice. */
async function answers(transport: Transport): Promise<boolean> {
  const signal = AbortSignal.timeout(healthMs);
  try {
    const health = await transport.send({ method: 'GET', path: '/v1/health', signal });
    await health.body?.cancel();
    return true;
  } catch {
    return !signal.aborted;
  }
}

/** Sends a request, and gives up when Atoll no longer answers anything. */
async function attended(
  transport: Transport,
  request: TransportRequest,
  send: (request: TransportRequest) => Promise<Response>,
): Promise<Response> {
  const silent = new AbortController();
  const both = request.signal && AbortSignal.any?.([request.signal, silent.signal]);
  const timer = setInterval(async () => {
    if (!(await answers(transport))) silent.abort();
  }, silenceMs);
  try {
    return await send({ ...request, signal: both ?? request.signal ?? silent.signal });
  } catch (error) {
    if (!silent.signal.aborted || request.signal?.aborted) throw error;
    const message = 'it accepts no requests, or answers none';
    throw answered.has(transport.where) ? new ConnectionLostError(message) : new NotSentError(message);
  } finally {
    clearInterval(timer);
  }
}

/** Sends a request, again where that cannot do anything twice. Answers other than 2xx and 101 become errors. */
export async function exchange(
  transport: Transport,
  wanted: Exchange,
  send: (request: TransportRequest) => Promise<Response> = (r) => transport.send(r),
): Promise<Response> {
  const source = wanted.body instanceof ReadableStream ? new Source(wanted.body) : undefined;
  const request = source ? { ...wanted, body: source.stream } : wanted;
  const began = Date.now();
  for (let n = 0; ; n++) {
    let response: Response;
    try {
      response = await attended(transport, request, send);
    } catch (error) {
      if (source?.failure && !request.signal?.aborted) throw source.failure.error;
      if (
        request.signal?.aborted ||
        !mayRepeat(error, request, transport.where) ||
        Date.now() - began >= request.retryMs
      )
        throw translate(error, transport.where, request.signal);
      await pause(delayOf(n), request.signal);
      continue;
    }
    answered.add(transport.where);
    if (response.ok || response.status === 101) return response;
    // 503 means "not ready yet", and only that: nothing was done.
    const again = response.status === 503 && !(request.body instanceof ReadableStream);
    const error = await errorOf(response, transport.where);
    await explainVersion(transport, error);
    if (!again || Date.now() - began >= request.readyMs) throw error;
    const after = Number(response.headers.get('retry-after')) * 1000;
    await pause(after > 0 ? Math.min(after, 5000) : delayOf(n), request.signal);
  }
}
