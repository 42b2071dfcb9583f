import { proxyTerminal } from '@cloudflare/sandbox';
import { assert, messages, rejects } from './util.mjs';

const upgrade = () => new Request('http://atoll.test/terminal', { headers: { Upgrade: 'websocket', Connection: 'Upgrade' } });

/** Reads a terminal's output until it shows what is looked for. */
export async function shows(socket, come, pattern) {
  const decoder = new TextDecoder();
  let seen = '';
  while (!pattern.test(seen)) {
    const message = await come.next(`${pattern}, so far ${JSON.stringify(seen)}`);
    assert.ok(!message.closed, `closed after ${JSON.stringify(seen)}`);
    if (typeof message.data !== 'string') seen += decoder.decode(message.data, { stream: true });
  }
  return seen;
}

async function use(response, typed, expected) {
  assert.equal(response.status, 101);
  const socket = response.webSocket;
  const come = messages(socket);
  socket.send(new TextEncoder().encode(typed));
  await shows(socket, come, expected);
  return { socket, come };
}

export default {
  async terminal(t) {
    const { sandbox } = t.box();
    await sandbox.exec('cd /tmp');
    const response = await sandbox.terminal(upgrade(), { cols: 91, rows: 17 });
    const { socket, come } = await use(response, 'stty size; echo $PWD\n', /17 91\r\n\/tmp/);
    socket.send(JSON.stringify({ type: 'resize', cols: 100, rows: 40 }));
    socket.send(new TextEncoder().encode('stty size\n'));
    await shows(socket, come, /40 100/);
    socket.close(1000);
    // It goes on without a viewer, and shows the next one what was there.
    await use(await sandbox.terminal(upgrade()), 'echo second $((6*7))\n', /40 100[^]*second 42/);
  },

  async 'session.terminal'(t) {
    const { sandbox } = t.box();
    const session = await sandbox.createSession({ id: 's', env: { WHO: 'me' }, cwd: '/tmp' });
    await use(await session.terminal(upgrade()), 'echo $WHO $PWD\n', /me \/tmp/);
  },

  async proxyTerminal(t) {
    const { id, sandbox } = t.box();
    await sandbox.exec('true');
    const stub = t.env.Sandbox.get(t.env.Sandbox.idFromName(id));
    const { socket, come } = await use(await proxyTerminal(stub, 'own', upgrade()), 'echo $((6*7)); exit 3\n', /42/);
    for (;;) {
      const message = await come.next();
      if (typeof message.data === 'string' && JSON.parse(message.data).type === 'exit') break;
      assert.ok(!message.closed, 'no exit was told');
    }
    socket.close(1000);
    await rejects(proxyTerminal(stub, 'own', new Request('http://atoll.test/')), /WebSocket upgrade/);
  },
};
