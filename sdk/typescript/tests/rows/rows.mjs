// The rows of tests/compat/workers through atoll-sandbox, whatever this runs in.
import { getSandbox } from 'atoll-sandbox';
import { rows } from '../../../../tests/compat/workers/rows/index.mjs';

/** Rows about Durable Objects: their alarms, their classes, their eviction. */
const ofDurableObjects = new Set([
  'sleepAfter',
  'keepAlive',
  'setSleepAfter, setKeepAlive',
  'renewActivityTimeout, schedule',
  'a class of your own',
  'an evicted object finds its box again',
  'a wrong token is reported at once',
  'start: envVars, entrypoint, labels',
  'a failed destroy is reported',
  'an existing box keeps its settings',
]);
export const names = [...rows.keys()].filter((name) => !ofDurableObjects.has(name));

/** A row asked for something that only a Worker has. */
class NotForHere extends Error {}

/** What has a meaning outside of a Worker; asking for anything else ends the row. */
const only = (name, members) =>
  new Proxy(members, {
    get(target, key) {
      if (key in target || typeof key === 'symbol') return target[key];
      throw new NotForHere(`${name}.${key} is a Worker's`);
    },
  });

/** What code for Workers takes from its namespace: stubs, which have fetch. */
const namespace = { idFromName: (id) => id, get: (id) => getSandbox(undefined, id) };

/** Tells apart the runs that use one daemon. */
const tag = Math.random().toString(36).slice(2, 8);
let boxes = 0;

function tools(name) {
  const opened = [];
  return only('t', {
    env: only('env', { Sandbox: namespace, ATOLL_TOKEN: process.env.ATOLL_TOKEN }),
    own: true,
    opened,
    box(options) {
      const slug = name.toLowerCase().replace(/[^a-z]+/g, '-').slice(0, 30); // biome-ignore format: one thought
      const id = `r${tag}-${++boxes}-${slug}`.replace(/-+$/, '');
      opened.push(id);
      return { id, sandbox: getSandbox(undefined, id, options) };
    },
    again: (id, options) => getSandbox(undefined, id, options),
    inspect: (id) => getSandbox(undefined, id).info(),
    destroyBehindItsBack: (id) => getSandbox(undefined, id).destroy(),
  });
}

/** Runs one row with boxes of its own, which are gone after it. */
export async function run(name) {
  const t = tools(name);
  try {
    await rows.get(name).run(t);
    return { ok: true };
  } catch (error) {
    if (error instanceof NotForHere) return { skipped: error.message };
    return { ok: false, error: `${error.stack ?? error}` };
  } finally {
    await Promise.all(t.opened.map(t.destroyBehindItsBack));
  }
}
