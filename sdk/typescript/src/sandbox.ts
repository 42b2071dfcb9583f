import type { Box } from './api/box.js';
import { Commands, checkedNames, noSession } from './api/commands.js';
import { Files } from './api/files.js';
import { Git } from './api/git.js';
import { CodeInterpreter } from './api/interpreter.js';
import { Lifecycle } from './api/lifecycle.js';
import { NetworkOf } from './api/network.js';
import { Ports } from './api/ports.js';
import { Processes } from './api/processes.js';
import { StorageOf } from './api/snapshots.js';
import { TunnelsOf } from './api/tunnels.js';
import { Watches } from './api/watches.js';
import { SandboxSecurityError } from './errors/plain-errors.js';
import { controlPort, errorHeader, forward, portHeader } from './forward.js';
import { checkedPort, checkedSession, idOf } from './names.js';
import { type Core, Session } from './session.js';
import { connectTerminal, type Terminal } from './terminal.js';
import type * as c from './types/commands.js';
import type * as f from './types/files.js';
import type * as i from './types/interpreter.js';
import type { Network } from './types/network.js';
import type * as p from './types/processes.js';
import type * as t from './types/sandbox.js';
import type { SandboxStorage } from './types/snapshots.js';
import type * as s from './types/storage.js';

/** Where a call runs. `session` and `sessionId` are the same. */
interface InSession {
  sessionId?: string;
  session?: c.SessionRef;
}

const sessionOf = (options: InSession | undefined) => options?.session ?? options?.sessionId;

/** A named, isolated Linux box. It is made by the first call that needs it; get one with `getSandbox`. */
export class Sandbox extends Lifecycle implements t.ISandbox {
  readonly #core: Core;
  readonly #ports: Ports;
  readonly #defaultSession: string;
  #env: Record<string, string> = {};

  /** @internal */
  constructor(box: Box, options: t.SandboxOptions = {}) {
    super(box, options);
    const env = () => this.#env;
    const commands = new Commands(box, env);
    const processes = new Processes(box, commands);
    const interpreter = new CodeInterpreter(box, env);
    this.#core = {
      box,
      commands,
      processes,
      files: new Files(box),
      git: new Git(box),
      watches: new Watches(box),
      interpreter,
    };
    this.#ports = new Ports(box);
    this.#defaultSession = options.enableDefaultSession === false ? noSession : `sandbox-${box.id}`;
  }

  /** Where a call runs that names a session, or none. */
  #in(session?: c.SessionRef): Session {
    return new Session(this.#core, session === undefined ? this.#defaultSession : checkedSession(session));
  }

  /** Runs a command in the default session. A command that fails is a result; a command that cannot run throws. */
  async exec(command: string, options?: c.ExecOptions): Promise<c.ExecResult> {
    return this.#in(sessionOf(options)).exec(command, options);
  }
  /** Runs a command and streams its output; read it with `parseSSEStream`. Cancelling the stream ends the command. */
  async execStream(command: string, options?: c.StreamOptions): Promise<ReadableStream<Uint8Array>> {
    return this.#in(sessionOf(options)).execStream(command, options);
  }

  /** Starts a background process, which runs until it ends or is killed. */
  async startProcess(
    command: string,
    options?: p.ProcessOptions,
    session: c.SessionRef | undefined = sessionOf(options),
  ): Promise<p.Process> {
    return this.#in(session).startProcess(command, options);
  }
  /** The same as `startProcess`. */
  spawn(command: string, options?: p.ProcessOptions): Promise<p.Process> {
    return this.startProcess(command, options);
  }
  /** Whether a process is there and not over. */
  isProcessRunning(id: string): Promise<boolean> {
    return this.#in().isProcessRunning(id);
  }
  /** All background processes; with an id, those of that session. */
  async listProcesses(sessionId?: string): Promise<p.Process[]> {
    return this.#in().listProcesses(sessionId);
  }
  getProcess(id: string, _sessionId?: string): Promise<p.Process | null> {
    return this.#in().getProcess(id);
  }
  killProcess(id: string, signal?: string, _sessionId?: string): Promise<void> {
    return this.#in().killProcess(id, signal);
  }
  killAllProcesses(_sessionId?: string): Promise<number> {
    return this.#in().killAllProcesses();
  }
  cleanupCompletedProcesses(_sessionId?: string): Promise<number> {
    return this.#in().cleanupCompletedProcesses();
  }
  getProcessLogs(id: string, _sessionId?: string): Promise<{ stdout: string; stderr: string; processId: string }> {
    return this.#in().getProcessLogs(id);
  }
  /** Streams the output of a process from its start to its end. Resumes after a broken connection. */
  streamProcessLogs(processId: string, options?: { signal?: AbortSignal }): Promise<ReadableStream<Uint8Array>> {
    return this.#in().streamProcessLogs(processId, options);
  }

  /** Writes a file and the directories above it. A stream is written as bytes, of any size. */
  async writeFile(
    path: string,
    content: string | ReadableStream<Uint8Array>,
    options?: { encoding?: string } & InSession,
  ): Promise<f.WriteFileResult> {
    return this.#in(sessionOf(options)).writeFile(path, content, options);
  }
  readFile(path: string, options: { encoding: 'none' } & InSession): Promise<f.ReadFileStreamResult>;
  readFile(path: string, options?: { encoding?: Exclude<f.FileEncoding, 'none'> } & InSession): Promise<f.ReadFileText>;
  async readFile(path: string, options: any = {}): Promise<any> {
    return this.#in(sessionOf(options)).readFile(path, options);
  }
  /** A file as events; `streamFile` and `collectFile` decode them. */
  async readFileStream(path: string, options?: InSession): Promise<ReadableStream<Uint8Array>> {
    return this.#in(sessionOf(options)).readFileStream(path);
  }
  async mkdir(path: string, options?: { recursive?: boolean } & InSession): Promise<f.MkdirResult> {
    return this.#in(sessionOf(options)).mkdir(path, options);
  }
  async deleteFile(path: string, sessionId?: string): Promise<f.DeleteFileResult> {
    return this.#in(sessionId).deleteFile(path);
  }
  /** The names in a directory, hidden ones too. */
  async readdir(path: string, options?: InSession): Promise<string[]> {
    return this.#in(sessionOf(options)).readdir(path);
  }
  /** Removes a file; with `recursive` also a directory. */
  async rm(path: string, options?: f.RmOptions & InSession): Promise<void> {
    return this.#in(sessionOf(options)).rm(path, options);
  }
  async stat(path: string, options?: InSession): Promise<f.FileStat> {
    return this.#in(sessionOf(options)).stat(path);
  }
  async renameFile(oldPath: string, newPath: string, sessionId?: string): Promise<f.RenameFileResult> {
    return this.#in(sessionId).renameFile(oldPath, newPath);
  }
  async moveFile(sourcePath: string, destinationPath: string, sessionId?: string): Promise<f.MoveFileResult> {
    return this.#in(sessionId).moveFile(sourcePath, destinationPath);
  }
  async listFiles(path: string, options?: f.ListFilesOptions & InSession): Promise<f.ListFilesResult> {
    return this.#in(sessionOf(options)).listFiles(path, options);
  }
  async exists(path: string, sessionId?: string): Promise<f.FileExistsResult> {
    return this.#in(sessionId).exists(path);
  }
  /** Watches a directory below /workspace. Answers once the watch is in place. */
  async watch(path: string, options?: f.WatchOptions): Promise<ReadableStream<Uint8Array>> {
    return this.#in(sessionOf(options)).watch(path, options);
  }
  /** Whether anything changed since an earlier answer. */
  async checkChanges(path: string, options?: f.CheckChangesOptions): Promise<f.CheckChangesResult> {
    return this.#in(sessionOf(options)).checkChanges(path, options);
  }
  /** Clones a repository, into `targetDir` or a directory that is given before or instead of options. */
  async gitCheckout(
    repoUrl: string,
    options?: c.GitCheckoutOptions | string,
    more?: Omit<c.GitCheckoutOptions, 'targetDir'>,
  ): Promise<c.GitCheckoutResult> {
    const all: c.GitCheckoutOptions = { ...more, ...(typeof options === 'string' ? { targetDir: options } : options) };
    return this.#in(sessionOf(all)).gitCheckout(repoUrl, all);
  }

  /** Sets variables (or, with undefined, unsets them) for all that this object does from now on. */
  async setEnvVars(envVars: Record<string, string | undefined>): Promise<void> {
    checkedNames(envVars);
    const merged = Object.entries({ ...this.#env, ...envVars }).filter(([, value]) => value != null);
    if (this.#defaultSession !== noSession) await this.#in().setEnvVars(envVars);
    this.#env = Object.fromEntries(merged) as Record<string, string>;
  }
  async createSession(options: t.SessionOptions = {}): Promise<t.ExecutionSession> {
    const { cwd, commandTimeoutMs } = options;
    const id = options.id || `session-${Date.now()}`;
    if (id === noSession) throw new Error(`Session ID '${noSession}' is reserved for internal use`);
    const env = Object.fromEntries(
      Object.entries({ ...this.#env, ...options.env }).filter(([, value]) => value != null),
    );
    await this.#core.box.json('POST', '/api/session/create', { id, env, cwd, commandTimeoutMs });
    return this.#in(id);
  }
  /** A session by its id. Sends no request: its first command creates the session if it does not exist. */
  async getSession(session: c.SessionRef): Promise<t.ExecutionSession> {
    return this.#in(session);
  }
  async deleteSession(session: c.SessionRef): Promise<t.SessionDeleteResult> {
    const sessionId = idOf('session', session);
    if (sessionId === this.#defaultSession)
      throw new Error(`Cannot delete default session '${sessionId}'. Use sandbox.destroy() to terminate the sandbox.`);
    return this.#core.box.json('POST', '/api/session/delete', { sessionId });
  }

  createCodeContext(options?: i.CreateContextOptions): Promise<i.CodeContext> {
    return this.#in().createCodeContext(options);
  }
  /** Runs code in a context that keeps its state. Code that fails is a result with `error`. */
  runCode(code: string, options?: i.RunCodeInput): Promise<i.CodeResult> {
    return this.#in().runCode(code, options);
  }
  runCodeStream(code: string, options?: i.RunCodeInput): Promise<ReadableStream<Uint8Array>> {
    return this.#in().runCodeStream(code, options);
  }
  listCodeContexts(): Promise<i.CodeContext[]> {
    return this.#in().listCodeContexts();
  }
  deleteCodeContext(context: i.ContextRef): Promise<void> {
    return this.#in().deleteCodeContext(context);
  }

  /** Makes a port reachable under a URL of its own, below `hostname`, or below the daemon's preview domain without one. */
  exposePort(
    port: number,
    options?: { name?: string; hostname?: string; token?: string },
  ): Promise<{ url: string; port: number; name: string | undefined }> {
    return this.#ports.expose(port, options);
  }
  /** Removes a preview URL. Succeeds if the port is not exposed. */
  unexposePort(port: number): Promise<void> {
    return this.#ports.unexpose(port);
  }
  getExposedPorts(hostname?: string): Promise<t.ExposedPort[]> {
    return this.#ports.list(hostname);
  }
  isPortExposed(port: number): Promise<boolean> {
    return this.#ports.isExposed(port);
  }
  validatePortToken(port: number, token: string): Promise<boolean> {
    return this.#ports.validateToken(port, token);
  }

  /** A request to a server in the sandbox; the port is upstream's header `cf-container-target-port`, else the sandbox's API. */
  fetch(request: Request): Promise<Response> {
    return forward(this.#core.box, request, Number(request.headers.get(portHeader) ?? controlPort));
  }
  /** The same, with the port as an argument. */
  async containerFetch(
    target: Request | string | URL,
    portOrInit?: number | RequestInit,
    port?: number,
  ): Promise<Response> {
    const init = typeof portOrInit === 'object' ? portOrInit : undefined;
    const wanted = port ?? (typeof portOrInit === 'number' ? portOrInit : controlPort);
    const request = target instanceof Request ? target : new Request(new URL(target, 'http://localhost'), init);
    const response = await forward(this.#core.box, request, wanted);
    if (response.headers.get(errorHeader) !== 'SERVICE_NOT_RESPONDING') return response;
    // Upstream's words, which code compares.
    await response.body?.cancel();
    return new Response(`The container is not listening in the TCP address 127.0.0.1:${wanted}`, { status: 500 });
  }
  /** A WebSocket to a server in the sandbox, for a request that asks for one. */
  async wsConnect(request: Request, port: number): Promise<Response> {
    // Upstream's Worker reserves it.
    if (port === controlPort)
      throw new SandboxSecurityError(
        `Invalid port number: ${port}. Must be 1024-65535, excluding 3000 (sandbox control plane).`,
        'INVALID_PORT_NUMBER',
      );
    return forward(this.#core.box, request, checkedPort(port));
  }
  /** A WebSocket to the terminal of the default session, for a request that asks for one. */
  terminal(request: Request, options?: c.PtyOptions): Promise<Response> {
    return new Session(this.#core, `sandbox-${this.#core.box.id}`).terminal(request, options);
  }
  /** A terminal for this program itself. */
  async connectTerminal(options?: c.PtyOptions & InSession & { signal?: AbortSignal }): Promise<Terminal> {
    return connectTerminal(
      this.#core.box,
      idOf('session', sessionOf(options) ?? `sandbox-${this.#core.box.id}`),
      options,
    );
  }

  mountBucket(bucket: string, mountPath: string, options: s.MountBucketOptions): Promise<void> {
    return this.#in().mountBucket(bucket, mountPath, options);
  }
  unmountBucket(mountPath: string): Promise<void> {
    return this.#in().unmountBucket(mountPath);
  }
  createBackup(options: s.BackupOptions): Promise<s.DirectoryBackup> {
    return this.#in().createBackup(options);
  }
  restoreBackup(backup: s.DirectoryBackup): Promise<s.RestoreBackupResult> {
    return this.#in().restoreBackup(backup);
  }
  /** Snapshots, restore, forks: the files of this sandbox at moments. */
  get storage(): SandboxStorage {
    return new StorageOf(this.#core.box);
  }
  /** What the sandbox may reach, its log, and connections that wait for an approval. */
  get network(): Network {
    return new NetworkOf(this.#core.box);
  }
  /** Host names of their own for ports, below the daemon's preview domain and without a token. They end with the box. */
  get tunnels(): s.TunnelsHandler {
    return new TunnelsOf(this.#core.box);
  }
}
