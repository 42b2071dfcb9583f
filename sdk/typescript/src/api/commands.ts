import { errorResponse } from '../errors/base.js';
import { CommandError } from '../errors/file-errors.js';
import { resumable } from '../sse/resume.js';
import { parseSSEStream } from '../sse/streams.js';
import type { ExecEvent, ExecOptions, ExecResult, StreamOptions } from '../types/commands.js';
import type { Box } from './box.js';

/** The session id that means: outside of any session. */
export const noSession = '__DISABLE_SESSION__';

/** A little less than the sandbox keeps a stream without a reader. */
const patienceMs = 25_000;

const publicId = (sessionId: string) => (sessionId === noSession ? undefined : sessionId);

/** Variables that have a value. */
export function present(env: Record<string, string | undefined> | undefined): Record<string, string> | undefined {
  const entries = Object.entries(env ?? {}).filter(([, value]) => value !== undefined && value !== null);
  return entries.length ? (Object.fromEntries(entries) as Record<string, string>) : undefined;
}

/** Names of variables that a shell can have. */
export function checkedNames(envVars: Record<string, unknown>): string[] {
  for (const name of Object.keys(envVars))
    if (!/^[A-Za-z_][A-Za-z0-9_]*$/.test(name)) throw failure(`Invalid environment variable name: ${name}`, '', {});
  return Object.keys(envVars);
}

/** Commands of one sandbox. */
export class Commands {
  readonly #box: Box;
  /** Variables of the sandbox. Sessions hold them themselves; a command outside of any is given them. */
  readonly #sandboxEnv: () => Record<string, string>;

  constructor(box: Box, sandboxEnv: () => Record<string, string>) {
    this.#box = box;
    this.#sandboxEnv = sandboxEnv;
  }

  /** The fields that exec, stream and process requests share. */
  request(command: string, sessionId: string, options: StreamOptions & ExecOptions = {}) {
    const { timeout, cwd, encoding, origin } = options;
    const env = present(sessionId === noSession ? { ...this.#sandboxEnv(), ...options.env } : options.env);
    return { command, sessionId, timeoutMs: timeout, env, cwd, encoding, origin };
  }

  async exec(command: string, sessionId: string, options: ExecOptions = {}): Promise<ExecResult> {
    try {
      const callback = options.onOutput ?? options.onStdout ?? options.onStderr;
      const run = options.stream && callback ? this.#streamed : this.#buffered;
      const result = await run.call(this, command, sessionId, options);
      options.onComplete?.(result);
      return result;
    } catch (error) {
      if (error instanceof Error) options.onError?.(error);
      throw error;
    }
  }

  async #buffered(command: string, sessionId: string, options: ExecOptions): Promise<ExecResult> {
    const began = Date.now();
    const body = this.request(command, sessionId, options);
    const answer = await this.#box.json<ExecResult>('POST', '/api/execute', body, { signal: options.signal });
    return { ...answer, duration: Date.now() - began, sessionId: publicId(sessionId) };
  }

  async #streamed(command: string, sessionId: string, options: ExecOptions): Promise<ExecResult> {
    const began = Date.now();
    const timestamp = new Date().toISOString();
    const printed = { stdout: [] as string[], stderr: [] as string[] };
    const output = () => ({ stdout: printed.stdout.join(''), stderr: printed.stderr.join('') });
    const stream = await this.stream(command, sessionId, options);
    for await (const event of parseSSEStream<ExecEvent>(stream, options.signal)) {
      if (event.type === 'stdout' || event.type === 'stderr') {
        printed[event.type].push(event.data ?? '');
        if (!event.data) continue;
        options.onOutput?.(event.type, event.data);
        (event.type === 'stdout' ? options.onStdout : options.onStderr)?.(event.data);
      } else if (event.type === 'complete') {
        const exitCode = event.exitCode ?? 0;
        const duration = Date.now() - began;
        return {
          success: exitCode === 0,
          exitCode,
          ...output(),
          command,
          duration,
          timestamp,
          sessionId: publicId(sessionId),
        };
      } else if (event.type === 'error') {
        throw failure(event.error ?? event.data ?? 'Command execution failed', command, output());
      }
    }
    throw failure('Stream ended without completion event', command, output());
  }

  /** A stream that resumes after a broken connection: the sandbox keeps it under a name for a while. */
  async stream(command: string, sessionId: string, options: StreamOptions = {}): Promise<ReadableStream<Uint8Array>> {
    const { signal } = options;
    const streamId = crypto.randomUUID();
    const path = `/api/execute/stream/${streamId}`;
    const life = this.#box.lives;
    const cancel = () => {
      const told = this.#box.stillThere(life, 'command.stream').then(() => this.#box.json('DELETE', path));
      this.#box.background(told).catch(() => {});
    };
    const body = { ...this.request(command, sessionId, options), streamId };
    const first = await this.#box.stream('POST', '/api/execute/stream', body, { signal }).catch((error) => {
      if (signal?.aborted) cancel();
      throw error;
    });
    return resumable({
      open: async (lastEventId, stop, again) => {
        if (!again) return first;
        const headers = lastEventId === undefined ? undefined : { 'last-event-id': lastEventId };
        const there = this.#box.stillThere(life, 'command.stream');
        return this.#box.background(
          there.then(() => this.#box.stream('GET', path, undefined, { headers, signal: stop })),
        );
      },
      isLast: (event) => event.type === 'complete' || event.type === 'error',
      isOpening: () => false,
      onLeave: cancel,
      patienceMs,
      signal,
    });
  }

  /** Sets and unsets variables in a running shell. */
  async setEnv(sessionId: string, envVars: Record<string, string | undefined>): Promise<void> {
    const names = checkedNames(envVars);
    if (!names.length) return;
    const quote = (text: string) => `'${text.replaceAll("'", "'\\''")}'`;
    const line = names.map((name) =>
      envVars[name] == null ? `unset ${name}` : `export ${name}=${quote(envVars[name]!)}`,
    );
    const result = await this.exec(line.join(' && '), sessionId, { origin: 'internal' });
    if (result.exitCode !== 0) throw failure(`Failed to set ${names.join(', ')}: ${result.stderr}`, '', {});
  }
}

function failure(message: string, command: string, output: { stdout?: string; stderr?: string }): CommandError {
  return new CommandError(errorResponse('COMMAND_EXECUTION_ERROR', message, { command, ...output }, 500));
}
