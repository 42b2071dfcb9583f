/** The public API, as the console uses it: everything here can be done with curl and the token. */

export class ApiError extends Error {
  constructor(readonly status: number, readonly code: string, message: string, readonly suggestion = '') {
    super(message);
  }
}

const headers = { 'X-Atoll-Console': '1' };
let onSignedOut = () => {};
export const whenSignedOut = (f: () => void) => { onSignedOut = f; };

async function failure(reply: Response): Promise<ApiError> {
  const text = await reply.text();
  try {
    const body = JSON.parse(text);
    return new ApiError(reply.status, body.code, body.message, body.suggestion);
  } catch {
    return new ApiError(reply.status, 'UNKNOWN', text.slice(0, 300) || `the daemon answered ${reply.status}`);
  }
}

export async function request(method: string, path: string, body?: BodyInit | object, signal?: AbortSignal, more: Record<string, string> = {}): Promise<Response> {
  const raw = body === undefined || typeof body === 'string' || body instanceof Blob || body instanceof ArrayBuffer;
  const reply = await fetch(path, {
    method, signal: signal ?? null, credentials: 'same-origin',
    headers: { ...headers, ...(!raw && { 'Content-Type': 'application/json' }), ...more },
    body: raw ? (body as BodyInit | undefined) ?? null : JSON.stringify(body),
  });
  if (reply.ok) return reply;
  if (reply.status === 401 && !path.startsWith('/v1/console/')) onSignedOut();
  throw await failure(reply);
}

export async function json<T = any>(method: string, path: string, body?: object, signal?: AbortSignal): Promise<T> {
  const reply = await request(method, path, body, signal);
  const text = await reply.text();
  return (text ? JSON.parse(text) : {}) as T;
}

export const boxPath = (id: string, rest = '') => `/v1/sandboxes/${encodeURIComponent(id)}${rest}`;

/** Server-sent events of a request, one by one, until it ends or the signal says so. */
export async function* events(method: string, path: string, body?: object | Blob, signal?: AbortSignal): AsyncGenerator<any> {
  const reply = await request(method, path, body, signal);
  const reader = reply.body!.pipeThrough(new TextDecoderStream()).getReader();
  let rest = '', data: string[] = [];
  try {
    for (;;) {
      const { value, done } = await reader.read();
      if (done) return;
      const lines = (rest + value).split('\n');
      rest = lines.pop()!;
      for (const line of lines) {
        if (line.startsWith('data: ')) data.push(line.slice(6));
        else if (line === '' && data.length) {
          yield JSON.parse(data.join('\n'));
          data = [];
        }
      }
    }
  } finally {
    reader.cancel().catch(() => {});
  }
}

export const socketUrl = (path: string) => `${location.protocol === 'https:' ? 'wss' : 'ws'}://${location.host}${path}`;

/** Saves a file of a box on this machine, or a directory as a tar, through a one-time ticket. */
export async function download(id: string, path: string, directory = false): Promise<void> {
  const { ticket } = await json('POST', '/v1/tickets', { sandbox: id, for: 'download', path });
  const link = document.createElement('a');
  link.href = boxPath(id, `/api/file?path=${encodeURIComponent(path)}${directory ? '&archive=tar' : ''}&ticket=${ticket}`);
  link.download = `${path.split('/').pop()}${directory ? '.tar' : ''}`;
  link.click();
}

/** Runs a command in a box and waits for it. */
export async function ran(id: string, ...argv: string[]): Promise<{ exitCode: number; stderr: string }> {
  const command = argv.map((word) => `'${word.replaceAll("'", "'\\''")}'`).join(' ');
  return json('POST', boxPath(id, '/api/execute'), { command, sessionId: '__DISABLE_SESSION__' });
}

/** The same; it must succeed. */
export async function exec(id: string, ...argv: string[]): Promise<void> {
  const { exitCode, stderr } = await ran(id, ...argv);
  if (exitCode !== 0) throw new Error(stderr.slice(0, 300) || `${argv[0]} ended with ${exitCode}`);
}
