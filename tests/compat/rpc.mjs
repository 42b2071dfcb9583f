// The rpc transport: what the other transports do not have.
import { newWebSocketRpcSession, RpcTarget } from 'capnweb';
import { assert, events, rejects, upgrade } from './client.mjs';

const S = 'sandbox-default';
const encoder = new TextEncoder();

/** A session without the client of @cloudflare/sandbox: the bare stub. */
async function bare(box, main) {
  const { ATOLL_URL, ATOLL_TOKEN } = process.env;
  const url = `${ATOLL_URL}/v1/sandboxes/${box.id}/rpc`;
  const { webSocket } = await upgrade(url, { Authorization: `Bearer ${ATOLL_TOKEN}` });
  return { api: newWebSocketRpcSession(webSocket, main), socket: webSocket };
}

export async function rpc_streams_files_both_ways(box) {
  const parts = Array.from({ length: 200 }, (_, i) => new Uint8Array(16384 + i).fill(i));
  const up = new ReadableStream({ pull: (c) => (parts.length ? c.enqueue(parts.shift()) : c.close()) });
  const size = 200 * 16384 + (200 * 199) / 2;
  const written = await box.files.writeFileStream('/workspace/up.bin', up, S);
  assert.equal(written.bytesWritten, size);
  const read = await box.files.readFile('/workspace/up.bin', S, { encoding: 'none' });
  assert.equal(read.size, size);
  assert.equal(read.mimeType, 'application/octet-stream');
  const bytes = new Uint8Array(await new Response(read.content).arrayBuffer());
  assert.equal(bytes.length, size);
  assert.equal(bytes.at(-1), 199);
  await rejects(box.files.readFile('/workspace/none', S, { encoding: 'none' }), 'FILE_NOT_FOUND');
  const lost = new ReadableStream({ start: (c) => c.enqueue(encoder.encode('x')), pull: (c) => c.error(new Error('lost')) });
  await assert.rejects(box.files.writeFileStream('/workspace/lost', lost, S));
  assert.equal((await box.files.exists('/workspace/lost', S)).exists, false);
}

export async function rpc_a_slow_stream_blocks_no_call(box) {
  const streams = await Promise.all([1, 2, 3].map((i) => box.commands.executeStream('yes', `slow${i}`, {})));
  const big = await box.files.writeFile('/workspace/f', 'x'.repeat(1 << 20), S);
  assert.equal(big.success, true);
  for (let i = 0; i < 20; i++) assert.equal((await box.commands.execute(`echo ${i}`, S)).stdout, `${i}\n`);
  await Promise.all(streams.map((s) => s.cancel()));
  // Cancelling ends the commands.
  for (;;) if ((await box.commands.execute('pgrep -cx yes', S)).stdout === '0\n') break;
}

export async function rpc_pipelines_and_maps(box) {
  const { api, socket } = await bare(box);
  assert.equal(await api.commands.execute('echo piped', S, {}).stdout, 'piped\n');
  await api.files.writeFile('/workspace/p', api.commands.execute('echo arg', S, {}).stdout, S);
  const files = api.commands;
  assert.equal((await files.execute('cat /workspace/p', S, {})).stdout, 'arg\n');
  await api.commands.execute('touch a b c', S, {});
  const seen = await api.files.listFiles('/workspace', S).files.map((f) => ({ name: f.name, has: api.files.exists(f.absolutePath, S) }));
  assert.deepEqual(seen.map((f) => f.name).sort(), ['a', 'b', 'c', 'p']);
  assert.ok(seen.every((f) => f.has.exists));
  await assert.rejects(Promise.resolve(api.commands.nothing()), /'commands.nothing' is not a function/);
  await assert.rejects(Promise.resolve(api.files.readFile('/none', S).content), (e) => e.code === 'FILE_NOT_FOUND');
  socket.close();
}

export async function rpc_code_calls_back_in_order(box) {
  const context = await box.interpreter.createCodeContext({ language: 'python' });
  assert.ok(context.createdAt instanceof Date);
  const seen = [];
  const callbacks = {
    onStdout: (o) => void seen.push(`out ${o.text}`),
    onStderr: (o) => void seen.push(`err ${o.text}`),
    onResult: (r) => void seen.push(`result ${r.text}`),
    onError: (e) => void seen.push(`error ${e.name}`),
  };
  const code = 'import sys\nfor i in range(100):\n  print(i, flush=True)\nsys.stderr.write("e")\n[1, 2]';
  await box.interpreter.runCodeStream(context.id, code, undefined, callbacks);
  assert.equal(seen.filter((s) => s.startsWith('out')).map((s) => s.slice(4)).join(''), Array.from({ length: 100 }, (_, i) => `${i}\n`).join(''));
  assert.deepEqual(seen.slice(-2).sort(), ['err e', 'result [1, 2]']);
  await box.interpreter.runCodeStream(context.id, '1/0', undefined, callbacks);
  assert.equal(seen.at(-1), 'error ZeroDivisionError');
  await rejects(box.interpreter.runCodeStream('nope', '1', undefined, callbacks), 'CONTEXT_NOT_FOUND');
  assert.equal((await box.interpreter.listCodeContexts())[0].id, context.id);
  assert.equal(await box.interpreter.deleteCodeContext(context.id), undefined);
}

export async function rpc_a_bad_frame_ends_its_session_only(box) {
  await box.commands.execute('true', S);
  const bad = ['{', '[]', '["nope"]', '["pull",7]', '["release",5,1]', '["release",0,9]', '["push"]', '["push",["huh",1]]',
    '["push",["pipeline",9,["x"],[]]]', '["push",["readable",0]]', '["resolve",1]', '["push",["$ref",0]]', '7',
    `["push",${'['.repeat(70)}${']'.repeat(70)}]`];
  for (const frame of bad) {
    const { socket } = await bare(box);
    const closed = new Promise((resolve) => socket.on('close', (code, reason) => resolve([code, String(reason)])));
    const frames = [];
    socket.on('message', (data) => frames.push(JSON.parse(data)));
    socket.send(frame);
    const [code, reason] = await closed;
    assert.equal(code, 3000, frame);
    assert.ok(reason.length > 5, frame);
    assert.equal(frames.at(-1)[0], 'abort', frame);
  }
  assert.equal((await box.commands.execute('echo alive', S)).stdout, 'alive\n');
}

export async function rpc_codes_that_upstream_has_not(box) {
  // The client takes an unknown code for a broken connection, unless the message is JSON.
  const error = await rejects(box.files.readFile('/dev/null', S), 'NOT_REGULAR_FILE');
  assert.equal(error.message, "read '/dev/null': not a regular file");
  assert.equal(error.context.path, '/dev/null');
  assert.equal(error.name, 'SandboxError');
  await rejects(box.tunnels.destroyTunnel('quick-none'), 'TUNNEL_NOT_FOUND');
  await rejects(box.tunnels.destroyTunnel('x'.repeat(5000)), 'VALIDATION_FAILED');
  const { api, socket } = await bare(box);
  await rejects(Promise.resolve(api.files.readFile('/dev/null', S)), 'NOT_REGULAR_FILE');
  socket.close();
}

export async function rpc_bytes_are_no_text(box) {
  const bytes = new Uint8Array([1, 2]);
  await rejects(box.files.writeFile('/workspace/b', bytes, S), 'VALIDATION_FAILED');
  await rejects(box.commands.execute(bytes, S), 'VALIDATION_FAILED');
  assert.equal((await box.files.exists('/workspace/b', S)).exists, false);
  // Half of a surrogate pair is text.
  await box.files.writeFile('/workspace/b', '\u{1f600}'.slice(0, 1), S);
  assert.equal((await box.files.readFile('/workspace/b', S)).content, '\ufffd');
}

export async function rpc_floods_are_bounded(box) {
  const flood = async (make, times) => {
    const { socket } = await bare(box);
    const closed = new Promise((resolve) => socket.on('close', (code, reason) => resolve([code, String(reason)])));
    socket.on('error', () => {});
    for (let i = 0; i < times && socket.readyState === 1; i++) {
      socket.send(make(i));
      if (i % 1000 === 999) await new Promise((resolve) => setImmediate(resolve));
    }
    return closed;
  };
  const [code, reason] = await flood(() => '["push",1]', 1_000_000);
  assert.equal(code, 3000);
  assert.match(reason, /too many/);
  assert.match((await flood((i) => `["push",["pipeline",${i},[]]]`, 1_000_000))[1], /too many/);
  assert.match((await flood((i) => `["push",["pipeline",0,["utils","ping"],[["export",-${i + 1}]]]]`, 1_000_000))[1], /too many/);
  assert.equal((await flood(() => `["push","${'x'.repeat(100 << 20)}"]`, 1))[0], 1009);
  assert.equal((await box.commands.execute('echo alive', S)).stdout, 'alive\n');
}

export async function rpc_many_calls_at_once(box) {
  const all = await Promise.all(Array.from({ length: 100 }, (_, i) => box.commands.execute(`echo ${i}`, `s${i % 10}`)));
  assert.deepEqual(all.map((r) => r.stdout), Array.from({ length: 100 }, (_, i) => `${i}\n`));
  // Calls that wait in the queues of six sessions, behind a command that waits for us.
  const { api, socket } = await bare(box);
  await api.commands.execute('mkfifo gate0 gate1 gate2 gate3 gate4 gate5', S, {});
  const held = [];
  for (let i = 0; i < 6; i++) {
    held.push(api.commands.execute(`read < gate${i}`, `q${i}`, {}));
    for (let k = 0; k < 199; k++) held.push(api.commands.execute('true', `q${i}`, {}));
  }
  const refused = await Promise.race(held.map((p) => p.then(() => new Promise(() => {}), (e) => e)));
  assert.match(refused.message, /more than 1024 calls/);
  assert.equal((await box.commands.execute('for i in 0 1 2 3 4 5; do echo > gate$i; done; echo on', S)).stdout, 'on\n');
  const ended = await Promise.allSettled(held.map((p) => p.then()));
  assert.equal(ended.filter((r) => r.status === 'rejected').length, 1200 - 1024);
  assert.equal((await api.commands.execute('echo on', S, {})).stdout, 'on\n');
  socket.close();
}

export async function rpc_a_client_that_leaves_ends_its_streams(box) {
  const { api, socket } = await bare(box, new (class extends RpcTarget {})());
  const stream = await api.commands.executeStream('echo up; exec sleep 4242', 'left', {});
  const reader = stream.getReader();
  await reader.read();
  socket.close();
  await assert.rejects(async () => { for (;;) if ((await reader.read()).done) break; });
  for (;;) if ((await box.commands.execute('pgrep -fc "sleep 424[2]"', S)).stdout === '0\n') break;
  assert.ok(events);
}

export async function rpc_tunnels(box) {
  const ended = [];
  let told;
  class Main extends RpcTarget {
    onTunnelExit(...args) {
      ended.push(args);
      told?.();
    }
  }
  const { api, socket } = await bare(box, new Main());
  await api.processes.startProcess('python3 -m http.server 8088', S, { processId: 'web' });
  const { run, started } = await api.tunnels.ensureTunnelRun({ tunnelId: 'quick-1', runId: 'r1', mode: 'quick', port: 8088 });
  assert.equal(started, true);
  assert.deepEqual([run.tunnelId, run.runId, run.mode, run.port], ['quick-1', 'r1', 'quick', 8088]);
  assert.equal(new URL(run.url).hostname, run.hostname);
  const again = await api.tunnels.ensureTunnelRun({ tunnelId: 'quick-1', runId: 'r1', mode: 'quick', port: 8088 });
  assert.deepEqual([again.started, again.run.url], [false, run.url]);
  for (;;) if ((await viaHost(run.hostname)).includes('Directory listing')) break;
  await rejects(api.tunnels.ensureTunnelRun({ tunnelId: 'quick-2', runId: 'r2', mode: 'quick', port: 8088 }), 'TUNNEL_RUN_CONFLICT');
  const info = await api.tunnels.runQuickTunnel('quick-3', 8089);
  assert.deepEqual((await api.tunnels.listTunnels()).map((t) => [t.id, t.port]).sort(), [['quick-1', 8088], ['quick-3', 8089]]);
  assert.equal(new URL(info.url).hostname, info.hostname);
  assert.deepEqual(await api.tunnels.destroyTunnel('quick-3'), { success: true, id: 'quick-3' });
  await rejects(api.tunnels.destroyTunnel('quick-3'), 'TUNNEL_NOT_FOUND');
  assert.deepEqual(await api.tunnels.stopTunnelRun({ tunnelId: 'quick-1', runId: 'other' }), { stopped: false });
  // Ended from outside: the client is told.
  const bell = new Promise((resolve) => (told = () => ended.length > 1 && resolve()));
  assert.equal((await box.raw('DELETE', '/tunnels/8088')).status, 204);
  await bell;
  assert.deepEqual(ended.map((e) => e.slice(0, 2)), [['quick-3', 8089], ['quick-1', 8088]]);
  assert.equal(ended[1][3], 'r1');
  await assert.rejects(Promise.resolve(api.tunnels.runNamedTunnel('id', 'token', 8088)), /cloudflared/);
  socket.close();
}

/** A page of a host that this machine's resolver may not know. */
async function viaHost(hostname) {
  const { request } = await import('node:http');
  const { hostname: address, port } = new URL(process.env.ATOLL_URL);
  return new Promise((resolve, reject) => {
    const r = request({ host: address, port, path: '/', headers: { Host: hostname } }, (response) => {
      let text = '';
      response.on('data', (data) => (text += data)).on('end', () => resolve(text));
    });
    r.on('error', reject).end();
  });
}
