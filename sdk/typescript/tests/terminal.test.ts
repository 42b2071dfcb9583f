import { getSandbox, proxyTerminal } from 'atoll-sandbox';
import { expect, test } from 'vitest';
import { box, daemon, failure } from './support/boxes.js';

async function textOf(output: ReadableStream<Uint8Array>): Promise<string> {
  return new Response(output).text();
}

test('every byte of a flood comes, and how the program ended', async () => {
  const sandbox = box();
  const terminal = await sandbox.connectTerminal({ cols: 100, rows: 30 });
  terminal.write('stty -echo; seq 1 200000; exit 4\r');
  const text = await textOf(terminal.output);
  const numbers = [...text.matchAll(/^(\d+)\r$/gm)].map(([, n]) => Number(n));
  expect(numbers).toHaveLength(200_000);
  expect(numbers.every((n, i) => n === i + 1)).toBe(true);
  expect(await terminal.exited).toMatchObject({ code: 4 });
});

test('one terminal for each session, shared by all who connect', async () => {
  const sandbox = box();
  const [a, b] = [await sandbox.connectTerminal({ sessionId: 's' }), await sandbox.connectTerminal({ sessionId: 's' })];
  a.write('echo shared$((20+22)); exit\r');
  const both = await Promise.all([textOf(a.output), textOf(b.output)]);
  for (const text of both) expect(text).toContain('shared42');
});

test('over the unix socket, for requests that ask for it', async () => {
  const sandbox = getSandbox({ url: `unix:${daemon().socket}` }, box().id);
  const request = () =>
    new Request('http://any.test/terminal', { headers: { Upgrade: 'websocket', Connection: 'Upgrade' } });
  for (const open of [() => sandbox.terminal(request()), () => proxyTerminal(sandbox, 'own', request())]) {
    const response = (await open()) as Response & { webSocket: any };
    expect(response.status).toBe(101);
    const ended = new Promise((done) => response.webSocket.addEventListener('close', done));
    response.webSocket.accept();
    response.webSocket.send(new TextEncoder().encode('exit\r'));
    await ended;
  }
  expect((await failure(sandbox.terminal(new Request('http://any.test/')))).message).toMatch(/WebSocket upgrade/);
  expect((await failure(proxyTerminal(sandbox, '', request()))).message).toMatch(/sessionId is required/);
});

test('a server that is not there is told before anything is upgraded', async () => {
  const sandbox = box();
  const request = new Request('http://any.test/ws', { headers: { Upgrade: 'websocket', Connection: 'Upgrade' } });
  const error = await failure(sandbox.wsConnect(request, 9999));
  expect(error).toMatchObject({ name: 'ServiceNotRespondingError', code: 'SERVICE_NOT_RESPONDING' });
});
