/** Backups, bucket mounts and volumes of a box. */
import { useEffect, useState } from 'preact/hooks';
import { boxPath, json } from '../api';
import type { Backup, MountSpec, Sandbox, Volume, VolumeUse } from '../schema';
import { attempt, features, loadBox, loadBoxes, notice } from '../state';
import { age, Button, bytes, Field, sure } from '../ui';

const MAKING_EVERY = 500, SCHEDULED_EVERY = 3000;
const text = (e: Event) => (e.currentTarget as HTMLInputElement).value;

export function Backups(p: { id: string; active: boolean; box: Sandbox }) {
  const schedule = p.box.backup;
  const [list, setList] = useState<Backup[]>([]), [name, setName] = useState(''), [every, setEvery] = useState(schedule?.every ?? ''), [keep, setKeep] = useState(String(schedule?.keep ?? 24));
  const load = async () => setList((await json('GET', boxPath(p.id, '/backups'))).backups);
  const making = list.some((b) => b.state === 'making');
  useEffect(() => { if (p.active) attempt(load); }, [p.active]);
  useEffect(() => {
    if (!p.active || (!making && !schedule)) return undefined;
    const t = setInterval(() => attempt(load), making ? MAKING_EVERY : SCHEDULED_EVERY);
    return () => clearInterval(t);
  }, [making, !schedule, p.active]);
  const make = (e: Event) => { e.preventDefault(); attempt(async () => { await json('POST', boxPath(p.id, '/backups'), { ...(name && { name }), wait: false }); setName(''); await load(); }); };
  const restore = async (b: Backup) => { if (await sure(`Put the files of ${p.id} back to the backup ${b.name || b.id}? Its processes end.`, 'Restore')) attempt(async () => { await json('POST', boxPath(p.id, '/restore'), { backup: b.id }); notice('The files are back'); }); };
  const remove = async (b: Backup) => { if (await sure(`Delete the backup ${b.name || b.id}?`, 'Delete')) attempt(async () => { await json('DELETE', `/v1/backups/${encodeURIComponent(b.id)}`); await load(); }); };
  const plan = (e: Event) => { e.preventDefault(); attempt(async () => { await json('PUT', boxPath(p.id), { backup: every ? { every, keep: Number(keep) } : null }); await loadBox(p.id); notice(every ? `A backup is made every ${every}` : 'No backups are made by the clock'); }); };
  return (
    <section aria-labelledby="backups">
      <h2 id="backups">Backups</h2>
      <form class="row" onSubmit={make}><Field label="New backup"><input placeholder="name, optional" value={name} onInput={(e) => setName(text(e))} /></Field><Button kind="main" type="submit">Back up now</Button></form>
      {!list.length ? <p>No backups of this box. A backup outlives it, and holds its files and settings.</p> : (
        <div class="table short" tabIndex={0} role="region" aria-label="List of backups"><table><thead><tr><th scope="col">Backup</th><th scope="col">State</th><th scope="col" class="number">Age</th><th scope="col" class="number">Size</th><th scope="col"><span class="hidden">Actions</span></th></tr></thead>
          <tbody>{list.map((b) => <tr key={b.id}><th scope="row">{b.name || b.id}{b.scheduled && <span class="label">by the clock</span>}</th><td class="why"><span class={`state ${b.state === 'ready' ? 'running' : b.state === 'failed' ? 'failed' : 'creating'}`}>{b.state}</span>{b.error && <small title={b.error}>{b.error}</small>}</td><td class="number">{age(b.createdAt)}</td><td class="number">{bytes(b.state === 'making' ? b.bytes : b.size)}</td><td class="row end">
            {b.state === 'ready' && <Button onClick={() => restore(b)}>Restore</Button>}<Button kind="danger" onClick={() => remove(b)}>{b.state === 'making' ? 'Cancel' : 'Delete'}</Button></td></tr>)}</tbody></table></div>)}
      <form class="row" onSubmit={plan}><Field label="Back up every"><input value={every} placeholder="never; or 30m, 6h, 1d" onInput={(e) => setEvery(text(e))} /></Field><Field label="Keep, of the scheduled ones"><input type="number" min="1" value={keep} onInput={(e) => setKeep(text(e))} /></Field><Button type="submit">Save the schedule</Button></form>
    </section>
  );
}

const nowhere = { bucket: '', path: '/mnt/data', endpoint: '', secret: '', prefix: '', readOnly: false };

export function Mounts(p: { id: string; active: boolean }) {
  const [list, setList] = useState<MountSpec[]>([]), [form, setForm] = useState(nowhere), [secrets, setSecrets] = useState<string[]>([]);
  const load = async () => setList((await json('GET', boxPath(p.id, '/mounts'))).mounts);
  useEffect(() => { if (p.active) attempt(async () => { await load(); setSecrets((await json('GET', '/v1/secrets')).secrets.map((s: any) => s.name)); }); }, [p.active]);
  const set = (k: keyof typeof form) => (e: Event) => setForm({ ...form, [k]: text(e) });
  const mount = (e: Event) => { e.preventDefault(); attempt(async () => { await json('POST', boxPath(p.id, '/mounts'), Object.fromEntries(Object.entries(form).filter(([, v]) => v !== ''))); setForm(nowhere); await load(); }); };
  const unmount = async (m: MountSpec) => { if (await sure(`Unmount ${m.path}? The bucket keeps its objects.`, 'Unmount')) attempt(async () => { await json('DELETE', boxPath(p.id, `/mounts?path=${encodeURIComponent(m.path)}`)); await load(); }); };
  return (
    <section aria-labelledby="mounts">
      <h2 id="mounts">Buckets</h2>
      {list.length > 0 && (
        <div class="table short" tabIndex={0} role="region" aria-label="List of mounts"><table><thead><tr><th scope="col">Place</th><th scope="col">Bucket</th><th scope="col" class="wide-only">Server</th><th scope="col">Secret</th><th scope="col"><span class="hidden">Actions</span></th></tr></thead>
          <tbody>{list.map((m) => <tr key={m.path}><th scope="row"><code>{m.path}</code></th><td>{m.bucket}{m.prefix}{m.readOnly && <span class="label">read only</span>}</td><td class="wide-only">{m.endpoint}</td><td>{m.secret}</td><td class="row end"><Button onClick={() => unmount(m)}>Unmount</Button></td></tr>)}</tbody></table></div>)}
      {!secrets.length ? <p>A bucket needs a secret with its keys: <code>atoll secret set NAME --aws KEYID</code>. The box never sees them.</p> : (
        <form class="row" onSubmit={mount}>
          <Field label="Bucket"><input required value={form.bucket} onInput={set('bucket')} /></Field><Field label="Place in the box"><input required value={form.path} onInput={set('path')} /></Field>
          <Field label="Server"><input required type="url" placeholder="https://…" value={form.endpoint} onInput={set('endpoint')} /></Field>
          <Field label="Secret"><select required value={form.secret} onChange={set('secret')}><option value="" />{secrets.map((s) => <option>{s}</option>)}</select></Field>
          <Field label="Prefix"><input placeholder="optional" value={form.prefix} onInput={set('prefix')} /></Field>
          <label class="check"><input type="checkbox" checked={form.readOnly} onChange={(e) => setForm({ ...form, readOnly: e.currentTarget.checked })} /> read only</label>
          <Button type="submit">Mount</Button>
        </form>)}
    </section>
  );
}

export function Volumes(p: { id: string; active: boolean; box: Sandbox }) {
  const [all, setAll] = useState<Volume[]>([]), [made, setMade] = useState({ name: '', size: '8' }), [use, setUse] = useState({ name: '', path: '/data', readOnly: false });
  const uses: VolumeUse[] = p.box.volumes ?? [];
  const load = async () => setAll((await json('GET', '/v1/volumes')).volumes);
  useEffect(() => { if (p.active) attempt(load); }, [p.active]);
  const make = (e: Event) => { e.preventDefault(); attempt(async () => { await json('POST', `/v1/volumes/${encodeURIComponent(made.name)}`, { size: Math.round(Number(made.size) * 2 ** 30) }); setUse({ ...use, name: made.name }); setMade({ name: '', size: '8' }); await load(); }); };
  /** Volumes of a box change only while it is stopped. */
  const change = async (next: VolumeUse[], question: string) => {
    if (p.box.state !== 'stopped' && !await sure(question, 'Stop and change')) return;
    attempt(async () => {
      if (p.box.state !== 'stopped') await json('POST', boxPath(p.id, '/stop'));
      await json('PUT', boxPath(p.id), { volumes: next });
      await loadBoxes();
      await load();
    });
  };
  const attach = (e: Event) => { e.preventDefault(); change([...uses, use], `${p.id} must be stopped to get the volume ${use.name}. Its processes end.`); };
  const detach = (v: VolumeUse) => change(uses.filter((u) => u.path !== v.path), `${p.id} must be stopped to give up the volume ${v.name}. Its processes end.`);
  const remove = async (v: Volume) => { if (await sure(`Delete the volume ${v.name} and its files?`, 'Delete')) attempt(async () => { await json('DELETE', `/v1/volumes/${encodeURIComponent(v.name)}`); await load(); }); };
  return (
    <section aria-labelledby="volumes">
      <h2 id="volumes">Volumes</h2>
      {!all.length ? <p>No volumes. A volume is a directory that outlives boxes and that several may have.</p> : (
        <div class="table short" tabIndex={0} role="region" aria-label="List of volumes"><table><thead><tr><th scope="col">Volume</th><th scope="col" class="number">Size</th><th scope="col" class="number">Boxes</th><th scope="col">In this box</th><th scope="col"><span class="hidden">Actions</span></th></tr></thead>
          <tbody>{all.map((v) => { const mine = uses.filter((u) => u.name === v.name); return (
            <tr key={v.name}><th scope="row">{v.name}</th><td class="number">{bytes(v.size)}</td><td class="number">{v.users}</td><td>{mine.map((u) => <div><code>{u.path}</code>{u.readOnly && <span class="label">read only</span>}</div>)}</td><td class="row end">
              {mine.map((u) => <Button aria-label={`Detach ${u.path}`} onClick={() => detach(u)}>Detach</Button>)}{v.users === 0 && <Button kind="danger" onClick={() => remove(v)}>Delete</Button>}</td></tr>); })}</tbody></table></div>)}
      <form class="row" onSubmit={make}><Field label="New volume"><input required placeholder="name" value={made.name} onInput={(e) => setMade({ ...made, name: text(e) })} /></Field><Field label="Size (GiB)"><input type="number" min="0.1" step="any" value={made.size} onInput={(e) => setMade({ ...made, size: text(e) })} /></Field><Button type="submit">Make a volume</Button></form>
      {all.length > 0 && <form class="row" onSubmit={attach}><Field label="Volume"><select required value={use.name} onChange={(e) => setUse({ ...use, name: e.currentTarget.value })}><option value="" />{all.map((v) => <option>{v.name}</option>)}</select></Field><Field label="Directory in the box"><input required value={use.path} onInput={(e) => setUse({ ...use, path: text(e) })} /></Field><label class="check"><input type="checkbox" checked={use.readOnly ?? false} onChange={(e) => setUse({ ...use, readOnly: e.currentTarget.checked })} /> read only</label><Button type="submit">Attach</Button></form>}
    </section>
  );
}

export function Storage(p: { id: string; active: boolean; box: Sandbox }) {
  return <>{features.value.has('backups') && <Backups {...p} />}{features.value.has('mounts') && <Mounts {...p} />}{features.value.has('volumes') && <Volumes {...p} />}</>;
}
