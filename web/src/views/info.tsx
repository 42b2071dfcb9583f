/** Limits, usage of the last hour, events, variables, and how to use this very box from a program. */
import { useEffect, useState } from 'preact/hooks';
import { boxPath, json } from '../api';
import { Chart } from '../chart';
import { attempt, counters, loadBox, notice, rates, recent, samples, type Box } from '../state';
import type { UsageSample } from '../schema';
import { age, Button, bytes, clock, copy, Field } from '../ui';

const MIB = 1048576, mib = (n: number | undefined) => String((n ?? 0) / MIB);
const snippets = (id: string): Record<string, string> => ({
  TypeScript: `import { getSandbox } from 'atoll-sandbox';\n\nconst sandbox = getSandbox({ url: '${location.origin}', token: process.env.ATOLL_TOKEN }, '${id}');\nconsole.log((await sandbox.exec('uname -a')).stdout);`,
  Python: `from atoll_sandbox import Sandbox\n\nwith Sandbox("${id}", url="${location.origin}") as sandbox:\n    print(sandbox.exec("uname -a").stdout)`,
  curl: `curl -H "Authorization: Bearer $ATOLL_TOKEN" -d '{"command": "uname -a"}' \\\n  ${location.origin}/v1/sandboxes/${encodeURIComponent(id)}/api/execute`,
  CLI: `atoll exec ${id} -- uname -a`,
});

export function Info(p: { id: string; active: boolean; box: Box }) {
  const { box } = p, [form, setForm] = useState({ memory: mib(box.limits.memory), cpu: String(box.limits.cpu), pids: String(box.limits.pids), disk: mib(box.limits.disk) });
  const [hour, setHour] = useState<UsageSample[]>([]), [lang, setLang] = useState('TypeScript');
  useEffect(() => {
    if (!p.active) return undefined;
    const load = () => attempt(async () => { await loadBox(p.id); setHour((await json('GET', boxPath(p.id, '/usage'))).samples); });
    load();
    const t = setInterval(load, 10000);
    return () => clearInterval(t);
  }, [p.active]);
  const save = (e: Event) => { e.preventDefault(); attempt(async () => { await json('PUT', boxPath(p.id), { limits: { memory: Math.round(Number(form.memory) * MIB), cpu: Number(form.cpu), pids: Number(form.pids), disk: Math.round(Number(form.disk) * MIB) } }); await loadBox(p.id); notice('The limits are changed'); }); };
  const set = (k: keyof typeof form) => (e: any) => setForm({ ...form, [k]: e.currentTarget.value });
  const past = hour.slice(1).map((s, i) => ({ time: Date.parse(s.time), memory: s.memory, disk: s.disk, ...rates(counters(hour[i]!), counters(s)) }));
  const live = samples.value.get(p.id) ?? [], series = [...past.filter((s) => s.time < (live[0]?.time ?? Infinity)), ...live], times = series.map((s) => s.time);
  const facts: [string, string][] = [['Image', box.image], ['Made', `${age(box.createdAt)} ago`], ['Sleeps after', box.sleepAfter ? `${box.sleepAfter} s` : 'never'], ['Memory now', bytes(box.usage?.memory)], ['Memory peak', bytes(box.usage?.memoryPeak)], ['CPU time', box.usage ? `${box.usage.cpuSeconds.toFixed(1)} s` : '–'], ['Processes', String(box.usage?.pids ?? '–')], ['Ended for memory', String(box.usage?.oomKills ?? 0)],
    ...(box.disk ? [['Disk', `${bytes(box.disk.used ?? box.usage?.disk)} of ${bytes(box.limits.disk)}`] as [string, string]] : [])];
  return (
    <div class="page">
      <dl class="totals">{facts.map(([k, v]) => <div><dt>{k}</dt><dd>{v}</dd></div>)}</dl>
      <h2>Usage</h2>
      <div class="charts"><Chart title="CPU (cores)" times={times} values={series.map((s) => s.cpu)} /><Chart title="Memory (MiB)" times={times} values={series.map((s) => s.memory / MIB)} />
        {series.some((s) => s.disk !== undefined) && <Chart title="Disk (MiB)" times={times} values={series.map((s) => (s.disk ?? 0) / MIB)} />}<Chart title="Network (KiB/s)" times={times} values={series.map((s) => s.net / 1024)} /></div>
      <h2>Limits</h2>
      <form class="row" onSubmit={save}><Field label="Memory (MiB)"><input type="number" min="16" value={form.memory} onInput={set('memory')} /></Field><Field label="CPUs"><input type="number" min="0.01" step="any" value={form.cpu} onInput={set('cpu')} /></Field><Field label="Processes"><input type="number" min="1" value={form.pids} onInput={set('pids')} /></Field><Field label="Disk (MiB)"><input type="number" min="1" value={form.disk} onInput={set('disk')} /></Field><Button kind="main" type="submit">Change</Button></form>
      <h2>Variables</h2>
      <p>{box.envNames.length ? box.envNames.map((n) => <code class="label">{n}</code>) : 'None.'}</p>
      <h2>Use it from a program</h2>
      <div class="row" role="group" aria-label="Language">{Object.keys(snippets(p.id)).map((l) => <button type="button" class={l === lang ? 'subtab on' : 'subtab'} aria-pressed={l === lang} onClick={() => setLang(l)}>{l}</button>)}<span class="grow" /><Button onClick={() => copy(snippets(p.id)[lang])}>Copy</Button></div>
      <pre class="snippet" tabIndex={0}>{snippets(p.id)[lang]}</pre>
      <h2>Events</h2>
      <ul class="events">{recent.value.filter((e) => e.sandbox === p.id).slice(0, 30).map((e) => <li><time>{clock(e.time)}</time> {e.type}{e.reason ? `: ${e.reason}` : ''}</li>)}</ul>
    </div>
  );
}
