/**
 * A `ctx.container` that is a box of Atoll.
 *
 * `running` has to be known at once, when a Durable Object is constructed, and the daemon can only be asked with a
 * promise. So the object's own storage remembers that a box was started and which life of it (a box can end and be
 * started again by somebody else); requests to the object wait until the daemon has confirmed it.
 *
 * How the end of a box is noticed: one idle WebSocket to its agent is held for as long as it runs. When that breaks, the
 * daemon is asked: the box runs on (the daemon was restarted), or the box has ended and `monitor()` settles. The socket is
 * opened a moment after the start, so that a first `exec` does not wait behind it. It is for this life of the box only: a
 * box that has ended meanwhile is not started for it.
 */

import { meansHost, serveHook } from '../outbound.js';
import type { BoxSettings, Daemon } from './daemon.js';
import { withLength } from './length.js';
import { tcpPort } from './port.js';
import type { DurableObjectContainer, Fetcher, ObjectState, StartOptions, TcpPort, WorkerSocket } from './runtime.js';

const KEY = 'atoll:box';
const RETRY_MS = [100, 250, 500, 1000, 2000, 5000];

/** When a new run's socket is opened. */
const HOLD_AFTER_MS = 250;

/** How long a box that was told to stop is only looked at: any request would start it again. */
const STOPPING_MS = 15_000;

type Ours = 'env' | 'labels' | 'network' | 'outbound';

interface Remembered {
  id: string;
  /** When it was started: another time is another life of the box. null: it does not run. */
  life: string | null;
  /** Which settings of the box are ours; others may be somebody else's, and stay. */
  ours: Ours[];
}

/** One run of the box, from `start()` to its end. */
class Run {
  life: string | null = null;
  socket: WorkerSocket | null = null;
  hook: WorkerSocket | null = null;
  /** The hook is held, or tried to be. */
  answers = false;
  over = false;
  stoppingUntil = 0;
  /** Settles when the box can be asked. */
  ready: Promise<void> = Promise.resolve();
  readonly ended: Promise<void>;
  readonly end: (error?: unknown) => void;

  constructor() {
    let settle: (error?: unknown) => void = () => {};
    this.ended = new Promise((resolve, reject) => {
      settle = (error) => (error === undefined ? resolve() : reject(error));
    });
    this.ended.catch(() => {}); // the promise may have no observer
    this.end = settle;
  }
}

export class AtollContainer implements DurableObjectContainer {
  #run: Run | null = null;
  #daemon: Daemon | null = null;
  #ours = new Set<Ours>();
  /** Who answers for which host: 'http:example.com', 'https:*'. */
  readonly #hooks = new Map<string, Fetcher>();

  /**
   * @param ctx the Durable Object's state
   * @param open the box with an id
   * @param chooseId the id of the object's box, asked for once and then remembered
   */
  constructor(
    private readonly ctx: ObjectState,
    private readonly open: (id: string) => Daemon,
    private readonly chooseId: () => string,
  ) {
    const remembered = ctx.storage.kv.get(KEY) as Remembered | undefined;
    if (!remembered) return;
    this.#daemon = open(remembered.id);
    this.#ours = new Set(remembered.ours);
    if (remembered.life === null) return;
    const run = new Run();
    run.life = remembered.life;
    this.#run = run;
    run.ready = this.#resume(run);
  }

  get running(): boolean {
    return this.#run !== null;
  }

  start(options: StartOptions = {}): void {
    if (this.#run) throw new Error('start() cannot be called on a container that is already running.');
    const run = new Run();
    this.#run = run;
    run.ready = this.#begin(run, options);
    run.ready.catch(() => {});
  }

  async monitor(): Promise<void> {
    if (!this.#run) throw new Error('monitor() cannot be called on a container that is not running.');
    return this.#run.ended;
  }

  async destroy(reason?: unknown): Promise<void> {
    const run = this.#run;
    await run?.ready.catch(() => {});
    await this.#box().destroy();
    this.ctx.storage.kv.delete(KEY);
    this.#daemon = null;
    this.#ours.clear();
    if (run) this.#over(run, reason);
  }

  /**
   * The signal goes to the box's init, as with a container: SIGTERM ends the box, and so does SIGKILL (which an init
   * would not notice), others go to its programs. The box's files stay.
   */
  signal(signal: number): void {
    const run = this.#run;
    if (!run) throw new Error('signal() cannot be called on a container that is not running.');
    if (!Number.isInteger(signal) || signal < 1 || signal > 64)
      throw new RangeError(`Invalid signal number: ${signal}`);
    run.ready
      .then(() => this.#send(run, signal === 9 ? 15 : signal))
      .catch((error) => {
        // The box may have ended before it could answer, which is the aim of this call.
        if (!run.over) console.warn(`atoll-sandbox: signal ${signal} to ${this.#box().id}: ${error}`);
      });
  }

  getTcpPort(port: number): TcpPort {
    if (!Number.isInteger(port) || port < 1 || port > 65535) throw new TypeError(`Invalid port number: ${port}`);
    return tcpPort(
      () => this.#box(),
      port,
      async () => {
        if (!this.#run) throw new Error(`The container is not running, consider calling start(); port ${port}`);
        await this.#run.ready;
      },
    );
  }

  /** The Durable Object's own alarm decides when the box stops: nothing to do. */
  async setInactivityTimeout(): Promise<void> {}

  /** A later call for the same host takes the place of the earlier one. */
  interceptOutboundHttp(host: string, worker: Fetcher): Promise<void> {
    return this.#intercept(`http:${host}`, worker);
  }
  interceptOutboundHttps(host: string, worker: Fetcher): Promise<void> {
    return this.#intercept(`https:${host}`, worker);
  }
  interceptAllOutboundHttp(worker: Fetcher): Promise<void> {
    return this.#intercept('http:*', worker);
  }

  /** The box is told of new hosts only; who answers is known here. */
  async #intercept(key: string, worker: Fetcher): Promise<void> {
    const known = this.#hooks.has(key);
    const kept = this.#ours.has('outbound');
    this.#hooks.set(key, worker);
    this.#ours.add('outbound');
    const run = this.#run;
    if (!run) return;
    await run.ready;
    // An object that is evicted has to know later that the setting is its own.
    if (!kept && !run.over) this.#remember(run.life);
    if (!known) await this.#box().update({ outbound: this.#hosts() });
    this.#answer(run);
  }

  #hosts(): { http: string[]; https: string[] } {
    const of = (scheme: string) =>
      [...this.#hooks.keys()].filter((key) => key.startsWith(`${scheme}:`)).map((key) => key.slice(scheme.length + 1));
    return { http: of('http'), https: of('https') };
  }

  /** The most exact pattern counts: a host before a pattern, a pattern before all. */
  #fetcherFor(request: Request): Fetcher | undefined {
    const url = new URL(request.url);
    const keys = [...this.#hooks.keys()].filter((key) => key.startsWith(url.protocol));
    const found = keys
      .filter((key) => meansHost(key.slice(url.protocol.length), url))
      .sort((a, b) => Number(a.includes('*')) - Number(b.includes('*')) || b.length - a.length);
    return found[0] ? this.#hooks.get(found[0]) : undefined;
  }

  /** Holds the box's hook while the run lasts, again after a restart of the daemon. Never rejects. */
  async #answer(run: Run): Promise<void> {
    if (run.answers || !this.#hooks.size) return;
    run.answers = true;
    for (let failures = 0; !run.over; failures++) {
      const socket = await this.#box()
        .connect('/hook')
        .catch(() => null);
      if (socket) {
        failures = 0;
        await this.#serve(run, socket);
      }
      if (!run.over) await new Promise((done) => setTimeout(done, RETRY_MS[Math.min(failures, RETRY_MS.length - 1)]));
    }
  }

  async #serve(run: Run, socket: WorkerSocket): Promise<void> {
    const closed = new Promise<void>((done) => {
      socket.addEventListener('close', done);
      socket.addEventListener('error', done);
    });
    serveHook(socket, async (request) => {
      const fetcher = this.#fetcherFor(request);
      return fetcher ? fetcher.fetch(withLength(request)) : new Response('Origin is disallowed', { status: 520 });
    });
    socket.accept();
    run.hook = socket;
    if (run.over) socket.close(1000);
    await closed;
    run.hook = null;
  }

  #box(): Daemon {
    this.#daemon ??= this.open(this.chooseId());
    return this.#daemon;
  }

  #remember(life: string | null): void {
    this.ctx.storage.kv.put(KEY, { id: this.#box().id, life, ours: [...this.#ours] } satisfies Remembered);
  }

  async #begin(run: Run, options: StartOptions): Promise<void> {
    try {
      const box = this.#box();
      run.life = await box.start(this.#settings(options));
      if (run.over) return;
      this.#remember(run.life);
      this.#answer(run);
      if (options.entrypoint?.length) await this.#enter(box, options.entrypoint);
    } catch (error) {
      this.#over(run, error);
      throw error;
    }
    setTimeout(() => this.#hold(run), HOLD_AFTER_MS);
  }

  /** Unsets the variables of an earlier start that this start does not have. */
  #settings(options: StartOptions): BoxSettings {
    const settings: BoxSettings = {};
    // Without internet only intercepted requests leave the box.
    if (options.enableInternet === false) this.#ours.add('network');
    if (this.#ours.has('network'))
      settings.network = options.enableInternet === false ? { mode: 'list', defaults: false } : {};
    if (this.#ours.has('outbound')) settings.outbound = this.#hosts();
    for (const name of ['env', 'labels'] as const) {
      if (options[name]) this.#ours.add(name);
      if (this.#ours.has(name)) settings[name] = options[name] ?? {};
    }
    return settings;
  }

  async #send(run: Run, signal: number): Promise<void> {
    const ends = signal === 2 || signal === 3 || signal === 15;
    if (ends) run.stoppingUntil = Date.now() + STOPPING_MS;
    try {
      await this.#box().run(`kill -${signal} 1`);
    } finally {
      if (ends) run.socket?.close(1000); // the agent waits for its clients to leave
    }
  }

  /** A box always runs its agent; an entrypoint is one more process beside it. */
  async #enter(box: Daemon, entrypoint: string[]): Promise<void> {
    const command = entrypoint.map((word) => `'${word.replaceAll("'", `'\\''`)}'`).join(' ');
    const response = await box.ask('POST', '/api/process/start', { command, processId: 'entrypoint' });
    if (!response.ok) throw new Error(`The entrypoint could not be started: ${await response.text()}`);
    await response.body?.cancel();
  }

  /**
   * After the object was constructed anew: is it still the box that was started? Nothing else happens in the object until
   * that is known. Never rejects: the object would be reset.
   */
  async #resume(run: Run): Promise<void> {
    const lives = await this.ctx.blockConcurrencyWhile(async () => {
      try {
        return await this.#lives(run);
      } catch (error) {
        this.#over(run, error);
        return false;
      }
    });
    if (!lives) return;
    this.#hold(run);
    this.#answer(run);
  }

  /** Whether the run continues; otherwise reports its end. */
  async #lives(run: Run): Promise<boolean> {
    const sandbox = await this.#box().inspect();
    if (sandbox?.startedAt && (sandbox.startedAt === run.life || Date.now() < run.stoppingUntil)) return true;
    this.#over(run, exitError(sandbox?.reason));
    return false;
  }

  /** Notices the end of a run. Never rejects. */
  async #hold(run: Run): Promise<void> {
    for (let failures = 0; !run.over; failures++) {
      if (Date.now() < run.stoppingUntil) failures = 0;
      else if (await this.#untilBroken(run)) failures = 0;
      if (run.over) return;
      await new Promise((done) => setTimeout(done, RETRY_MS[Math.min(failures, RETRY_MS.length - 1)]));
      try {
        if (!run.over) await this.#lives(run);
      } catch {
        // The daemon is away, and boxes live on without it: ask again.
      }
    }
  }

  /** Holds a socket to the agent of this run's box; false when there was none to hold. */
  async #untilBroken(run: Run): Promise<boolean> {
    const socket = await this.#box()
      .connect('/ws', run.life)
      .catch(() => null);
    if (!socket) return false;
    socket.accept();
    run.socket = socket;
    if (run.over) socket.close(1000);
    await new Promise<void>((done) => {
      socket.addEventListener('close', done);
      socket.addEventListener('error', done);
    });
    run.socket = null;
    return true;
  }

  #over(run: Run, error?: unknown): void {
    if (run.over) return;
    run.over = true;
    if (this.#run === run) {
      this.#run = null;
      if (this.#daemon) this.#remember(null);
    }
    run.socket?.close(1000);
    run.hook?.close(1000);
    run.end(error);
  }
}

/** An end that was not orderly, in the words that the `Container` class reads the exit code from. */
function exitError(reason = ''): Error | undefined {
  const killed = /killed by signal (\d+)/.exec(reason);
  const exited = /exited with code (\d+)/.exec(reason);
  const code = killed ? 128 + Number(killed[1]) : Number(exited?.[1] ?? 0);
  return code ? new Error(`Container exited with unexpected exit code: ${code}`) : undefined;
}
