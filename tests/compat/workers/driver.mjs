// Runs the table: bundles worker.mjs, starts workerd with it, and asks for one row after the other.
//
//   node driver.mjs --list           the rows and what is not served yet, as JSON
//   node driver.mjs [NAME...]        runs them against ATOLL_URL with ATOLL_TOKEN; one line of JSON a row
import { fileURLToPath } from 'node:url';
import { build } from 'esbuild';
import { Log, LogLevel, Miniflare } from 'miniflare';
import { outside } from './outside.mjs';

const here = fileURLToPath(new URL('.', import.meta.url));
const AT_ONCE = 4;
const ROW_SECONDS = 100;

/** A row that hangs is a row that failed. */
function inTime(promise) {
  let timer;
  const late = new Promise((_, reject) => {
    timer = setTimeout(() => reject(new Error(`no answer after ${ROW_SECONDS} s`)), ROW_SECONDS * 1000);
  });
  return Promise.race([promise, late]).finally(() => clearTimeout(timer));
}

async function bundle(entry) {
  const { outputFiles } = await build({
    entryPoints: [here + entry],
    bundle: true,
    write: false,
    format: 'esm',
    target: 'es2022',
    external: ['cloudflare:*', 'node:*'],
    conditions: ['workerd', 'worker', 'browser'],
    loader: { '.py': 'text' },
    alias: { 'atoll-sandbox/workers': `${here}../../../sdk/typescript/src/workers/index.ts` },
  });
  return outputFiles[0].text;
}

async function start() {
  const { ATOLL_URL = '', ATOLL_TOKEN = '' } = process.env;
  const log = [];
  const className = (name) => ({ className: name, useSQLite: true });
  const miniflare = new Miniflare({
    modules: true,
    script: await bundle('worker.mjs'),
    compatibilityDate: '2026-04-20',
    compatibilityFlags: ['nodejs_compat'],
    durableObjects: { Sandbox: className('Sandbox'), Custom: className('Custom'), Refused: className('Refused') },
    bindings: { ATOLL_URL, ATOLL_TOKEN },
    log: new Log(LogLevel.NONE),
    handleRuntimeStdio(stdout, stderr) {
      for (const stream of [stdout, stderr]) stream.on('data', (data) => log.push(data));
    },
  });
  return { miniflare, log };
}

/** Every row once, a few at a time. */
async function table(names, run) {
  const left = [...names];
  const worker = async () => {
    for (let name = left.shift(); name !== undefined; name = left.shift()) {
      const began = Date.now();
      const result = await inTime(run(name)).catch((error) => ({ ok: false, error: `${error.stack ?? error}` }));
      console.log(JSON.stringify({ name, ms: Date.now() - began, ...result }));
    }
  };
  await Promise.all(Array.from({ length: AT_ONCE }, worker));
}

/** Rows are named where they are written, and that is code for a Worker. */
async function list() {
  const { miniflare } = await start();
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

const wanted = process.argv.slice(2);
if (wanted[0] === '--list') {
  const { rows, later } = await list();
  console.log(JSON.stringify({ rows: { ...rows, ...Object.fromEntries(Object.keys(outside).map((n) => [n, outside[n].area])) }, later }));
} else {
  const { miniflare, log } = await start();
  try {
    await table(wanted, (name) => (outside[name] ? outside[name].run(miniflare).then(() => ({ ok: true })) : inside(miniflare, name)));
  } finally {
    await miniflare.dispose();
    if (process.env.WORKERS_LOG) console.error(Buffer.concat(log).toString());
  }
}
