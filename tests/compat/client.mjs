// The unmodified SandboxClient, pointed at one sandbox of a real atolld.
import assert from 'node:assert/strict';
import { readdirSync } from 'node:fs';
import { SandboxClient, parseSSEStream } from '@cloudflare/sandbox';
import WebSocket from 'ws';

export { assert, parseSSEStream };
export { events, eventsUntil, text } from './stream.mjs';

/** The client of a transport: all three have the same domains with the same methods. */
async function clientOf(transport, baseUrl, headers) {
  if (transport === 'http') return new SandboxClient({ baseUrl, defaultHeaders: headers });
  if (transport === 'websocket') return overWebSocket({ id: baseUrl.split('/').at(-1) });
  return overRpc(baseUrl, headers);
}

export async function sandbox(id, transport = 'http') {
  const { ATOLL_URL, ATOLL_TOKEN } = process.env;
  const baseUrl = `${ATOLL_URL}/v1/sandboxes/${id}`;
  const headers = { Authorization: `Bearer ${ATOLL_TOKEN}` };
  const client = await clientOf(transport, baseUrl, headers);
  const more = {
    id,
    over: transport,
    /** A route as plain HTTP, for what the client has no method for. */
    raw: (method, path, body) =>
      fetch(baseUrl + path, { method, headers, body: body === undefined ? undefined : JSON.stringify(body) }),
    destroy: async () => {
      if (transport !== 'http') client.disconnect();
      await fetch(baseUrl, { method: 'DELETE', headers });
    },
  };
  for (const [name, value] of Object.entries(more)) Object.defineProperty(client, name, { value });
  return client;
}

export async function rejects(promise, code, status) {
  try {
    await promise;
  } catch (error) {
    // Over a WebSocket, upstream's client puts the answer of a stream that did not begin into a plain Error's text.
    const told = /^Stream error: \d+ - (\{.*\})$/.exec(error.message);
    const answer = told ? JSON.parse(told[1]) : error;
    assert.equal(answer.code ?? error.errorResponse?.code, code, error.message);
    if (status) assert.equal(answer.httpStatus ?? error.errorResponse?.httpStatus, status);
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

/** What a Durable Object's container gives the client: a fetch that answers an upgrade with a socket. */
export function upgrade(url, headers) {
  return new Promise((resolve, reject) => {
    const ws = new WebSocket(url.replace(/^http/, 'ws'), { headers });
    ws.accept = () => {};
    ws.once('open', () => resolve({ status: 101, webSocket: ws }));
    ws.once('unexpected-response', (_, r) => resolve({ status: r.statusCode, statusText: r.statusMessage }));
    ws.once('error', reject);
  });
}

/** The same sandbox over upstream's rpc transport, with its own client class (hooks.mjs exports it). */
export async function overRpc(baseUrl, headers, localMain) {
  const dist = new URL('node_modules/@cloudflare/sandbox/dist/', import.meta.url);
  const file = readdirSync(dist).find((name) => /^sandbox-.*\.js$/.test(name));
  const { ContainerControlClient } = await import(new URL(file, dist).href);
  return new ContainerControlClient({ stub: { fetch: () => upgrade(`${baseUrl}/rpc`, headers) }, port: 3000, localMain });
}
