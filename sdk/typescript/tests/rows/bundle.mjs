// Bundles the rows of tests/compat, which are written against @cloudflare/sandbox, with atoll-sandbox in its place: an
// application that changes an import. The bundle runs in Node, Bun and Deno.
import { fileURLToPath } from 'node:url';
import { build } from 'esbuild';

const at = (path) => fileURLToPath(new URL(path, import.meta.url));
const dist = at('../../dist/index.js');
await build({
  entryPoints: [at('main.mjs')],
  outfile: at('../../node_modules/.rows/rows.mjs'),
  bundle: true,
  format: 'esm',
  target: 'es2022',
  external: ['node:*'],
  alias: { '@cloudflare/sandbox': dist, 'atoll-sandbox': dist },
  loader: { '.py': 'text' },
});
