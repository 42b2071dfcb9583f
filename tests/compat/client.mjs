// The unmodified SandboxClient, pointed at one sandbox of a real atolld.
import assert from 'node:assert/strict';
import { SandboxClient, parseSSEStream } from '@cloudflare/sandbox';

export { assert, parseSSEStream };
export { events, eventsUntil, text } from './stream.mjs';

export function sandbox(id) {
  const { ATOLL_URL, ATOLL_TOKEN } = process.env;
  const baseUrl = `${ATOLL_URL}/v1/sandboxes/${id}`;
  const headers = { Authorization: `Bearer ${ATOLL_TOKEN}` };
  const client = new SandboxClient({ baseUrl, defaultHeaders: headers });
  return Object.assign(client, {
    id,
    /** A route as plain HTTP, for what the client has no method for. */
    raw: (method, path, body) =>
      fetch(baseUrl + path, { method, headers, body: body === undefined ? undefined : JSON.stringify(body) }),
    destroy: () => fetch(baseUrl, { method: 'DELETE', headers }),
  });
}

export async function rejects(promise, code, status) {
  try {
    await promise;
  } catch (error) {
    assert.equal(error.code ?? error.errorResponse?.code, code, error.message);
    if (status) assert.equal(error.httpStatus ?? error.errorResponse?.httpStatus, status);
    return error;
  }
  assert.fail(`expected ${code}, but it succeeded`);
}

/** The same sandbox over upstream's WebSocket transport: Node's WebSocket takes a URL and nothing else. */
export function overWebSocket(box) {
  const { ATOLL_URL, ATOLL_TOKEN } = process.env;
  const baseUrl = `${ATOLL_URL}/v1/sandboxes/${box.id}`;
  const wsUrl = `${baseUrl.replace(/^http/, 'ws')}/ws?token=${ATOLL_TOKEN}`;
  const defaultHeaders = { Authorization: `Bearer ${ATOLL_TOKEN}` };
  return new SandboxClient({ transportMode: 'websocket', baseUrl, wsUrl, defaultHeaders });
}
