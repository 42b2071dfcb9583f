import { errorResponse, SandboxError } from '../errors/base.js';
import { ProcessExitedBeforeReadyError, ProcessReadyTimeoutError } from '../errors/process-errors.js';
import { parseSSEStream } from '../sse/streams.js';
import type { LogEvent, WaitForExitResult, WaitForLogResult, WaitForPortOptions } from '../types/processes.js';
import type { Box } from './box.js';
import { LogMatcher } from './log-matcher.js';

interface About {
  id: string;
  command: string;
}
type Followed = (signal: AbortSignal) => ReadableStream<Uint8Array>;

/** How long to wait for the rest of a line whose beginning matches. */
const restOfLineMs = 100;

function timedOut(about: About, condition: string, timeout: number): ProcessReadyTimeoutError {
  const message = `Process did not become ready within ${timeout}ms. Waiting for: ${condition}`;
  const context = { processId: about.id, command: about.command, condition, timeout };
  const hint = `Look at its output with getLogs(), or wait longer for ${condition}.`;
  return new ProcessReadyTimeoutError(errorResponse('PROCESS_READY_TIMEOUT', message, context, 408, hint));
}

function exitedBefore(about: About, condition: string, exitCode: number): ProcessExitedBeforeReadyError {
  const message = `Process exited with code ${exitCode} before becoming ready. Waiting for: ${condition}`;
  const context = { processId: about.id, command: about.command, condition, exitCode };
  const hint = 'Look at what it printed with getLogs().';
  return new ProcessExitedBeforeReadyError(errorResponse('PROCESS_EXITED_BEFORE_READY', message, context, 500, hint));
}

/** Runs `wait` under a time limit; whatever it holds open is closed when it ends. */
async function within<T>(
  timeout: number | undefined,
  late: (timeout: number) => Error,
  wait: (signal: AbortSignal) => Promise<T>,
): Promise<T> {
  const stop = new AbortController();
  let timer: ReturnType<typeof setTimeout> | undefined;
  try {
    const waiting = wait(stop.signal);
    if (timeout === undefined) return await waiting;
    waiting.catch(() => {});
    const limit = new Promise<never>((_, reject) => {
      timer = setTimeout(() => reject(late(timeout)), Math.max(0, timeout));
    });
    return await Promise.race([waiting, limit]);
  } finally {
    clearTimeout(timer);
    stop.abort();
  }
}

/** The next event, or nothing when it does not come within `ms`. */
function nextWithin<T>(next: Promise<T>, ms: number): Promise<T | undefined> {
  let timer: ReturnType<typeof setTimeout>;
  const quiet = new Promise<undefined>((done) => {
    timer = setTimeout(() => done(undefined), ms);
  });
  return Promise.race([next, quiet]).finally(() => clearTimeout(timer));
}

export function waitForLog(
  about: About,
  follow: Followed,
  pattern: string | RegExp,
  timeout?: number,
): Promise<WaitForLogResult> {
  const condition = typeof pattern === 'string' ? `"${pattern}"` : String(pattern);
  return within(
    timeout,
    (ms) => timedOut(about, condition, ms),
    async (signal) => {
      const events = parseSSEStream<LogEvent>(follow(signal), signal);
      const matchers = { stdout: new LogMatcher(pattern), stderr: new LogMatcher(pattern) };
      let found: { result: WaitForLogResult; whole: boolean } | undefined;
      let exitCode = 0;
      for (let next = events.next(); ; ) {
        // "port 80" may be the beginning of "port 8080\n": the rest of a line is worth a moment.
        const step = found && !found.whole ? await nextWithin(next, restOfLineMs) : await next;
        if (!step || step.done) break;
        next = events.next();
        next.catch(() => {}); // left alone when this is over
        const event = step.value;
        if (event.type === 'stdout' || event.type === 'stderr') found = matchers[event.type].push(event.data) ?? found;
        if (event.type === 'exit') exitCode = event.exitCode ?? 1;
        if (found?.whole || event.type === 'exit') break;
      }
      if (found) return found.result;
      throw exitedBefore(about, condition, exitCode);
    },
  );
}

export function waitForExit(about: About, follow: Followed, timeout?: number): Promise<WaitForExitResult> {
  return within(
    timeout,
    (ms) => timedOut(about, 'process exit', ms),
    async (signal) => {
      for await (const event of parseSSEStream<LogEvent>(follow(signal), signal))
        if (event.type === 'exit') return { exitCode: event.exitCode ?? 1 };
      throw new Error(`Process ${about.id} stream ended unexpectedly without exit event`);
    },
  );
}

interface PortEvent {
  type: 'watching' | 'ready' | 'process_exited' | 'error';
  exitCode?: number;
  error?: string;
}

export function waitForPort(about: About, box: Box, port: number, options: WaitForPortOptions = {}): Promise<void> {
  const { mode = 'http', path = '/', status = { min: 200, max: 399 }, interval = 500 } = options;
  const [statusMin, statusMax] = typeof status === 'number' ? [status, status] : [status.min, status.max];
  const condition = mode === 'http' ? `port ${port} (HTTP ${path})` : `port ${port} (TCP)`;
  const body = { port, mode, path, statusMin, statusMax, processId: about.id, interval };
  return within(
    options.timeout,
    (ms) => timedOut(about, condition, ms),
    async (signal) => {
      // To look again is harmless: a broken connection only means to ask anew.
      for (let tries = 0; ; tries++) {
        try {
          return await portEvents(await box.stream('POST', '/api/port-watch', body, { signal }), about, condition);
        } catch (error) {
          const broken = error instanceof SandboxError && error.code === 'RPC_TRANSPORT_ERROR';
          if (!broken || tries > 20 || signal.aborted) throw error;
        }
      }
    },
  );
}

async function portEvents(stream: ReadableStream<Uint8Array>, about: About, condition: string): Promise<void> {
  for await (const event of parseSSEStream<PortEvent>(stream)) {
    if (event.type === 'ready') return;
    if (event.type === 'process_exited') throw exitedBefore(about, condition, event.exitCode ?? 1);
    if (event.type === 'error') throw new Error(event.error || 'Port watch failed');
  }
  throw new Error('Port watch stream ended unexpectedly');
}
