/* Runs in Node's thread for module hooks. Every file of the program is loaded under a URL with `?atoll=N`, N being the
 * number of the load: Node keeps modules by URL, and a new number makes it load the whole program again. */
import { existsSync, statSync } from 'node:fs';
import { readFile } from 'node:fs/promises';
import { extname } from 'node:path';
import { fileURLToPath, pathToFileURL } from 'node:url';
import type { MessagePort } from 'node:worker_threads';
import { compile } from './compile.js';

type Next<Context, Result> = (name: string, context?: Context) => Promise<Result>;
interface ResolveContext {
  parentURL?: string;
}
interface Resolved {
  url: string;
  format?: string;
  shortCircuit?: boolean;
}
interface Loaded {
  format: string;
  source?: string | Uint8Array;
  shortCircuit?: boolean;
}

const extensions = ['.ts', '.tsx', '.mts', '.js', '.mjs', '/index.ts', '/index.js'];
const texts = new Set(['.txt', '.html', '.sql', '.md']);
const packages: Record<string, string> = {
  '': './cloudflare.js',
  '/openai': '../openai/index.js',
  '/xterm': '../xterm/index.js',
};

let files: MessagePort | undefined;

export function initialize(data: { files: MessagePort }): void {
  files = data.files;
}

/** A module of this package, for imports of `@cloudflare/sandbox` and of `atoll-sandbox` itself. */
function ownModule(specifier: string): string | undefined {
  const match = /^(?:@cloudflare\/sandbox|atoll-sandbox)(\/.*)?$/.exec(specifier);
  const path = match ? packages[match[1] ?? ''] : undefined;
  return path && new URL(path, import.meta.url).href;
}

const isFile = (path: string) => existsSync(path) && statSync(path).isFile();

/** The file that a bundler would find: without its extension, or TypeScript under the name of its output. */
function fileFor(specifier: string, parent: string): string | undefined {
  if (!/^\.{0,2}\//.test(specifier)) return undefined;
  const path = fileURLToPath(new URL(specifier, parent));
  const typescript = path.replace(/\.([mc]?)js$/, '.$1ts');
  const found = [typescript, ...extensions.map((extension) => path + extension)].find(isFile);
  return found && pathToFileURL(found).href;
}

export async function resolve(
  specifier: string,
  context: ResolveContext,
  next: Next<ResolveContext, Resolved>,
): Promise<Resolved> {
  const version = /[?&]atoll=(\d+)$/.exec(context.parentURL ?? specifier)?.[1];
  if (version === undefined) return next(specifier, context);
  const own = ownModule(specifier);
  if (own) return { url: own, shortCircuit: true };
  if (specifier.startsWith('cloudflare:'))
    throw new Error(
      `${fileURLToPath(context.parentURL!)} imports '${specifier}', which only workerd has. Programs with Durable Objects, ` +
        'entrypoints or bindings run in workerd, with onAtoll() of atoll-sandbox/workers around their Sandbox class: see docs/moving.md.',
    );
  const resolved = await next(specifier, context).catch((error) => {
    const url = context.parentURL && fileFor(specifier, context.parentURL);
    if (!url) throw error;
    return { url } as Resolved;
  });
  if (!isOfProgram(resolved.url)) return resolved;
  const url = resolved.url.replace(/\?.*$/, '');
  return { ...resolved, url: `${url}?atoll=${version}`, shortCircuit: true };
}

const isOfProgram = (url: string) => url.startsWith('file:') && !url.includes('/node_modules/');

/** CommonJS that Node has to load as such. */
const isCommonJs = (source: string) =>
  /\b(module\.exports|exports\.\w+)\s*=/.test(source) && !/^\s*(import|export)\b/m.test(source);

export async function load(url: string, context: object, next: Next<object, Loaded>): Promise<Loaded> {
  if (!/\?atoll=\d+$/.test(url)) return next(url, context);
  const path = fileURLToPath(url.replace(/\?.*$/, ''));
  files?.postMessage(path);
  const type = extname(path);
  if (type === '.cjs' || type === '.wasm' || type === '.node') return next(url, context);
  const source = await readFile(path, 'utf8');
  const asModule = (text: string): Loaded => ({ format: 'module', source: text, shortCircuit: true });
  if (type === '.json') return asModule(`export default ${source};`);
  if (texts.has(type)) return asModule(`export default ${JSON.stringify(source)};`);
  if (/^\.(m?ts|tsx|jsx)$/.test(type)) return asModule(await compile(path, source));
  return isCommonJs(source) ? next(url, context) : asModule(source);
}
