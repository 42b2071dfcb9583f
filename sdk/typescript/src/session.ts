import type { Box } from './api/box.js';
import { Buckets } from './api/buckets.js';
import type { Commands } from './api/commands.js';
import { DirectoryBackups } from './api/directory-backups.js';
import type { Files } from './api/files.js';
import type { Git } from './api/git.js';
import type { CodeInterpreter } from './api/interpreter.js';
import type { Processes } from './api/processes.js';
import type { Watches } from './api/watches.js';
import { openTerminal } from './terminal.js';
import type * as c from './types/commands.js';
import type * as f from './types/files.js';
import type * as i from './types/interpreter.js';
import type * as p from './types/processes.js';
import type { ExecutionSession } from './types/sandbox.js';
import type * as s from './types/storage.js';

/** Everything that can be done in a sandbox, whoever does it. */
export interface Core {
  box: Box;
  commands: Commands;
  processes: Processes;
  files: Files;
  git: Git;
  watches: Watches;
  interpreter: CodeInterpreter;
}

/** A session of a sandbox: its calls run in, or relative to, one shell that stays. */
export class Session implements ExecutionSession {
  readonly id: string;
  readonly #core: Core;

  constructor(core: Core, id: string) {
    this.#core = core;
    this.id = id;
  }

  /** A session in JSON is its id, which does wherever a session is asked for. */
  toJSON(): string {
    return this.id;
  }
  toString(): string {
    return this.id;
  }

  exec(command: string, options?: c.ExecOptions): Promise<c.ExecResult> {
    return this.#core.commands.exec(command, this.id, options);
  }
  execStream(command: string, options?: c.StreamOptions): Promise<ReadableStream<Uint8Array>> {
    return this.#core.commands.stream(command, this.id, options);
  }
  setEnvVars(envVars: Record<string, string | undefined>): Promise<void> {
    return this.#core.commands.setEnv(this.id, envVars);
  }

  startProcess(command: string, options?: p.ProcessOptions): Promise<p.Process> {
    return this.#core.processes.start(command, this.id, options);
  }
  /** The same as `startProcess`. */
  spawn(command: string, options?: p.ProcessOptions): Promise<p.Process> {
    return this.startProcess(command, options);
  }
  /** Whether a process is there and not over. */
  async isProcessRunning(id: string): Promise<boolean> {
    const status = (await this.#core.processes.get(id))?.status;
    return status === 'running' || status === 'starting';
  }
  /** Those of the whole sandbox; with an id, those of that session. */
  listProcesses(sessionId?: string): Promise<p.Process[]> {
    return this.#core.processes.list(sessionId);
  }
  getProcess(id: string, _sessionId?: string): Promise<p.Process | null> {
    return this.#core.processes.get(id);
  }
  killProcess(id: string, signal?: string): Promise<void> {
    return this.#core.processes.kill(id, signal);
  }
  killAllProcesses(): Promise<number> {
    return this.#core.processes.killAll();
  }
  /** Forgets processes that are over, with their logs; answers how many. */
  cleanupCompletedProcesses(): Promise<number> {
    return this.#core.processes.cleanup();
  }
  getProcessLogs(id: string): Promise<{ stdout: string; stderr: string; processId: string }> {
    return this.#core.processes.logs(id);
  }
  streamProcessLogs(processId: string, options?: { signal?: AbortSignal }): Promise<ReadableStream<Uint8Array>> {
    return this.#core.processes.openLogStream(processId, options?.signal);
  }

  writeFile(
    path: string,
    content: string | ReadableStream<Uint8Array>,
    options?: { encoding?: string },
  ): Promise<f.WriteFileResult> {
    return this.#core.files.write(path, content, this.id, options?.encoding);
  }
  readFile(path: string, options: { encoding: 'none' }): Promise<f.ReadFileStreamResult>;
  readFile(path: string, options?: { encoding?: Exclude<f.FileEncoding, 'none'> }): Promise<f.ReadFileText>;
  readFile(path: string, options?: { encoding?: f.FileEncoding }): Promise<f.ReadFileText | f.ReadFileStreamResult> {
    if (options?.encoding === 'none') return this.#core.files.readRaw(path, this.id);
    return this.#core.files.read(path, this.id, options?.encoding);
  }
  readFileStream(path: string): Promise<ReadableStream<Uint8Array>> {
    return this.#core.files.readStream(path, this.id);
  }
  mkdir(path: string, options?: { recursive?: boolean }): Promise<f.MkdirResult> {
    return this.#core.files.mkdir(path, this.id, options?.recursive);
  }
  deleteFile(path: string): Promise<f.DeleteFileResult> {
    return this.#core.files.remove(path, this.id);
  }
  /** The names in a directory, hidden ones too. */
  async readdir(path: string): Promise<string[]> {
    const { files } = await this.#core.files.list(path, this.id, { includeHidden: true });
    return files.map((file) => file.name).sort();
  }
  rm(path: string, options?: f.RmOptions): Promise<void> {
    return this.#core.files.removeTree(path, this.id, options);
  }
  stat(path: string): Promise<f.FileStat> {
    return this.#core.files.stat(path, this.id);
  }
  renameFile(oldPath: string, newPath: string): Promise<f.RenameFileResult> {
    return this.#core.files.rename(oldPath, newPath, this.id);
  }
  moveFile(sourcePath: string, destinationPath: string): Promise<f.MoveFileResult> {
    return this.#core.files.move(sourcePath, destinationPath, this.id);
  }
  listFiles(path: string, options?: f.ListFilesOptions): Promise<f.ListFilesResult> {
    return this.#core.files.list(path, this.id, options);
  }
  exists(path: string): Promise<f.FileExistsResult> {
    return this.#core.files.exists(path, this.id);
  }
  watch(path: string, options?: f.WatchOptions): Promise<ReadableStream<Uint8Array>> {
    return this.#core.watches.watch(path, this.id, options);
  }
  checkChanges(path: string, options?: f.CheckChangesOptions): Promise<f.CheckChangesResult> {
    return this.#core.watches.check(path, this.id, options);
  }

  gitCheckout(
    repoUrl: string,
    options?: c.GitCheckoutOptions | string,
    more?: Omit<c.GitCheckoutOptions, 'targetDir'>,
  ): Promise<c.GitCheckoutResult> {
    const named = typeof options === 'string' ? { targetDir: options } : options;
    return this.#core.git.checkout(repoUrl, this.id, { ...more, ...named });
  }

  createCodeContext(options?: i.CreateContextOptions): Promise<i.CodeContext> {
    return this.#core.interpreter.createCodeContext(options);
  }
  async runCode(code: string, options?: i.RunCodeInput): Promise<i.CodeResult> {
    return (await this.#core.interpreter.runCode(code, options)).result();
  }
  runCodeStream(code: string, options?: i.RunCodeInput): Promise<ReadableStream<Uint8Array>> {
    return this.#core.interpreter.runCodeStream(code, options);
  }
  listCodeContexts(): Promise<i.CodeContext[]> {
    return this.#core.interpreter.listCodeContexts();
  }
  deleteCodeContext(context: i.ContextRef): Promise<void> {
    return this.#core.interpreter.deleteCodeContext(context);
  }

  /** A WebSocket to a terminal of this session, for a request that asks for one. */
  terminal(request: Request, options?: c.PtyOptions): Promise<Response> {
    return openTerminal(this.#core.box, this.id, request, options);
  }

  /**
   * s3fs in the sandbox. With `secret` or `credentialProxy` requests are signed on the way out and no key is in the sandbox; with `credentials` alone
   * the keys lie in a file of the sandbox while the bucket is mounted, as upstream.
   */
  mountBucket(bucket: string, mountPath: string, options: s.MountBucketOptions): Promise<void> {
    return new Buckets(this.#core.box).mount(bucket, mountPath, options);
  }
  unmountBucket(mountPath: string): Promise<void> {
    return new Buckets(this.#core.box).unmount(mountPath);
  }
  /** Keeps a copy of one directory where the daemon keeps backups. It outlives the sandbox. */
  createBackup(options: s.BackupOptions): Promise<s.DirectoryBackup> {
    return new DirectoryBackups(this.#core.box).create(options, this.id);
  }
  /** Puts the files of a backup into `backup.dir`, of this sandbox or another one. What was there before is gone. */
  restoreBackup(backup: s.DirectoryBackup): Promise<s.RestoreBackupResult> {
    return new DirectoryBackups(this.#core.box).restore(backup);
  }
}
