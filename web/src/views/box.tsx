/** One box: its tabs. A tab that was opened stays as it is while the others are looked at. */
import { lazy } from '../lazy';
import { useEffect, useState } from 'preact/hooks';
import { boxPath, json } from '../api';
import { boxLink, go } from '../route';
import { attempt, boxes, features, forget, loadBox, loaded } from '../state';
import { Button, Empty, Loading, sure } from '../ui';
import { Info } from './info';
import { Network } from './network';
import { Preview } from './preview';
import { Processes } from './processes';
import { Snapshots } from './snapshots';

const Terminal = lazy(() => import('./terminal').then((m) => m.Terminals));
const Files = lazy(() => import('./files').then((m) => m.Files));
const Notebook = lazy(() => import('./notebook').then((m) => m.Notebook));

const VIEWS: Record<string, { view: any; needs?: string }> = {
  Terminal: { view: Terminal }, Files: { view: Files }, Notebook: { view: Notebook }, Processes: { view: Processes }, Preview: { view: Preview },
  Network: { view: Network, needs: 'network' }, Snapshots: { view: Snapshots, needs: 'snapshots' }, Info: { view: Info },
};
/** The tabs that this daemon has. */
export const TABS = () => Object.keys(VIEWS).filter((t) => !VIEWS[t].needs || features.value.has(VIEWS[t].needs!));

export function BoxView(p: { id: string; tab?: string | undefined }) {
  const { id } = p, tabs = TABS(), tab = tabs.includes(p.tab ?? '') ? p.tab! : 'Terminal';
  const [opened, setOpened] = useState<string[]>([]);
  const [clicks, setClicks] = useState(0);
  useEffect(() => { document.title = `${id} · Atoll`; }, [id]);
  useEffect(() => { if (!opened.includes(tab)) setOpened([...opened, tab]); }, [tab]);
  const known = boxes.value.get(id), [leaving, setLeaving] = useState(false);
  // While it is being stopped, views ask nothing of it: a request would start it again.
  const box = known && leaving ? { ...known, state: 'stopped' as const } : known;
  if (!box && !loaded.value) return <Loading />;
  if (!box) return <Empty title={`There is no box '${id}'`}><p><a href="#/">All boxes</a></p><Button kind="main" onClick={() => attempt(async () => { await json('PUT', boxPath(id), {}); await loadBox(id); })}>Make it</Button></Empty>;
  const act = (verb: string) => attempt(async () => {
    setLeaving(verb !== 'wake');
    try {
      await json('POST', boxPath(id, `/${verb}`));
      await loadBox(id);
    } finally {
      setLeaving(false);
    }
  });
  const onKey = (e: KeyboardEvent) => {
    const step = e.key === 'ArrowRight' ? 1 : e.key === 'ArrowLeft' ? -1 : 0;
    if (!step) return;
    const next = tabs[(tabs.indexOf(tab) + step + tabs.length) % tabs.length];
    go(boxLink(id, next).slice(1));
    document.getElementById(`tab-${next}`)?.focus();
  };
  return (
    <section class="box" aria-labelledby="box-title">
      <div class="row head">
        <h1 id="box-title">{id}</h1><span class={`state ${known!.state}`} title={box.reason}>{known!.state}</span>{box.reason && <span class="reason">{box.reason}</span>}
        <span class="grow" />
        {features.value.has('lifecycle') && (box.state === 'asleep' ? <Button onClick={() => act('wake')}>Wake</Button> : box.state === 'running' ? <><Button onClick={() => act('sleep')}>Sleep</Button><Button onClick={async () => { if (await sure(`Stop ${id}? Its processes end; its files stay.`, 'Stop')) act('stop'); }}>Stop</Button></> : box.state === 'stopped' ? <Button kind="main" onClick={() => attempt(async () => { await json('GET', boxPath(id, '/api/ping')); await loadBox(id); })}>Start</Button> : null)}
        <Button kind="danger" onClick={async () => { if (await sure(`Destroy ${id} with all its files?`, 'Destroy')) attempt(async () => { await json('DELETE', boxPath(id)); go('/'); forget(id); }); }}>Destroy</Button>
      </div>
      <div class="tabs" role="tablist" aria-label={`Views of ${id}`} onKeyDown={onKey}>
        {tabs.map((t) => <button type="button" role="tab" id={`tab-${t}`} aria-selected={t === tab} aria-controls={`panel-${t}`} tabIndex={t === tab ? 0 : -1} onClick={() => { go(boxLink(id, t).slice(1)); setClicks(clicks + 1); }}>{t}</button>)}
      </div>
      {tabs.filter((t) => t === tab || opened.includes(t)).map((t) => {
        const View = VIEWS[t].view;
        return <div key={t} class="panel" role="tabpanel" id={`panel-${t}`} aria-labelledby={`tab-${t}`} hidden={t !== tab}><View id={id} box={box} active={t === tab} clicks={clicks} /></div>;
      })}
    </section>
  );
}
