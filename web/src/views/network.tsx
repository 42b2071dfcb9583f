/** What a box may reach, what it did reach, and who waits for an answer. */
import { useEffect, useState } from 'preact/hooks';
import { boxPath, events, json } from '../api';
import { attempt, failed, features } from '../state';
import { Button, bytes, clock, Empty, Field, Loading } from '../ui';

interface Approval { id: string; sandbox: string; host: string; port: number }

function Questions(p: { id: string; active: boolean }) {
  const [list, setList] = useState<Approval[]>([]);
  const load = async () => setList((await json('GET', '/v1/approvals')).approvals.filter((a: Approval) => a.sandbox === p.id));
  useEffect(() => {
    if (!p.active) return undefined;
    attempt(load);
    const t = setInterval(() => attempt(load), 1500);
    return () => clearInterval(t);
  }, [p.active]);
  const decide = (a: Approval, decision: string, remember: string) => attempt(async () => { await json('POST', `/v1/approvals/${encodeURIComponent(a.id)}`, { decision, remember }); await load(); });
  if (!list.length) return null;
  return <div class="asks" role="alert">{list.map((a) => <p class="row" key={a.id}><span class="grow">May this box reach <strong>{a.host}:{a.port}</strong>?</span><Button onClick={() => decide(a, 'allow', 'once')}>Allow once</Button><Button kind="main" onClick={() => decide(a, 'allow', 'sandbox')}>Allow</Button><Button kind="danger" onClick={() => decide(a, 'deny', 'sandbox')}>Deny</Button></p>)}</div>;
}

export function Network(p: { id: string; active: boolean; box: any }) {
  const [policy, setPolicy] = useState<any>(), [log, setLog] = useState<any[]>([]), [secrets, setSecrets] = useState<any[]>([]);
  const [form, setForm] = useState({ mode: '', allow: '', deny: '', ask: false });
  const load = async () => {
    const now = await json('GET', boxPath(p.id, '/network'));
    setPolicy(now);
    setForm({ mode: now.own?.mode ?? '', allow: (now.own?.allow ?? []).join('\n'), deny: (now.own?.deny ?? []).join('\n'), ask: now.own?.ask ?? false });
  };
  useEffect(() => {
    if (!p.active) return undefined;
    attempt(load);
    if (features.value.has('secrets')) attempt(async () => setSecrets((await json('GET', '/v1/secrets')).secrets));
    const stop = new AbortController();
    setLog([]);
    (async () => { for await (const e of events('GET', boxPath(p.id, '/network/log?follow=1'), undefined, stop.signal)) setLog((l) => [e, ...l].slice(0, 300)); })().catch(failed);
    return () => stop.abort();
  }, [p.active]);
  const lines = (text: string) => text.split('\n').map((l) => l.trim()).filter(Boolean);
  const save = (e: Event) => { e.preventDefault(); attempt(async () => { await json('PATCH', boxPath(p.id, '/network'), { mode: form.mode || null, allow: lines(form.allow), deny: lines(form.deny), ...(features.value.has('approvals') && { ask: form.ask }) }); await load(); }); };
  if (!policy) return <Loading />;
  return (
    <div class="page">
      {features.value.has('approvals') && <Questions id={p.id} active={p.active} />}
      <form class="stack" onSubmit={save}>
        <div class="row top">
          <Field label="Mode"><select value={form.mode} onChange={(e) => setForm({ ...form, mode: e.currentTarget.value })}><option value="">default ({policy.mode})</option><option value="open">open</option><option value="list">list</option><option value="off">off</option></select></Field>
          <Field label="Allow" hint="pypi.org, *.npmjs.org:443, 10.1.0.0/16:5432, udp://…"><textarea rows={4} value={form.allow} onInput={(e) => setForm({ ...form, allow: e.currentTarget.value })} /></Field>
          <Field label="Deny" hint="Beats allow"><textarea rows={4} value={form.deny} onInput={(e) => setForm({ ...form, deny: e.currentTarget.value })} /></Field>
        </div>
        <div class="row">{features.value.has('approvals') && <label class="check"><input type="checkbox" checked={form.ask} onChange={(e) => setForm({ ...form, ask: e.currentTarget.checked })} /> ask about what no rule decides</label>}<span class="grow" /><Button kind="main" type="submit">Save the policy</Button></div>
      </form>
      {secrets.length > 0 && <><h2>Secrets</h2><ul>{secrets.map((s) => <li><code>{s.name}</code> for {(s.hosts ?? []).join(', ')}{(p.box.secrets ?? []).includes(s.name) ? ' · this box has it' : ''}</li>)}</ul></>}
      <h2>Connections</h2>
      {!log.length ? <Empty title="No connection yet"><p>Try <code>curl https://example.org</code> in the terminal.</p></Empty> : (
        <div class="table" tabIndex={0} role="region" aria-label="Connections"><table><thead><tr><th scope="col">Time</th><th scope="col">Destination</th><th scope="col">Protocol</th><th scope="col">Decision</th><th scope="col" class="wide-only">Rule</th><th scope="col">Sent</th><th scope="col">Received</th></tr></thead>
          <tbody>{log.map((r) => <tr><td>{clock(r.time)}</td><td>{r.name || r.address}:{r.port}</td><td>{r.protocol}</td><td><span class={`state ${r.decision === 'allow' ? 'running' : 'failed'}`}>{r.decision}</span></td><td class="wide-only">{r.rule}</td><td class="number">{bytes(r.sent ?? 0)}</td><td class="number">{bytes(r.received ?? 0)}</td></tr>)}</tbody></table></div>)}
    </div>
  );
}
