/** The daemon and its machine. */
import { useEffect, useState } from 'preact/hooks';
import { json, request } from '../api';
import { Chart } from '../chart';
import { attempt, boxes, health, samples } from '../state';
import { bytes, Loading } from '../ui';
import { lazy } from '../lazy';

const Parts = lazy(() => import('./host_parts').then((m) => m.Parts));

interface Point { time: number; requests: number; memory: number; boxes: number; ms: number }

/** The counters of /metrics that the charts need. */
function readMetrics(text: string) {
  let requests = 0, seconds = 0;
  for (const line of text.split('\n')) {
    const m = /^(atoll_\w+)(?:\{[^}]*\})? ([\d.e+-]+)$/.exec(line);
    if (!m) continue;
    if (/^atoll_(http_)?requests?_total$/.test(m[1])) requests += Number(m[2]);
    if (/request.*_seconds_sum$/.test(m[1])) seconds += Number(m[2]);
  }
  return { requests, seconds };
}

export function Host() {
  const [points, setPoints] = useState<Point[]>([]);
  useEffect(() => {
    document.title = 'Host · Atoll';
    let before: { time: number; requests: number; seconds: number } | undefined;
    const look = () => attempt(async () => {
      const now = { time: Date.now(), ...readMetrics(await (await request('GET', '/metrics')).text()) };
      health.value = await json('GET', '/v1/health');
      if (before) {
        const n = now.requests - before.requests, s = (now.time - before.time) / 1000;
        const memory = [...boxes.value.keys()].reduce((sum, id) => sum + (samples.value.get(id)?.at(-1)?.memory ?? 0), 0);
        const point = { time: now.time, requests: n / s, memory: memory / 1048576, boxes: boxes.value.size, ms: n ? (1000 * (now.seconds - before.seconds)) / n : 0 };
        setPoints((list) => [...list.slice(-300), point]);
      }
      before = now;
    });
    look();
    const t = setInterval(look, 2000);
    return () => clearInterval(t);
  }, []);
  const h = health.value, times = points.map((p) => p.time);
  if (!h.version || h.uptimeSeconds === undefined) return <Loading />;
  const facts: [string, string][] = [['Version', h.version], ['State', h.status ?? ''], ['Up for', `${Math.floor(h.uptimeSeconds / 60)} min`], ['Warden', h.warden ? 'up' : 'away'], ['Memory', bytes(h.host?.memory)], ['CPUs', String(h.host?.cpu)], ['cgroups', `v${h.host?.cgroupVersion === 12 ? '1 and v2' : h.host?.cgroupVersion}`]];
  return (
    <section class="page" aria-labelledby="host-title">
      <h1 id="host-title">Host</h1>
      <dl class="totals">{facts.map(([k, v]) => <div><dt>{k}</dt><dd>{v}</dd></div>)}</dl>
      <div class="charts"><Chart title="Requests a second" times={times} values={points.map((p) => p.requests)} /><Chart title="Mean latency (ms)" times={times} values={points.map((p) => p.ms)} /><Chart title="Boxes" times={times} values={points.map((p) => p.boxes)} /><Chart title="Memory of boxes (MiB)" times={times} values={points.map((p) => p.memory)} /></div>
      <Parts />
    </section>
  );
}
