// Runs the table: bundles worker.mjs, starts workerd with it, and asks for one row after the other.
//
//   node driver.mjs --list           the rows and what is not served yet, as JSON
//   node driver.mjs [NAME...]        runs them against ATOLL_URL with ATOLL_TOKEN; one line of JSON a row
import { fileURLToPath } from 'node:url';
import { WebSocketServer } from 'ws';
import { outside } from './outside.mjs';
import { start } from './workerd.mjs';

const CLASSES = ['Sandbox', 'Custom', 'Refused', 'Nowhere', 'Intercepted', 'CatchAll', 'Later', 'Remote'];
const worker = (bindings) => start(fileURLToPath(new URL('worker.mjs', import.meta.url)), CLASSES, bindings);
const AT_ONCE = 4;
const ROW_SECONDS = 240; // the slowest takes 40 on a busy machine

/** A row that hangs is a row that failed. */
function inTime(promise) {
  let timer;
  const late = new Promise((_, reject) => {
    timer = setTimeout(() => reject(new Error(`no answer after ${ROW_SECONDS} s`)), ROW_SECONDS * 1000);
  });
  return Promise.race([promise, late]).finally(() => clearTimeout(timer));
}

/** Every row once, a few at a time. */
async function table(names, run) {
  const left = [...names];
  const one = async () => {
    for (let name = left.shift(); name !== undefined; name = left.shift()) {
      const began = Date.now();
      const result = await inTime(run(name)).catch((error) => ({ ok: false, error: `${error.stack ?? error}` }));
      console.log(JSON.stringify({ name, ms: Date.now() - began, ...result }));
    }
  };
  await Promise.all(Array.from({ length: AT_ONCE }, one));
}

/** Rows are named where they are written, and that is code for a Worker. */
async function list() {
  const { miniflare } = await worker();
  try {
    return await (await miniflare.dispatchFetch('http://atoll.test/rows')).json();
  } finally {
    await miniflare.dispose();
  }
}

async function inside(miniflare, name) {
  const response = await miniflare.dispatchFetch(`http://atoll.test/row/${encodeURIComponent(name)}`);
  return response.json();
}

/** Says the path that was asked for, then sends every message back. */
async function echoServer() {
  const server = new WebSocketServer({ host: '127.0.0.1', port: 0 });
  await new Promise((done) => server.once('listening', done));
  server.on('connection', (socket, request) => {
    socket.send(`path ${request.url}`);
    socket.on('message', (data, binary) => socket.send(data, { binary }));
  });
  return server;
}

const wanted = process.argv.slice(2);
if (wanted[0] === '--list') {
  const { rows, later } = await list();
  console.log(JSON.stringify({ rows: { ...rows, ...Object.fromEntries(Object.keys(outside).map((n) => [n, outside[n].area])) }, later }));
} else {
  const echo = await echoServer();
  const { miniflare, log } = await worker({ ECHO_URL: `http://127.0.0.1:${echo.address().port}` });
  try {
    await table(wanted, (name) => (outside[name] ? outside[name].run(miniflare).then(() => ({ ok: true })) : inside(miniflare, name)));
  } finally {
    await miniflare.dispose();
    for (const socket of echo.clients) socket.terminate();
    echo.close();
    if (process.env.WORKERS_LOG) console.error(Buffer.concat(log).toString());
  }
}
