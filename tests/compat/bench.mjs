// node bench.mjs N: the unmodified clients of http and rpc side by side, for `make bench`. Prints samples as JSON:
// microseconds of a small call, MB/s of streams of 100 MB. The two take turns, so that both see the same machine.
import { spawn } from 'node:child_process';
import { once } from 'node:events';
import { register } from 'node:module';
import { newWebSocketRpcSession } from 'capnweb';
import WebSocket from 'ws';
register('./hooks.mjs', import.meta.url);
const { sandbox } = await import('./client.mjs');

const n = Number(process.argv[2] ?? 250);
const S = 'bench';
const MB = 1e6;
const boxes = { http: await sandbox('bench-rpc', 'http'), rpc: await sandbox('bench-rpc', 'rpc') };
const out = { small: { http: [], rpc: [] }, read: { http: [], rpc: [] }, output: { http: [], rpc: [] }, raw: { rpc: [] } };

async function drain(stream) {
  let bytes = 0;
  for await (const chunk of stream) bytes += chunk.length;
  return bytes;
}

/** A stream of so many bytes from `npmstream.mjs` or `npmframes.mjs`, and how to end that server. */
async function npmServer(script, bytes) {
  globalThis.WebSocket ??= WebSocket;
  const process = spawn('node', [script, String(bytes), '65536'], { stdio: ['ignore', 'pipe', 'inherit'] });
  const [line] = await once(process.stdout, 'data');
  const socket = new WebSocket(`ws://127.0.0.1:${String(line).trim()}`);
  await once(socket, 'open');
  return { main: newWebSocketRpcSession(socket), end: () => process.kill() };
}

async function npmRates(script, bytes) {
  const npm = await npmServer(script, bytes);
  const rates = [];
  for (let i = 0; i < 3; i++) rates.push((await rate(() => npm.main.read())).rate);
  npm.end();
  return rates;
}

async function rate(start) {
  const before = performance.now();
  const bytes = await drain(await start());
  if (bytes < 100 * MB) throw new Error(`${bytes} bytes`);
  return { bytes, rate: (100 * MB) / 1000 / (performance.now() - before) };
}

try {
  for (const box of Object.values(boxes)) await box.commands.execute(':', S);
  await boxes.http.commands.execute("head -c 100000000 /dev/urandom > big.bin; head -c 75000000 /dev/urandom | base64 -w 99 > big.txt", S);
  for (let i = 0; i < n; i++)
    for (const [who, box] of Object.entries(boxes)) {
      const before = performance.now();
      await box.commands.execute(':', S);
      out.small[who].push(Math.round((performance.now() - before) * 1000));
    }
  const starts = {
    read: (box) => box.files.readFileStream('/workspace/big.bin', S),
    output: (box) => box.commands.executeStream('cat big.txt', S),
    raw: async (box) => (await box.files.readFile('/workspace/big.bin', S, { encoding: 'none' })).content,
  };
  for (const [row, start] of Object.entries(starts)) {
    let bytes = 0; // of the stream: events of text are longer than what they carry
    for (let i = 0; i < 3; i++)
      for (const who of Object.keys(out[row])) {
        const done = await rate(() => start(boxes[who]));
        out[row][who].push(done.rate);
        bytes = done.bytes;
      }
    out[row].frames = await npmRates('npmframes.mjs', bytes);
  }
  out.raw.npm = await npmRates('npmstream.mjs', 100 * MB);
  console.log(JSON.stringify(out));
} finally {
  boxes.rpc.disconnect();
  await boxes.http.destroy();
}
process.exit(0);
