// Runs the table of the preview: bundles worker.mjs, starts workerd with it, and asks for one row after the other.
//
//   node driver.mjs --list           the rows, as JSON
//   node driver.mjs [NAME...]        runs them against ATOLL_URL with ATOLL_TOKEN; one line of JSON a row
import { fileURLToPath } from 'node:url';
import { start } from '../workers/workerd.mjs';

const AT_ONCE = 4;
const ROW_SECONDS = 100;

const { miniflare, log } = await start(fileURLToPath(new URL('worker.mjs', import.meta.url)), ['Sandbox', 'Remote']);
const ask = async (path) => (await miniflare.dispatchFetch(`http://atoll.test/${path}`)).json();

/** A row that hangs is a row that failed. */
async function one(name) {
  let timer;
  const late = new Promise((_, reject) => {
    timer = setTimeout(() => reject(new Error(`no answer after ${ROW_SECONDS} s`)), ROW_SECONDS * 1000);
  });
  const began = Date.now();
  const result = await Promise.race([ask(`row/${encodeURIComponent(name)}`), late])
    .catch((error) => ({ ok: false, error: `${error.stack ?? error}` }))
    .finally(() => clearTimeout(timer));
  console.log(JSON.stringify({ name, ms: Date.now() - began, ...result }));
}

try {
  const left = process.argv.slice(2);
  if (left[0] === '--list') {
    console.log(JSON.stringify(await ask('rows')));
  } else {
    const worker = async () => {
      for (let name = left.shift(); name !== undefined; name = left.shift()) await one(name);
    };
    await Promise.all(Array.from({ length: AT_ONCE }, worker));
  }
} finally {
  await miniflare.dispose();
  if (process.env.WORKERS_LOG) console.error(Buffer.concat(log).toString());
}
