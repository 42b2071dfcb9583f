// Real workerd, by way of miniflare, with a Worker that is bundled first.
import { fileURLToPath } from 'node:url';
import { build } from 'esbuild';
import { Log, LogLevel, Miniflare } from 'miniflare';

const here = fileURLToPath(new URL('.', import.meta.url));

async function bundle(entry) {
  const { outputFiles } = await build({
    entryPoints: [entry],
    bundle: true,
    write: false,
    format: 'esm',
    target: 'es2022',
    external: ['cloudflare:*', 'node:*'],
    conditions: ['workerd', 'worker', 'browser'],
    loader: { '.py': 'text' },
    nodePaths: [`${here}../node_modules`],
    alias: { 'atoll-sandbox/workers': `${here}../../../sdk/typescript/src/workers/index.ts` },
  });
  return outputFiles[0].text;
}

/** A program for Node in one file. */
async function bundleNode(entry) {
  const { outputFiles } = await build({ entryPoints: [entry], bundle: true, write: false, platform: 'node', format: 'cjs', target: 'node20' });
  return outputFiles[0].text;
}

/** Starts it; `classes` are the Durable Objects that the Worker exports, `bindings` more of its variables. What workerd prints gathers in `log`. */
export async function start(entry, classes, bindings = {}) {
  const { ATOLL_URL = '', ATOLL_TOKEN = '', SANDBOX_TRANSPORT, S3_BINDINGS = '{}' } = process.env;
  const log = [];
  const miniflare = new Miniflare({
    modules: true,
    script: await bundle(entry),
    compatibilityDate: '2026-04-20',
    compatibilityFlags: ['nodejs_compat'],
    durableObjects: Object.fromEntries(classes.map((name) => [name, { className: name, useSQLite: true }])),
    // SANDBOX_TRANSPORT is upstream's own variable: http, websocket or rpc for every sandbox.
    // S3_BINDINGS: upstream's variables for backups, and S3_CA, the certificate of the server that they name.
    bindings: {
      ATOLL_URL,
      ATOLL_TOKEN,
      ...(SANDBOX_TRANSPORT && { SANDBOX_TRANSPORT }),
      ...JSON.parse(S3_BINDINGS),
      S3RVER: await bundleNode(`${here}s3rver.mjs`),
      ...bindings,
    },
    r2Buckets: ['BACKUP_BUCKET', 'FILES'],
    log: new Log(LogLevel.NONE),
    handleRuntimeStdio(stdout, stderr) {
      for (const stream of [stdout, stderr]) stream.on('data', (data) => log.push(data));
    },
  });
  return { miniflare, log };
}
