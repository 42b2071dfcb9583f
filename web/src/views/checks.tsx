/** What `atoll doctor` and `atoll selftest` find, run by the daemon. */
import { useState } from 'preact/hooks';
import { events, json } from '../api';
import type { Doctor, SelftestResult } from '../schema';
import { attempt } from '../state';
import { Button } from '../ui';

const colour: Record<string, string> = { ok: 'running', note: 'stopped', unknown: '', missing: 'failed', FAIL: 'failed', skip: 'stopped' };

export function Checks() {
  const [doctor, setDoctor] = useState<Doctor>(), [tests, setTests] = useState<SelftestResult[]>(), [summary, setSummary] = useState(''), [busy, setBusy] = useState('');
  const during = (what: string, work: () => Promise<void>) => { setBusy(what); attempt(() => work().finally(() => setBusy(''))); };
  const look = () => during('doctor', async () => setDoctor(await json('GET', '/v1/doctor')));
  const test = () => during('selftest', async () => {
    setTests([]);
    setSummary('');
    for await (const said of events('POST', '/v1/selftest')) {
      if (said.summary) setSummary(said.summary);
      else setTests((list) => [...(list ?? []), said]);
    }
  });
  return (
    <section aria-labelledby="checks">
      <div class="row"><h2 id="checks">Checks</h2><span class="grow" /><Button disabled={busy !== ''} onClick={look}>Look at this host</Button><Button disabled={busy !== ''} onClick={test}>Run the self-test</Button></div>
      {!doctor && !tests && <p>What this host has and lacks for safe boxes, and a test of the whole chain in throw-away boxes. As <code>atoll doctor</code> and <code>atoll selftest</code>, which can look deeper as root.</p>}
      {doctor && <>
        <p role="status">{doctor.ready ? 'This host has what boxes need.' : 'Something is missing.'}</p>
        <div class="table short" tabIndex={0} role="region" aria-label="Doctor"><table><thead><tr><th scope="col">Check</th><th scope="col">State</th><th scope="col">Finding</th></tr></thead>
          <tbody>{doctor.checks.map((c) => <tr key={c.group + c.name}><th scope="row">{c.name}<span class="label">{c.group}</span></th><td><span class={`state ${colour[c.state]}`}>{c.state}</span></td><td>{c.detail}{c.advice && <div><small>→ {c.advice}</small></div>}</td></tr>)}</tbody></table></div>
      </>}
      {tests && <>
        <p role="status">{summary || 'The self-test runs …'}</p>
        <div class="table short" tabIndex={0} role="region" aria-label="Self-test"><table><thead><tr><th scope="col">Check</th><th scope="col">Result</th></tr></thead>
          <tbody>{tests.map((t) => <tr key={t.name}><th scope="row">{t.name}</th><td><span class={`state ${colour[t.result ?? ''] ?? ''}`}>{t.result}</span> {t.reason}</td></tr>)}</tbody></table></div>
      </>}
    </section>
  );
}
