/** Background processes: start, signal, and logs that follow. */
import { useEffect, useRef, useState } from 'preact/hooks';
import { boxPath, events, json } from '../api';
import type { Process } from '../schema';
import { attempt, failed, notice, type Box } from '../state';
import { age, Ansi, Button, Empty, Field, Loading, useLive } from '../ui';

const KEEP = 400_000;
const SIGNALS = ['SIGTERM', 'SIGINT', 'SIGHUP', 'SIGUSR1', 'SIGUSR2', 'SIGSTOP', 'SIGCONT', 'SIGQUIT', 'SIGKILL'];

function Log(p: { id: string; process: string }) {
  const [text, setText] = useState(''), [find, setFind] = useState(''), [follow, setFollow] = useState(true);
  const view = useRef<HTMLPreElement>(null);
  useEffect(() => {
    const stop = new AbortController();
    let all = '', due = false;
    const show = () => { due = false; setText(all); };
    (async () => {
      for await (const e of events('GET', boxPath(p.id, `/api/process/${encodeURIComponent(p.process)}/stream`), undefined, stop.signal)) {
        if (e.type !== 'stdout' && e.type !== 'stderr') continue;
        all = (all + e.data).slice(-KEEP);
        if (!due) { due = true; requestAnimationFrame(show); }
      }
    })().catch(failed);
    return () => stop.abort();
  }, [p.process]);
  useEffect(() => { if (follow && view.current) view.current.scrollTop = view.current.scrollHeight; }, [text, follow]);
  return (
    <div class="log">
      <div class="row"><strong>{p.process}</strong><span class="grow" /><input type="search" aria-label="Search in the log" placeholder="Search" value={find} onInput={(e) => setFind(e.currentTarget.value)} /><label class="check"><input type="checkbox" checked={follow} onChange={(e) => setFollow(e.currentTarget.checked)} /> follow</label></div>
      <pre ref={view} tabIndex={0} aria-label={`Log of ${p.process}`}><Ansi text={text || ' '} find={find} /></pre>
    </div>
  );
}

export function Processes(p: { id: string; active: boolean; box: Box }) {
  const live = useLive(p.box.state);
  const [list, setList] = useState<Process[]>(), [shown, setShown] = useState(''), [command, setCommand] = useState(''), [service, setService] = useState(false);
  const load = async () => setList((await json(`GET`, boxPath(p.id, '/api/process/list'))).processes);
  useEffect(() => {
    if (!p.active || !live) return undefined;
    attempt(load);
    const t = setInterval(() => attempt(load), 2000);
    return () => clearInterval(t);
  }, [p.active, live]);
  const start = (e: Event) => {
    e.preventDefault();
    attempt(async () => { const made = await json('POST', boxPath(p.id, '/api/process/start'), { command, ...(service && { service }) }); setCommand(''); await load(); setShown(made.processId); });
  };
  const kill = (x: Process, signal: string) => attempt(async () => { await json('DELETE', boxPath(p.id, `/api/process/${encodeURIComponent(x.id)}?signal=${signal}`)); notice(`${x.id} has got ${signal}`); await load(); });
  return (
    <div class="page">
      <form class="row" onSubmit={start}><Field label="Start a process"><input required placeholder="python3 -m http.server 8080" value={command} onInput={(e) => setCommand(e.currentTarget.value)} /></Field>
        <label class="check"><input type="checkbox" checked={service} onChange={(e) => setService(e.currentTarget.checked)} /> as a service</label><Button kind="main" type="submit">Start</Button></form>
      {!list ? <Loading /> : !list.length ? <Empty title="No background processes"><p>Start one above, or run <code>atoll exec {p.id} -d -- COMMAND</code>.</p></Empty> : (
        <div class="table short" tabIndex={0} role="region" aria-label="Processes"><table>
          <thead><tr><th scope="col">Process</th><th scope="col">Command</th><th scope="col">State</th><th scope="col">Since</th><th scope="col"><span class="hidden">Actions</span></th></tr></thead>
          <tbody>{list.map((x) => (
            <tr key={x.id}><th scope="row"><button type="button" class="link" onClick={() => setShown(x.id)}>{x.id}</button>{x.service && <span class="label">service{x.restarts ? `, started again ${x.restarts} ×` : ''}</span>}</th><td><code>{x.command}</code></td><td><span class={`state ${x.status}`}>{x.status}{x.exitCode !== undefined ? ` ${x.exitCode}` : ''}</span></td><td class="number">{age(x.startTime)}</td>
              <td class="row end"><Button onClick={() => setShown(x.id)}>Log</Button>{x.status === 'running' && <select aria-label={`Signal for ${x.id}`} value="" onChange={(e) => { const s = e.currentTarget.value; e.currentTarget.value = ''; if (s) kill(x, s); }}><option value="">Signal …</option>{SIGNALS.map((s) => <option>{s}</option>)}</select>}{(x.status === 'running' || x.service) && <Button kind="danger" onClick={() => kill(x, 'SIGTERM')}>End</Button>}</td></tr>))}</tbody>
        </table></div>)}
      {shown && <Log key={shown} id={p.id} process={shown} />}
    </div>
  );
}
