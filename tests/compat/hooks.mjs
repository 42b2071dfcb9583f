// Plain Node has no `cloudflare:workers`: the package imports a few base classes from it that its HTTP client never uses.
const stub = `
export class RpcTarget {}
export class DurableObject { constructor(ctx, env) { this.ctx = ctx; this.env = env; } }
export class WorkerEntrypoint {}
export const env = {};
export const exports = {};
export const tracing = { enterSpan: (name, run) => run({ setAttribute() {}, isTraced: false }) };
`;

export async function resolve(specifier, context, next) {
  if (specifier === 'cloudflare:workers')
    return { url: `data:text/javascript,${encodeURIComponent(stub)}`, shortCircuit: true };
  // @cloudflare/containers is written for bundlers: its relative imports have no extension.
  try {
    return await next(specifier, context);
  } catch (error) {
    if (error.code === 'ERR_MODULE_NOT_FOUND' && specifier.startsWith('.')) return next(`${specifier}.js`, context);
    throw error;
  }
}

// The class behind `transport: 'rpc'` is not among the package's exports: the module gets one more export, and stays as it is.
export async function load(url, context, next) {
  const loaded = await next(url, context);
  if (!/\/@cloudflare\/sandbox\/dist\/sandbox-[^/]*\.js$/.test(url)) return loaded;
  return { ...loaded, source: `${loaded.source}\nexport { ContainerControlClient };\n` };
}
