// Bundles the rows of tests/compat, which are written against @cloudflare/sandbox, with atoll-sandbox in its place: an
// application that changes an import. rows.mjs runs in Node, Bun and Deno, worker.mjs in workerd.
import { fileURLToPath } from 'node:url';
import { build } from 'esbuild';

const at = (path) => fileURLToPath(new URL(path, import.meta.url));
const dist = at('../../dist/index.js');
await build({
  entryPoints: { rows: at('main.mjs'), worker: at('worker.mjs') },
  outdir: at('../../node_modules/.rows'),
  outExtension: { '.js': '.mjs' },
  bundle: true,
  format: 'esm',
  target: 'es2022',
  external: ['node:*'],
  alias: { '@cloudflare/sandbox': dist, 'atoll-sandbox': dist },
  loader: { '.py': 'text' },
});
