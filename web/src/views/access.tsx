/** Browsers that are signed in, and what was changed through the API. */
import { useEffect, useState } from 'preact/hooks';
import { json } from '../api';
import type { AuditRecord, ConsoleSessionEntry } from '../schema';
import { attempt } from '../state';
import { BoxName } from './boxes';
import { age, Button, clock, sure } from '../ui';

/** "Firefox on Linux" of a User-Agent; all of it when it is another program's. */
function browserOf(agent: string): string {
  const browser = /(Firefox|Edg|OPR|Chrome|HeadlessChrome|Safari)\/[\d.]+/.exec(agent)?.[1], system = /(Windows|Mac OS X|Android|iPhone|iPad|Linux)/.exec(agent)?.[1];
  const names: Record<string, string> = { Edg: 'Edge', OPR: 'Opera', HeadlessChrome: 'Chrome' };
  return browser ? `${names[browser] ?? browser}${system ? ` on ${system}` : ''}` : agent || 'unknown';
}

export function Access(p: { first: ConsoleSessionEntry[]; audit: AuditRecord[] | undefined }) {
  const [list, setList] = useState(p.first);
  const load = async () => setList((await json('GET', '/v1/console/sessions')).sessions);
  const end = async (s: ConsoleSessionEntry) => { if (await sure(s.current ? 'End this session? You sign in again.' : `End the session of ${browserOf(s.client)}?`, 'End')) attempt(async () => { await json('DELETE', `/v1/console/sessions/${s.id}`); if (s.current) location.reload(); else await load(); }); };
  const endAll = async () => { if (await sure('Sign out everywhere? All browsers sign in again.', 'Sign out')) attempt(async () => { await json('DELETE', '/v1/console/sessions'); location.reload(); }); };
  return (
    <section aria-labelledby="access">
      <div class="row"><h2 id="access">Access</h2><span class="grow" /><Button kind="danger" onClick={endAll}>Sign out everywhere</Button></div>
      <p>Browsers have sessions, which end after an hour without use.</p>
      <div class="table short" tabIndex={0} role="region" aria-label="Sessions"><table><thead><tr><th scope="col">Browser</th><th scope="col">Began</th><th scope="col">Used</th><th scope="col"><span class="hidden">Actions</span></th></tr></thead>
        <tbody>{list.map((s) => <tr key={s.id}><th scope="row" title={s.client}>{browserOf(s.client)}{s.current && <span class="label">this one</span>}{s.token && <span class="label">{s.token}</span>}</th><td>{age(s.startedAt)} ago</td><td>{age(s.usedAt)} ago</td><td class="row end"><Button aria-label={`End ${s.id}`} onClick={() => end(s)}>End</Button></td></tr>)}</tbody></table></div>
      {p.audit && <Audit first={p.audit} />}
    </section>
  );
}

const LOOK_EVERY = 5000;

function Audit(p: { first: AuditRecord[] }) {
  const [list, setList] = useState(() => [...p.first].reverse()), [filter, setFilter] = useState('');
  useEffect(() => {
    const load = () => attempt(async () => setList((await json('GET', '/v1/audit')).records.reverse()));
    const t = setInterval(load, LOOK_EVERY);
    return () => clearInterval(t);
  }, []);
  const shown = list.filter((a) => `${a.method} ${a.route} ${a.sandbox ?? ''} ${a.by} ${a.token ?? ''} ${a.status}`.includes(filter)).slice(0, 200);
  return (
    <>
      <div class="row"><h2>Audit</h2><span class="grow" /><input aria-label="Filter the audit" placeholder="Filter" value={filter} onInput={(e) => setFilter(e.currentTarget.value)} /></div>
      {!shown.length ? <p>Nothing was changed through the API since the daemon began.</p> : (
        <div class="table short" tabIndex={0} role="region" aria-label="Audit"><table><thead><tr><th scope="col">Time</th><th scope="col">By</th><th scope="col">Request</th><th scope="col">Box</th><th scope="col" class="number">Status</th></tr></thead>
          <tbody>{shown.map((a) => <tr key={a.id}><td>{clock(a.time)}</td><td>{a.by}{a.token && <span class="label">{a.token}</span>}</td><td><code>{a.method} {a.route}</code></td><td>{a.sandbox && <BoxName id={a.sandbox} />}</td><td class="number">{a.status || 'left'}</td></tr>)}</tbody></table></div>)}
    </>
  );
}
