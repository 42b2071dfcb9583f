/** The list of all boxes: live, filtered, sorted, with bulk actions. */
import { signal } from '@preact/signals';
import { useEffect, useRef, useState } from 'preact/hooks';
import { boxPath, json } from '../api';
import { boxLink, go } from '../route';
import { attempt, boxes, features, health, loadBox, loadBoxes, loaded, notice, samples, type Box } from '../state';
import { age, Button, bytes, Dialog, Empty, Field, Loading, percent, Spark, sure } from '../ui';

export const newBox = signal(false);
const filter = signal('');
const sort = signal<{ by: string; down: boolean }>({ by: 'id', down: false });
const chosen = signal<Set<string>>(new Set());
const ROW = 44, MIB = 1048576;

const lastOf = (id: string) => samples.value.get(id)?.at(-1);
const keys: Record<string, (b: Box) => string | number> = {
  id: (b) => b.id, state: (b) => b.state, image: (b) => b.image, age: (b) => -Date.parse(b.createdAt),
  cpu: (b) => lastOf(b.id)?.cpu ?? -1, memory: (b) => lastOf(b.id)?.memory ?? -1, disk: (b) => lastOf(b.id)?.disk ?? -1, net: (b) => lastOf(b.id)?.net ?? -1,
};

function shown(): Box[] {
  const words = filter.value.toLowerCase().split(/\s+/).filter(Boolean);
  const text = (b: Box) => `${b.id} ${b.state} ${b.image} ${Object.entries(b.labels ?? {}).map(([k, v]) => `${k}=${v}`).join(' ')}`.toLowerCase();
  const key = keys[sort.value.by], sign = sort.value.down ? -1 : 1;
  return [...boxes.value.values()].filter((b) => words.every((w) => text(b).includes(w)))
    .sort((a, b) => { const x = key(a), y = key(b); return sign * (x < y ? -1 : x > y ? 1 : a.id < b.id ? -1 : 1); });
}

function NewBox() {
  const close = () => { newBox.value = false; }, usual = health.value.defaults ?? {};
  const [form, setForm] = useState({ id: '', image: 'default', instance: '', memory: '', cpu: '', pids: '', disk: '', network: '', env: '' }), [taken, setTaken] = useState('');
  const set = (name: keyof typeof form) => (e: any) => setForm({ ...form, [name]: e.currentTarget.value });
  const make = (e: Event) => {
    e.preventDefault();
    setTaken(boxes.value.has(form.id) ? form.id : '');
    if (boxes.value.has(form.id)) return; // PUT would change it
    attempt(async () => {
      const limits = {
        ...(form.memory && { memory: Math.round(Number(form.memory) * MIB) }), ...(form.cpu && { cpu: Number(form.cpu) }),
        ...(form.pids && { pids: Number(form.pids) }), ...(form.disk && { disk: Math.round(Number(form.disk) * MIB) }),
      };
      const env = Object.fromEntries(form.env.split('\n').filter((l) => l.includes('=')).map((l) => [l.slice(0, l.indexOf('=')).trim(), l.slice(l.indexOf('=') + 1)]));
      await json('PUT', boxPath(form.id), {
        image: form.image || 'default', ...(Object.keys(limits).length && { limits }), ...(Object.keys(env).length && { env }),
        ...(form.instance && { instance: form.instance }), ...(form.network && { network: { mode: form.network } }),
      });
      await loadBox(form.id);
      close();
      go(boxLink(form.id).slice(1));
    });
  };
  return (
    <Dialog title="New box" onClose={close}>
      <form class="stack" onSubmit={make}>
        <Field label="Name"><input required autofocus pattern="[A-Za-z0-9._@:\-]{1,63}" value={form.id} onInput={set('id')} /></Field>
        {taken && taken === form.id && <p role="alert">There is a box {taken} already: <a href={boxLink(taken)} onClick={close}>open it</a>, or choose another name.</p>}
        <Field label="Image"><input value={form.image} onInput={set('image')} /></Field>
        {features.value.has('instances') && <Field label="Size"><select value={form.instance} onChange={set('instance')}>{['', 'lite', 'basic', 'standard-1', 'standard-2', 'standard-3', 'standard-4'].map((v) => <option value={v}>{v || 'default'}</option>)}</select></Field>}
        <div class="row">
          <Field label="Memory (MiB)"><input type="number" min="16" placeholder={String((usual.memory ?? 0) / MIB)} value={form.memory} onInput={set('memory')} /></Field>
          <Field label="CPUs"><input type="number" min="0.01" step="any" placeholder={String(usual.cpu ?? '')} value={form.cpu} onInput={set('cpu')} /></Field>
          <Field label="Processes"><input type="number" min="1" placeholder={String(usual.pids ?? '')} value={form.pids} onInput={set('pids')} /></Field>
          <Field label="Disk (MiB)"><input type="number" min="1" placeholder={String((usual.disk ?? 0) / MIB)} value={form.disk} onInput={set('disk')} /></Field>
        </div>
        {features.value.has('network') && <Field label="Network"><select value={form.network} onChange={set('network')}><option value="">default</option><option value="open">open: everything public</option><option value="list">list: only what is allowed</option><option value="off">off</option></select></Field>}
        <Field label="Variables" hint="One a line: NAME=value"><textarea rows={3} value={form.env} onInput={set('env')} /></Field>
        <div class="row end"><Button onClick={close}>Cancel</Button><Button kind="main" type="submit">Make it</Button></div>
      </form>
    </Dialog>
  );
}

/** The name of a box that may be gone. */
export const BoxName = (p: { id: string }) => (boxes.value.has(p.id) ? <a href={boxLink(p.id)}>{p.id}</a> : <>{p.id}</>);

function Totals() {
  const h = health.value, all = [...boxes.value.values()];
  const memory = all.reduce((n, b) => n + (lastOf(b.id)?.memory ?? 0), 0), cpu = all.reduce((n, b) => n + (lastOf(b.id)?.cpu ?? 0), 0);
  return (
    <dl class="totals">
      {Object.entries(h.sandboxes ?? {}).filter(([s, n]) => n || s === 'running').map(([state]) => <div><dt>{state}</dt><dd>{all.filter((b) => b.state === state).length}</dd></div>)}
      <div><dt>memory in use</dt><dd>{bytes(memory)} of {bytes(h.host?.memory)}</dd></div>
      <div><dt>CPU</dt><dd>{percent(cpu)} of {h.host?.cpu ?? '–'} cores</dd></div>
    </dl>
  );
}

function Bulk() {
  const ids = [...chosen.value].filter((id) => boxes.value.has(id));
  if (!ids.length) return null;
  const all = (verb: string, work: (id: string) => Promise<unknown>) => attempt(async () => {
    const results = await Promise.allSettled(ids.map(work));
    const bad = results.filter((r) => r.status === 'rejected') as PromiseRejectedResult[];
    notice(bad.length ? `${verb}: ${bad.length} of ${ids.length} failed: ${bad[0].reason.message}` : `${verb}: ${ids.length} done`, bad.length > 0);
    chosen.value = new Set();
    await loadBoxes();
  });
  const ask = (verb: string, more: string, work: (id: string) => Promise<unknown>) => async () => { if (await sure(`${verb} ${ids.length === 1 ? ids[0] : `${ids.length} boxes`}?${more}`, verb)) all(verb, work); };
  const post = (verb: string) => (id: string) => json('POST', boxPath(id, `/${verb}`));
  return (
    <div class="bulk" role="toolbar" aria-label="Chosen boxes">
      <strong>{ids.length} chosen</strong>
      {features.value.has('lifecycle') && <><Button onClick={ask('Sleep', '', post('sleep'))}>Sleep</Button><Button onClick={ask('Wake', '', post('wake'))}>Wake</Button><Button onClick={ask('Stop', ' Their processes end; their files stay.', post('stop'))}>Stop</Button></>}
      <Button kind="danger" onClick={ask('Destroy', ' Their files go too.', (id) => json('DELETE', boxPath(id)))}>Destroy</Button>
    </div>
  );
}

function Row(p: { box: Box }) {
  const { box } = p, list = samples.value.get(box.id) ?? [], now = box.state === 'running' ? list.at(-1) : undefined;
  const toggle = () => { const next = new Set(chosen.value); if (!next.delete(box.id)) next.add(box.id); chosen.value = next; };
  return (
    <tr style={{ height: `${ROW}px` }}>
      <td><input type="checkbox" aria-label={`Choose ${box.id}`} checked={chosen.value.has(box.id)} onChange={toggle} /></td>
      <th scope="row"><a href={boxLink(box.id)}>{box.id}</a>{Object.entries(box.labels ?? {}).map(([k, v]) => <span class="label">{k}={v}</span>)}</th>
      <td class="why"><span class={`state ${box.state}`}>{box.state}</span>{box.reason && <small title={box.reason}>{box.reason}</small>}</td>
      <td class="wide-only">{box.image}</td>
      <td class="number wide-only">{age(box.createdAt)}</td>
      <td class="number">{now ? percent(now.cpu) : '–'} <Spark values={list.map((s) => s.cpu)} max={box.limits.cpu} label={`CPU of ${box.id}`} /></td>
      <td class="number">{now ? bytes(now.memory) : '–'} <Spark values={list.map((s) => s.memory)} max={box.limits.memory} label={`Memory of ${box.id}`} /></td>
      <td class="number wide-only">{now ? bytes(now.disk) : '–'} <Spark values={list.map((s) => s.disk ?? 0)} max={box.limits.disk} label={`Disk of ${box.id}`} /></td>
      <td class="number wide-only">{now ? `${bytes(now.net)}/s` : '–'} <Spark values={list.map((s) => s.net)} label={`Network of ${box.id}`} /></td>
    </tr>
  );
}

function Head(p: { by: string; children: string; class?: string }) {
  const mine = sort.value.by === p.by;
  return <th scope="col" class={p.class} aria-sort={mine ? (sort.value.down ? 'descending' : 'ascending') : 'none'}><button class="sort" type="button" onClick={() => { sort.value = { by: p.by, down: mine && !sort.value.down }; }}>{p.children}{mine ? (sort.value.down ? ' ↓' : ' ↑') : ''}</button></th>;
}

export function Boxes() {
  const scroller = useRef<HTMLDivElement>(null), search = useRef<HTMLInputElement>(null);
  const [top, setTop] = useState(0);
  useEffect(() => {
    document.title = 'Atoll';
    const onKey = (e: KeyboardEvent) => { if (e.key === '/' && !(e.target as HTMLElement).closest('input, textarea, select')) { e.preventDefault(); search.current?.focus(); } };
    addEventListener('keydown', onKey);
    return () => removeEventListener('keydown', onKey);
  }, []);
  const list = shown(), first = Math.max(0, Math.floor(top / ROW) - 5), visible = list.slice(first, first + 60);
  const all = list.length > 0 && list.every((b) => chosen.value.has(b.id));
  return (
    <section class="page" aria-labelledby="boxes-title">
      <div class="row"><h1 id="boxes-title">Boxes</h1><span class="grow" /><input ref={search} type="search" size={32} aria-label="Filter" placeholder="Filter: name, state, image, label" value={filter.value} onInput={(e) => { filter.value = e.currentTarget.value; }} /><Button kind="main" onClick={() => { newBox.value = true; }}>New box</Button></div>
      <Totals />
      <Bulk />
      {!loaded.value ? <Loading /> : !boxes.value.size ? (
        <Empty title="Nothing here yet"><p>Make one here, or run <code>atoll exec hello -- uname -a</code>.</p><Button kind="main" onClick={() => { newBox.value = true; }}>New box</Button></Empty>
      ) : (
        <div class="table" ref={scroller} tabIndex={0} role="region" aria-label="List of boxes" onScroll={(e) => setTop(e.currentTarget.scrollTop)}>
          <table>
            <thead><tr>
              <th scope="col"><input type="checkbox" aria-label="Choose all" checked={all} onChange={() => { chosen.value = all ? new Set() : new Set(list.map((b) => b.id)); }} /></th>
              <Head by="id">Name</Head><Head by="state">State</Head><Head by="image" class="wide-only">Image</Head><Head by="age" class="number wide-only">Age</Head><Head by="cpu" class="number">CPU</Head><Head by="memory" class="number">Memory</Head><Head by="disk" class="number wide-only">Disk</Head><Head by="net" class="number wide-only">Network</Head>
            </tr></thead>
            <tbody>
              {first > 0 && <tr aria-hidden="true" style={{ height: `${first * ROW}px` }} />}
              {visible.map((b) => <Row key={b.id} box={b} />)}
              {first + visible.length < list.length && <tr aria-hidden="true" style={{ height: `${(list.length - first - visible.length) * ROW}px` }} />}
            </tbody>
          </table>
          {!list.length && <p class="pad">No box fits the filter.</p>}
        </div>
      )}
      {newBox.value && <NewBox />}
    </section>
  );
}
