import { assert, bytes, gather, messages, rejects, text, upgrade } from './util.mjs';

/** A shell without a prompt, that says when it is there. */
const shell = (sandbox, more = {}) =>
  sandbox.createTerminal({ command: ['sh'], env: { PS1: '' }, cols: 90, rows: 20, ...more });

const shows = (pattern) => (_, all) => pattern.test(text(all, 'data'));

/** The output of a terminal's WebSocket until it shows what is looked for; each chunk is announced with its length. */
async function read(come, pattern) {
  const decoder = new TextDecoder();
  let seen = '', cursor, announced;
  while (!pattern.test(seen)) {
    const message = await come.next(`${pattern}, so far ${JSON.stringify(seen)}`);
    assert.ok(!message.closed, `closed after ${JSON.stringify(seen)}`);
    if (typeof message.data === 'string') {
      const control = JSON.parse(message.data);
      assert.ok(['ready', 'chunk'].includes(control.type), message.data);
      if (control.type === 'chunk') ({ cursor, byteLength: announced } = control);
    } else {
      assert.equal(message.data.byteLength, announced);
      seen += decoder.decode(message.data, { stream: true });
    }
  }
  return { seen, cursor };
}

export default {
  async createTerminal(t) {
    const { sandbox } = t.box();
    const terminal = await shell(sandbox, { cwd: '/tmp', env: { PS1: '', WHO: 'me' } });
    const snapshot = await terminal.getSnapshot();
    assert.deepEqual([snapshot.id, snapshot.status, snapshot.cwd, snapshot.command], [terminal.id, 'running', '/tmp', ['sh']]);
    assert.ok(snapshot.pid > 0);
    await terminal.write(bytes('stty size; echo $PWD $WHO $TERM\n'));
    await gather(terminal.output({ follow: true }), shows(/20 90\r\n\/tmp me xterm-256color/));
    await rejects(sandbox.createTerminal({ command: [] }), /command/);
    await rejects(sandbox.createTerminal({ command: ['no-such-program'] }), /TerminalControlError|not found/);
    await rejects(shell(sandbox, { cwd: '/none' }), /InvalidTerminalCwdError|directory/);
    await rejects(shell(sandbox, { cols: 0 }), /dimensions/);
  },

  async 'getTerminal, listTerminals'(t) {
    const { id, sandbox } = t.box();
    assert.equal(await sandbox.getTerminal('none'), null);
    assert.deepEqual(await sandbox.listTerminals(), []);
    assert.equal(await t.inspect(id), null); // neither starts a box
    const one = await shell(sandbox);
    const two = await shell(sandbox);
    assert.deepEqual((await sandbox.listTerminals()).map((x) => x.id), [one.id, two.id]);
    const found = await sandbox.getTerminal(two.id);
    await found.write(bytes('exit 3\n'));
    assert.equal((await two.waitForExit()).code, 3);
    assert.equal(await sandbox.getTerminal('none'), null);
  },

  async 'terminal.write, terminal.resize'(t) {
    const { sandbox } = t.box();
    const terminal = await shell(sandbox);
    await terminal.resize(100, 40);
    await terminal.write(bytes('stty size; echo é-$((6*7))\n'));
    await gather(terminal.output({ follow: true }), shows(/40 100\r\né-42/));
    await rejects(terminal.resize(0, 5), /dimensions/);
    await terminal.write(bytes('exit\n'));
    await terminal.waitForExit();
    await rejects(terminal.write(bytes('x')), /TerminalControlError|ended/);
    await rejects(terminal.resize(10, 10), /ended/);
  },

  async 'terminal.output: cursors'(t) {
    const { sandbox } = t.box();
    const terminal = await shell(sandbox);
    await terminal.write(bytes('stty -echo; echo fir""st\n'));
    const first = await gather(terminal.output({ follow: true }), shows(/first\r\n/));
    const { cursor } = first.at(-1);
    assert.ok(first.every((e) => e.terminalId === terminal.id && e.timestamp));
    await terminal.write(bytes('echo second; exit 5\n'));
    const rest = await gather(terminal.output({ since: cursor, follow: true }));
    assert.equal(text(rest, 'data'), 'second\r\n');
    const end = rest.at(-1);
    assert.deepEqual([end.type, end.state, end.exit], ['terminal', 'exited', { code: 5, timedOut: false }]);
    assert.deepEqual(await gather(terminal.output({ since: end.cursor, follow: true })), []);
    assert.deepEqual(await gather(terminal.output({ replay: false })), []);
    await rejects(gather(terminal.output({ since: 'none' })), /InvalidTerminalCursorError|cursor/);
    assert.equal((await terminal.getSnapshot()).status, 'exited');
  },

  async 'terminal.output: a lost cursor is told'(t) {
    const { sandbox } = t.box();
    const terminal = await shell(sandbox, { bufferSize: 8192 });
    await terminal.write(bytes('stty -echo; echo fir""st\n'));
    const { cursor } = (await gather(terminal.output({ follow: true }), shows(/first\r\n/))).at(-1);
    await terminal.write(bytes('head -c 100000 /dev/zero | tr "\\0" x; echo; echo la""st\n'));
    await gather(terminal.output({ follow: true }), shows(/last\r\n/));
    const rest = await gather(terminal.output({ since: cursor }));
    assert.equal(rest[0].type, 'truncated');
    assert.ok(text(rest, 'data').length < 50000 && text(rest, 'data').endsWith('last\r\n'));
    // The event's own cursor is good for the next time.
    assert.equal(text(await gather(terminal.output({ since: rest[0].cursor })), 'data'), text(rest, 'data'));
  },

  async 'terminal.waitForExit'(t) {
    const { sandbox } = t.box();
    const terminal = await sandbox.createTerminal({ command: ['sh', '-c', 'exit 7'] });
    assert.deepEqual(await terminal.waitForExit(), { code: 7, timedOut: false });
    const other = await shell(sandbox);
    await rejects(other.waitForExit({ timeout: 200 }), /timed out/);
    await rejects(other.waitForExit({ signal: AbortSignal.abort(new Error('enough')) }), /enough/);
  },

  async 'terminal.interrupt'(t) {
    const { sandbox } = t.box();
    const terminal = await sandbox.createTerminal({ command: ['bash', '-c', 'trap "echo caught; exit 6" INT; echo ready; while :; do sleep 0.05; done'] });
    await gather(terminal.output({ follow: true }), shows(/ready/));
    await terminal.interrupt();
    assert.equal((await terminal.waitForExit()).code, 6);
    assert.match(text(await gather(terminal.output()), 'data'), /caught/);
    await terminal.interrupt(); // it is over: nothing happens
  },

  async 'terminal.terminate'(t) {
    const { sandbox } = t.box();
    const terminal = await sandbox.createTerminal({ command: ['bash', '-c', 'trap "" TERM HUP; echo ready; while :; do sleep 0.05; done'] });
    await gather(terminal.output({ follow: true }), shows(/ready/));
    await terminal.terminate();
    const snapshot = await terminal.getSnapshot();
    assert.deepEqual([snapshot.status, snapshot.exit], ['exited', { code: 137, signal: 9, timedOut: false }]);
    await terminal.terminate();
  },

  async 'terminal.connect'(t) {
    const { sandbox } = t.box();
    const terminal = await shell(sandbox);
    const response = await terminal.connect(upgrade(), { cols: 77, rows: 33 });
    assert.equal(response.status, 101);
    const socket = response.webSocket;
    const come = messages(socket);
    assert.deepEqual(JSON.parse((await come.next()).data), { type: 'ready' });
    socket.send(bytes('stty -echo; stty size\n'));
    const { cursor } = await read(come, /33 77\r\n/);
    socket.send(JSON.stringify({ type: 'resize', cols: 50, rows: 10 }));
    socket.close(1000);
    // Nobody looks for a while; who comes back with the cursor gets the rest and nothing twice.
    await terminal.write(bytes('stty size\n'));
    await gather(terminal.output({ since: cursor, follow: true }), shows(/10 50/));
    const again = await terminal.connect(upgrade(), { cursor });
    const more = messages(again.webSocket);
    assert.deepEqual(JSON.parse((await more.next()).data), { type: 'ready', cursor });
    assert.equal((await read(more, /10 50\r\n/)).seen, '10 50\r\n');
    again.webSocket.send('{"type":"what"}');
    assert.equal(JSON.parse((await more.next()).data).type, 'error');
    again.webSocket.send(bytes('exit 4\n'));
    for (;;) {
      const message = await more.next('exit');
      if (typeof message.data !== 'string' || JSON.parse(message.data).type !== 'exit') continue;
      assert.deepEqual(JSON.parse(message.data).exit, { code: 4, timedOut: false });
      break;
    }
    assert.equal((await more.next('close')).closed.code, 1000);
    const late = await terminal.connect(upgrade(), { cursor: 'none' });
    const refused = messages(late.webSocket);
    assert.equal(JSON.parse((await refused.next()).data).type, 'error');
    assert.equal((await refused.next()).closed.code, 1008);
  },
};
