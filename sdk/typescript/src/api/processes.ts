import { ProcessNotFoundError } from '../errors/process-errors.js';
import { resumable } from '../sse/resume.js';
import { parseSSEStream } from '../sse/streams.js';
import type * as wire from '../types/processes.js';
import type { LogEvent, Process, ProcessOptions, ProcessRecord } from '../types/processes.js';
import type { Box } from './box.js';
import { type Commands, noSession } from './commands.js';
import { waitForExit, waitForLog, waitForPort } from './waits.js';

/** Milliseconds for which a stream of logs looks for a daemon that went away. */
const patienceMs = 30_000;

const pathOf = (id: string) => `/api/process/${encodeURIComponent(id)}`;

/** Background processes of one sandbox. */
export class Processes {
  readonly #box: Box;
  readonly #commands: Commands;

  constructor(box: Box, commands: Commands) {
    this.#box = box;
    this.#commands = commands;
  }

  async start(command: string, sessionId: string, options: ProcessOptions = {}): Promise<Process> {
    const { processId, autoCleanup, service, keepAlive } = options;
    try {
      const body = {
        ...this.#commands.request(command, sessionId, options),
        processId,
        autoCleanup,
        service,
        keepAlive,
      };
      const answer = await this.#box.json<wire.ProcessStartResult>('POST', '/api/process/start', body);
      const { pid, timestamp } = answer;
      const started = {
        id: answer.processId,
        pid,
        command,
        status: 'running',
        startTime: timestamp,
        sessionId,
      } as const;
      const process = this.#object(started);
      options.onStart?.(process);
      if (options.onOutput || options.onExit) void this.#report(process.id, options);
      return process;
    } catch (error) {
      if (error instanceof Error) options.onError?.(error);
      throw error;
    }
  }

  /** Calls back for everything the process prints, and for its end. */
  async #report(id: string, options: ProcessOptions): Promise<void> {
    try {
      for await (const event of parseSSEStream<LogEvent>(this.logStream(id))) {
        if (event.type === 'exit') return options.onExit?.(event.exitCode ?? null);
        if (event.type !== 'error' && event.data) options.onOutput?.(event.type, event.data);
      }
    } catch (error) {
      if (error instanceof Error) options.onError?.(error);
    }
  }

  async list(sessionId?: string): Promise<Process[]> {
    const query = sessionId === undefined ? '' : `?sessionId=${encodeURIComponent(sessionId)}`;
    const answer = await this.#box.json<wire.ProcessListResult>('GET', `/api/process/list${query}`);
    return answer.processes.map((record) => this.#object(record));
  }

  async get(id: string): Promise<Process | null> {
    try {
      const answer = await this.#box.json<wire.ProcessInfoResult>('GET', pathOf(id));
      return this.#object(answer.process);
    } catch (error) {
      if (error instanceof ProcessNotFoundError) return null;
      throw error;
    }
  }

  async kill(id: string, signal?: string): Promise<void> {
    const query = signal === undefined ? '' : `?signal=${encodeURIComponent(signal)}`;
    await this.#box.json<wire.ProcessKillResult>('DELETE', pathOf(id) + query);
  }

  async killAll(): Promise<number> {
    return (await this.#box.json<wire.ProcessCleanupResult>('DELETE', '/api/process/kill-all')).cleanedCount;
  }

  async cleanup(): Promise<number> {
    return (await this.#box.json<wire.ProcessCleanupResult>('POST', '/api/process/cleanup')).cleanedCount;
  }

  async logs(id: string): Promise<{ stdout: string; stderr: string; processId: string }> {
    const { stdout, stderr, processId } = await this.#box.json<wire.ProcessLogsResult>('GET', `${pathOf(id)}/logs`);
    return { stdout, stderr, processId };
  }

  /** Streams the output from the start of the process to its end. Resumes after broken connections. */
  logStream(id: string, signal?: AbortSignal): ReadableStream<Uint8Array> {
    const life = this.#box.lives;
    return resumable({
      open: async (lastEventId, stop, again) => {
        const headers = lastEventId === undefined ? undefined : { 'last-event-id': lastEventId };
        const there = again ? this.#box.stillThere(life, 'process.logs') : Promise.resolve();
        const path = `${pathOf(id)}/stream`;
        return this.#box.background(
          there.then(() => this.#box.stream('GET', path, undefined, { headers, signal: stop })),
        );
      },
      isLast: (event) => event.type === 'exit',
      isOpening: (event) => event.type === 'process_info',
      patienceMs,
      signal,
    });
  }

  /** The same, and an unknown process is told at once instead of by the stream. */
  async openLogStream(id: string, signal?: AbortSignal): Promise<ReadableStream<Uint8Array>> {
    await this.#box.json('GET', pathOf(id), undefined, { signal });
    return this.logStream(id, signal);
  }

  #object(record: ProcessRecord): Process {
    const { id, pid, command, status, exitCode } = record;
    const about = { id, command };
    const follow = (signal: AbortSignal) => this.logStream(id, signal);
    return {
      id,
      pid,
      command,
      status,
      startTime: new Date(record.startTime),
      endTime: record.endTime ? new Date(record.endTime) : undefined,
      exitCode,
      sessionId: record.sessionId === noSession ? undefined : record.sessionId,
      kill: (signal) => this.kill(id, signal),
      getStatus: async () => (await this.get(id))?.status ?? 'error',
      getLogs: async () => {
        const { stdout, stderr } = await this.logs(id);
        return { stdout, stderr };
      },
      waitForLog: (pattern, timeout) => waitForLog(about, follow, pattern, timeout),
      waitForPort: (port, options) => waitForPort(about, this.#box, port, options),
      waitForExit: (timeout) => waitForExit(about, follow, timeout),
    };
  }
}
