import module, { createRequire } from 'node:module';
import { extname } from 'node:path';
import { pathToFileURL } from 'node:url';

type Compiler = (path: string, source: string) => string | Promise<string>;

/** A package of the program's, else one beside this package; undefined if there is none. */
async function packageFor<T>(path: string, name: string): Promise<T | undefined> {
  for (const from of [path, import.meta.url]) {
    try {
      const found = await import(pathToFileURL(createRequire(from).resolve(name)).href);
      return found.default ?? found;
    } catch {
      // Not here.
    }
  }
  return undefined;
}

async function withEsbuild(path: string): Promise<Compiler | undefined> {
  const esbuild = await packageFor<any>(path, 'esbuild');
  if (typeof esbuild?.transform !== 'function') return undefined;
  return async (file, source) => {
    const loader = extname(file).replace(/^\.m?/, '') as 'ts' | 'tsx' | 'jsx';
    const options = {
      loader,
      format: 'esm',
      target: 'node20',
      sourcemap: 'inline',
      sourcefile: file,
      logLevel: 'silent',
    };
    return (await esbuild.transform(source, options)).code;
  };
}

/** Node's own, from 22.13 on. */
function withNode(path: string): Compiler | undefined {
  const strip = (module as any).stripTypeScriptTypes;
  if (typeof strip !== 'function' || /x$/.test(path)) return undefined;
  return (file, source) => strip(source, { mode: 'transform', sourceMap: true, sourceUrl: file });
}

async function withTypeScript(path: string): Promise<Compiler | undefined> {
  const ts = await packageFor<any>(path, 'typescript');
  if (typeof ts?.transpileModule !== 'function') return undefined;
  const compilerOptions = { module: 99, target: 9, jsx: 2, inlineSourceMap: true };
  return (fileName, source) => ts.transpileModule(source, { fileName, compilerOptions }).outputText;
}

let chosen: Compiler | undefined;

/** TypeScript as JavaScript, with what there is to compile it: this package depends on nothing. */
export async function compile(path: string, source: string): Promise<string> {
  chosen ??= (await withEsbuild(path)) ?? withNode(path) ?? (await withTypeScript(path));
  if (!chosen)
    throw new Error(
      `${path} is TypeScript, which Node ${process.versions.node} does not read by itself. ` +
        'Use Node 22.13 or newer, or install a compiler beside the program: npm install --save-dev esbuild',
    );
  return chosen(path, source);
}
