/** The daemon's side of one box: its address, its life, and how failures are told to the `Container` class. */

import type { StartOptions, WorkerResponse, WorkerSocket } from './runtime.js';

/** Where Atoll is. */
export interface Address {
  /** Without a slash at the end. */
  url: string;
  /** None on a daemon that asks for none, such as one behind a proxy of your own. */
  token?: string;
}

/** Settings of a box that a Worker's class decides. */
export type BoxSettings = Pick<StartOptions, 'env' | 'labels'> & {
  network?: { mode?: 'list'; defaults?: false };
  outbound?: { http: string[]; https: string[] };
};

/** A sandbox as `GET /v1/sandboxes/{id}` shows it. */
interface Sandbox {
  state: 'creating' | 'running' | 'asleep' | 'stopped';
  reason?: string;
  /** While it runs or sleeps. */
  startedAt?: string;
}

// `@cloudflare/sandbox` decides by these texts whether it asks again, and for how long. They are the platform's own.
const TRY_AGAIN = 'there is no container instance that can be provided to this durable object';
const TOO_MANY = 'maximum number of running container instances exceeded';
const NEVER = 'no container application assigned';
const NO_IMAGE = 'no such image';

// A Durable Object that waits longer than 30 seconds in its constructor is reset.
const LOOK_SECONDS = 10;
const CHANGE_SECONDS = 60;

export class Daemon {
  constructor(
    private readonly address: Address,
    readonly id: string,
  ) {}

  /** The box's URL, with a path below it. */
  url(path = ''): string {
    return `${this.address.url}/v1/sandboxes/${encodeURIComponent(this.id)}${path}`;
  }

  /** For a request that is passed on to an app: `Authorization` and `X-Forwarded-*` are the app's, and so is its host. */
  relay(headers: Headers, host: string): Headers {
    headers.delete('X-Atoll-Token'); // whoever asks the Worker has no say in this
    if (this.address.token) headers.set('X-Atoll-Token', this.address.token);
    headers.set('X-Atoll-Host', host);
    return headers;
  }

  /** One request about the box, answered in time or not at all; a body is sent as JSON. */
  async ask(method: string, path = '', body?: unknown): Promise<Response> {
    const seconds = method === 'GET' || method === 'POST' ? LOOK_SECONDS : CHANGE_SECONDS;
    const init: RequestInit = { method, headers: this.#headers(), signal: AbortSignal.timeout(seconds * 1000) };
    if (body !== undefined) init.body = JSON.stringify(body);
    try {
      return await fetch(this.url(path), init);
    } catch (cause) {
      throw new Error(`Atoll cannot be reached at ${this.address.url}: ${TRY_AGAIN}`, { cause });
    }
  }

  /** A WebSocket of the box's agent, or null. With a life, of that life of the box only: no box is started for it. */
  async connect(path: string, life?: string | null): Promise<WorkerSocket | null> {
    const headers = this.#headers();
    headers.set('Upgrade', 'websocket');
    if (life) headers.set('X-Atoll-If-Started', life);
    const response = (await fetch(this.url(path), { headers })) as WorkerResponse;
    if (!response.webSocket) await response.body?.cancel();
    return response.webSocket ?? null;
  }

  #headers(): Headers {
    const headers = new Headers();
    if (this.address.token) headers.set('Authorization', `Bearer ${this.address.token}`);
    return headers;
  }

  /** Creates the box, or updates an existing one, which may be stopped. */
  async update(settings: BoxSettings): Promise<Sandbox> {
    return this.#sandbox(await this.ask('PUT', '', settings));
  }

  /** Creates or updates the box, and starts it; resolves to when it was started. */
  async start(settings: BoxSettings): Promise<string> {
    const made = await this.update(settings);
    const { startedAt } = made.startedAt ? made : await this.#sandbox(await this.ask('POST', '/wake'));
    if (!startedAt) throw new Error(`${TRY_AGAIN} (box '${this.id}' was stopped while it was started)`);
    return startedAt;
  }

  async #sandbox(response: Response): Promise<Sandbox> {
    if (!response.ok) throw await refusal(response);
    return (await response.json()) as Sandbox;
  }

  /** How the box is, or null when there is none. */
  async inspect(): Promise<Sandbox | null> {
    const response = await this.ask('GET');
    if (response.ok) return (await response.json()) as Sandbox;
    if (response.status !== 404) throw await refusal(response);
    await response.body?.cancel();
    return null;
  }

  /**
   * Destroys the box with its processes and files; succeeds if it does not exist. Its errors have none of the texts above,
   * nor a cause that has: `Sandbox.destroy()` takes those for "there is nothing to destroy".
   */
  async destroy(): Promise<void> {
    const response = await this.ask('DELETE').catch(() => {
      throw new Error(`Box '${this.id}' may still be there: Atoll cannot be reached at ${this.address.url}`);
    });
    if (!response.ok && response.status !== 404)
      throw new Error(`Box '${this.id}' is still there: ${(await told(response)).text}`);
    await response.body?.cancel();
  }

  /** Runs a command in the box outside of any session and returns its output; a box that is not running is started. */
  async run(command: string): Promise<string> {
    const response = await this.ask('POST', '/api/execute', { command, sessionId: '__DISABLE_SESSION__' });
    if (!response.ok) throw await refusal(response);
    const { exitCode, stdout, stderr } = (await response.json()) as {
      exitCode: number;
      stdout: string;
      stderr: string;
    };
    if (exitCode !== 0) throw new Error(`'${command}' in box '${this.id}' failed: ${stderr.trim()}`);
    return stdout.trim();
  }
}

/** The daemon's message. */
async function told(response: Response): Promise<{ code: string; text: string }> {
  const text = await response.text();
  try {
    const { code = '', message = '' } = JSON.parse(text) as { code?: string; message?: string };
    return { code, text: `Atoll answered ${response.status} ${code}: ${message}` };
  } catch {
    // Not the daemon's: a proxy's page, say.
    return { code: '', text: `Atoll answered ${response.status} ${text.slice(0, 300)}` };
  }
}

/** The same as an error that the `Container` class understands. */
async function refusal(response: Response): Promise<Error> {
  const { code, text } = await told(response);
  return new Error(`${meaning(response.status, code)} (${text})`);
}

function meaning(status: number, code: string): string {
  if (code === 'IMAGE_NOT_FOUND') return NO_IMAGE;
  if (code === 'LIMIT_REACHED') return TOO_MANY;
  if (status === 503 || status === 409 || status === 429) return TRY_AGAIN;
  return NEVER;
}
