// The classes behind the connection to a container are not among the package's exports: the module gets one more export, and
// stays as it is.
export { resolve } from '../hooks.mjs';

export async function load(url, context, next) {
  const loaded = await next(url, context);
  if (!/\/@cloudflare\/sandbox\/dist\/sandbox-[^/]*\.js$/.test(url)) return loaded;
  return { ...loaded, source: `${loaded.source}\nexport { ContainerControlConnection };\n` };
}
