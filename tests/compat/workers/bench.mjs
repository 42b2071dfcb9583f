// node workers/bench.mjs N: what the unmodified class costs in workerd, beside the least a Worker can do. Prints samples
// as JSON, in microseconds. The contestants take turns, so that both see the same machine.
import { fileURLToPath } from 'node:url';
import { start } from './workerd.mjs';

const n = Number(process.argv[2] ?? 250);
const BURST = 25;
const { miniflare } = await start(fileURLToPath(new URL('bench_worker.mjs', import.meta.url)), ['Sandbox', 'Hollow', 'Floor']);
const origin = await miniflare.ready;
const KINDS = ['exec', 'hollow', 'floor'];
const empty = () => Object.fromEntries(KINDS.map((kind) => [kind, []]));
const out = { warm: empty(), cold: empty(), burst: empty() };

async function ask(path) {
  const response = await fetch(new URL(path, origin));
  const text = await response.text();
  if (!response.ok) throw new Error(`${path}: ${response.status} ${text}`);
  return text;
}

async function timed(list, work) {
  const before = performance.now();
  await work();
  list.push(Math.round((performance.now() - before) * 1000));
}

try {
  for (const kind of KINDS) await ask(`/${kind}/bench`);
  for (let i = 0; i < n; i++) for (const kind of KINDS) await timed(out.warm[kind], () => ask(`/${kind}/bench`));
  for (let i = 0; i < n / 5; i++)
    for (const kind of KINDS) {
      await timed(out.cold[kind], () => ask(`/${kind}/cold-${kind}-${i}`));
      if (kind !== 'hollow') await ask(`/destroy/cold-${kind}-${i}`);
    }
  for (let i = 0; i < 5; i++)
    for (const kind of KINDS) {
      const ids = Array.from({ length: BURST }, (_, k) => `burst-${kind}-${i}-${k}`);
      await timed(out.burst[kind], () => Promise.all(ids.map((id) => ask(`/${kind}/${id}`))));
      if (kind !== 'hollow') await Promise.all(ids.map((id) => ask(`/destroy/${id}`)));
    }
  console.log(JSON.stringify(out));
} finally {
  await ask('/destroy/bench').catch(() => {});
  await miniflare.dispose();
}
