// Bundles the console and writes what the daemon embeds: node build.mjs OUT_DIR
//
//   OUT_DIR/console_assets.S   the files, by .incbin
//   OUT_DIR/console_assets.c   their table (src/daemon/serve/assets.h)
//   OUT_DIR/console_assets.d   what they were made of, for ninja
//
// Names have a hash of the content, so that browsers keep them for ever. Without npm the table is empty, and the daemon says so.
import { execFileSync } from 'node:child_process';
import { createHash } from 'node:crypto';
import fs from 'node:fs';
import path from 'node:path';
import { fileURLToPath, pathToFileURL } from 'node:url';
import { gzipSync, constants } from 'node:zlib';

const here = path.dirname(fileURLToPath(import.meta.url));
const out = path.resolve(process.argv[2]);
const dist = path.join(out, 'console');
const description = path.join(here, '../api/openapi.yaml');

/** Installs the pinned packages once for each state of the lock file. */
function install() {
  const lock = fs.readFileSync(path.join(here, 'package-lock.json'));
  const stamp = path.join(here, 'node_modules/.of-lock-file');
  if (fs.existsSync(stamp) && fs.readFileSync(stamp).equals(lock)) return;
  execFileSync('npm', ['ci', '--no-audit', '--no-fund', '--loglevel=error'], { cwd: here, stdio: ['ignore', 'ignore', 'inherit'] });
  fs.writeFileSync(stamp, lock);
}

/** The types of the API, from its description. Only written when they change: an unchanged file makes no new build. */
async function writeSchema() {
  const { schema } = await import(pathToFileURL(path.join(here, 'schema.mjs')));
  const text = schema(fs.readFileSync(description, 'utf8')), file = path.join(here, 'src/schema.ts');
  if (!fs.existsSync(file) || fs.readFileSync(file, 'utf8') !== text) fs.writeFileSync(file, text);
}

async function bundle() {
  const esbuild = await import(pathToFileURL(path.join(here, 'node_modules/esbuild/lib/main.js')));
  fs.rmSync(dist, { recursive: true, force: true });
  return (await esbuild.build({
    entryPoints: [path.join(here, 'src/main.tsx')],
    outdir: path.join(dist, 'assets'),
    absWorkingDir: here,
    bundle: true, splitting: true, format: 'esm', minify: true, metafile: true, legalComments: 'none',
    target: 'es2022', jsx: 'automatic', jsxImportSource: 'preact',
    entryNames: '[name]-[hash]', chunkNames: '[name]-[hash]', assetNames: '[name]-[hash]',
    loader: { '.svg': 'dataurl' }, logLevel: 'warning',
  })).metafile;
}

const types = { '.js': 'text/javascript; charset=utf-8', '.css': 'text/css; charset=utf-8', '.html': 'text/html; charset=utf-8', '.svg': 'image/svg+xml' };

function writeTable(files) {
  let s = '\t.section .rodata\n', c = '#include "daemon/serve/assets.h"\n\n', rows = '';
  files.forEach((file, i) => {
    const body = fs.readFileSync(path.join(dist, file));
    const packed = gzipSync(body, { level: constants.Z_BEST_COMPRESSION });
    fs.writeFileSync(path.join(dist, `${file}.gz`), packed);
    const etag = createHash('sha256').update(body).digest('hex').slice(0, 24);
    for (const [part, name] of [['plain', file], ['packed', `${file}.gz`]]) {
      s += `\t.global console_${part}_${i}\nconsole_${part}_${i}:\n\t.incbin "${path.join(dist, name)}"\n`;
      c += `extern const unsigned char console_${part}_${i}[];\n`;
    }
    const url = file === 'index.html' ? '/' : `/${file}`;
    rows += `\t{"${url}", "${types[path.extname(file)]}", "${etag}", console_plain_${i}, ${body.length}, console_packed_${i}, ${packed.length}},\n`;
  });
  s += '\t.section .note.GNU-stack,"",@progbits\n';
  c += `\nconst struct console_asset console_assets[] = {\n${rows}\t{NULL, NULL, NULL, NULL, 0, NULL, 0},\n};\n`;
  fs.writeFileSync(path.join(out, 'console_assets.S'), s);
  fs.writeFileSync(path.join(out, 'console_assets.c'), c);
}

function page(metafile) {
  const [entry, made] = Object.entries(metafile.outputs).find(([, o]) => o.entryPoint === 'src/main.tsx'); // views that are loaded later are entries too
  const name = (file) => `assets/${path.basename(file)}`;
  const css = made.cssBundle ? `<link rel="stylesheet" href="/${name(made.cssBundle)}">` : '';
  fs.writeFileSync(path.join(dist, 'index.html'), fs.readFileSync(path.join(here, 'src/index.html'), 'utf8').replace('<!-- css -->', css).replace('/main.js', `/${name(entry)}`));
}

let inputs = [];
try {
  install();
  await writeSchema();
  const metafile = await bundle();
  page(metafile);
  inputs = Object.keys(metafile.inputs).filter((f) => !f.includes('node_modules')).map((f) => path.join(here, f));
  writeTable(['index.html', ...fs.readdirSync(path.join(dist, 'assets')).sort().map((f) => `assets/${f}`)]);
} catch (error) {
  if (process.env.CI) throw error;
  console.error(`web/build.mjs: the console is left out: ${error.message}`);
  fs.mkdirSync(dist, { recursive: true });
  writeTable([]);
}
inputs.push(description, path.join(here, 'schema.mjs'), path.join(here, 'src/index.html'), path.join(here, 'package-lock.json'), path.join(here, 'build.mjs'));
fs.writeFileSync(path.join(out, 'console_assets.d'), `console_assets.S: ${inputs.join(' ')}\n`);
