// node support/worker.mjs EXAMPLE: serves EXAMPLE/worker.ts in workerd, as its wrangler.json says. Variables of the environment replace
// those of `vars`. `npx wrangler dev` in the example's directory does the same.
import { readFile } from 'node:fs/promises';
import { extname } from 'node:path';
import { fileURLToPath } from 'node:url';
import { build } from 'esbuild';
import { Log, LogLevel, Miniflare } from 'miniflare';

const directory = new URL(`../${process.argv[2]}/`, import.meta.url);
const config = JSON.parse(await readFile(new URL('wrangler.json', directory), 'utf8'));
const { outputFiles } = await build({
  entryPoints: [fileURLToPath(new URL(config.main, directory))],
  bundle: true,
  write: false,
  format: 'esm',
  target: 'es2022',
  external: ['cloudflare:*', 'node:*'],
  conditions: ['workerd', 'worker', 'browser'],
});

const TYPES = { '.html': 'text/html', '.css': 'text/css', '.mjs': 'text/javascript', '.js': 'text/javascript' };
/** The files of `assets`. */
async function asset(request) {
  const { pathname } = new URL(request.url);
  const path = new URL(
    `.${pathname === '/' ? '/index.html' : pathname}`,
    new URL(`${config.assets.directory}/`, directory),
  );
  try {
    return new Response(await readFile(path), {
      headers: { 'content-type': TYPES[extname(path.pathname)] ?? 'text/plain' },
    });
  } catch {
    return new Response('not found', { status: 404 });
  }
}

const names = [...Object.keys(config.vars ?? {}), 'ATOLL_TOKEN'];
const miniflare = new Miniflare({
  modules: true,
  script: outputFiles[0].text,
  host: '127.0.0.1',
  port: Number(process.env.PORT ?? 8080),
  compatibilityDate: config.compatibility_date,
  compatibilityFlags: config.compatibility_flags,
  durableObjects: { Sandbox: { className: 'Sandbox', useSQLite: true } },
  bindings: Object.fromEntries(names.map((name) => [name, process.env[name] ?? config.vars[name] ?? ''])),
  serviceBindings: config.assets ? { [config.assets.binding]: asset } : {},
  log: new Log(LogLevel.ERROR),
});
console.log(`serving on ${(await miniflare.ready).origin}`);
for (const signal of ['SIGINT', 'SIGTERM']) process.once(signal, () => miniflare.dispose().then(() => process.exit(0)));
