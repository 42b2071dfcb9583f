/** The JavaScript runtime, as far as it matters for reaching Atoll. `web`: nothing but `fetch` (Workers, browsers). */
export type Runtime = 'node' | 'bun' | 'deno' | 'web';

const globals = globalThis as any;

export function runtime(): Runtime {
  if (globals.Bun) return 'bun';
  if (globals.Deno) return 'deno';
  // Workers may have `process` too (nodejs_compat).
  if (globals.navigator?.userAgent === 'Cloudflare-Workers') return 'web';
  return globals.process?.versions?.node ? 'node' : 'web';
}

/** A variable of the environment, if the runtime has one and allows reading it. */
export function environment(name: string): string | undefined {
  try {
    return globals.process?.env?.[name] || globals.Deno?.env?.get(name) || undefined;
  } catch {
    return undefined;
  }
}

/** A module of Node. No `import()` is written out: bundlers for Workers would look for the module, or refuse it. */
export async function nodeModule<T>(name: string): Promise<T> {
  const specifier = `node:${name}`;
  const builtin = globals.process?.getBuiltinModule?.(specifier);
  // Before Node 20.16.
  return builtin ?? (await new Function('specifier', 'return import(specifier)')(specifier));
}
