/** Snapshots, forks, differences; backups, mounts and volumes where the daemon has them. */
import { useEffect, useState } from 'preact/hooks';
import { boxPath, json } from '../api';
import { lazy } from '../lazy';
import { boxLink, go } from '../route';
import { attempt, loadBoxes, notice, type Box } from '../state';
import { age, Button, bytes, Empty, Field, Loading, sure } from '../ui';

const Storage = lazy(() => import('./storage').then((m) => m.Storage));

export function Snapshots(p: { id: string; active: boolean; box: Box }) {
  const [list, setList] = useState<any[]>(), [name, setName] = useState(''), [diff, setDiff] = useState<any>();
  const load = async () => setList((await json('GET', boxPath(p.id, '/snapshots'))).snapshots);
  useEffect(() => { if (p.active) attempt(load); }, [p.active]);
  const make = (e: Event) => { e.preventDefault(); attempt(async () => { await json('POST', boxPath(p.id, '/snapshots'), name ? { name } : {}); setName(''); await load(); }); };
  const restore = async (s: any) => { if (await sure(`Put the files of ${p.id} back to ${s.name || s.id}? Its processes end.`, 'Restore')) attempt(async () => { await json('POST', boxPath(p.id, '/restore'), { snapshot: s.id }); notice('restored'); }); };
  const fork = (body: object) => attempt(async () => { const made = await json('POST', boxPath(p.id, '/fork'), body); await loadBoxes(); const first = made.sandboxes?.[0]?.id ?? made.ids?.[0]; if (first) go(boxLink(first).slice(1)); });
  if (!list) return <Loading />;
  return (
    <div class="page">
      <form class="row" onSubmit={make}><Field label="Name"><input placeholder="optional" value={name} onInput={(e) => setName(e.currentTarget.value)} /></Field><Button kind="main" type="submit">Make a snapshot</Button><Button onClick={() => fork({ count: 1 })}>Fork this box</Button></form>
      {!list.length ? <Empty title="No snapshots"><p>A snapshot keeps the files as they are now; restoring it takes milliseconds.</p></Empty> : (
        <div class="table short" tabIndex={0} role="region" aria-label="List of snapshots"><table><thead><tr><th scope="col">Snapshot</th><th scope="col" class="number">Age</th><th scope="col" class="number">Size</th><th scope="col"><span class="hidden">Actions</span></th></tr></thead>
          <tbody>{list.map((s) => <tr key={s.id}><th scope="row">{s.name || s.id}</th><td class="number">{age(s.createdAt)}</td><td class="number">{bytes(s.size)}</td><td class="row end">
            <Button onClick={() => attempt(async () => setDiff(await json('GET', boxPath(p.id, `/diff?from=${encodeURIComponent(s.id)}`))))}>Diff</Button><Button onClick={() => restore(s)}>Restore</Button>
            <Button kind="danger" onClick={async () => { if (await sure(`Delete the snapshot ${s.name || s.id}?`, 'Delete')) attempt(async () => { await json('DELETE', boxPath(p.id, `/snapshots/${encodeURIComponent(s.id)}`)); await load(); }); }}>Delete</Button></td></tr>)}</tbody></table></div>)}
      {diff && <><h2>Changes since then</h2><pre class="diff">{['added', 'changed', 'deleted'].flatMap((kind) => diff[kind].map((path: string) => `${kind.padEnd(9)}${path}\n`)).join('') || 'nothing changed'}{diff.truncated ? '… and more' : ''}</pre></>}
      <Storage id={p.id} active={p.active} box={p.box} />
    </div>
  );
}
