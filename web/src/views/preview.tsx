/** Exposed ports: a frame of another origin with the app, and the requests that it got. */
import { useEffect, useRef, useState } from 'preact/hooks';
import { boxPath, json } from '../api';
import type { Header, PortRequests } from '../schema';
import { attempt } from '../state';
import { Button, bytes, clock, copy, Empty, Field, Loading } from '../ui';
import { Qr } from '../qr';

interface Port { port: number; name: string | null; url: string }
type Request = PortRequests['requests'][number];
const SIZES: Record<string, string> = { full: '100%', tablet: '768px', phone: '390px' };

const HeaderTable = (p: { title: string; list: Header[] | undefined }) => (!p.list ? null :
  <table class="headers"><caption>{p.title}</caption><tbody>{p.list.map((h) => <tr><th scope="row">{h.name}</th><td><code>{h.value}</code></td></tr>)}</tbody></table>);

/** The last requests; a click on one shows its headers and where its time went. */
function Requests(p: { list: Request[] }) {
  const [at, setAt] = useState(''), chosen = p.list.find((r) => r.time === at);
  if (!p.list.length) return <p>None yet.</p>;
  const longest = Math.max(1, ...p.list.slice(0, 50).map((r) => r.ms)), part = (ms: number) => `${(100 * ms) / longest}%`;
  return (
    <>
      <div class="table short" tabIndex={0} role="region" aria-label="Requests"><table><thead><tr><th scope="col">Time</th><th scope="col">Method</th><th scope="col">Path</th><th scope="col">Status</th><th scope="col">ms</th><th scope="col" class="wide-only">Waited, sent</th></tr></thead>
        <tbody>{p.list.slice(0, 50).map((r) => <tr key={r.time}><td>{clock(r.time)}</td><td>{r.method}</td><td>{r.requestHeaders ? <button type="button" class="link" aria-expanded={r === chosen} onClick={() => setAt(r === chosen ? '' : r.time)}>{r.path}</button> : <code>{r.path}</code>}</td><td>{r.status || 'left'}</td><td class="number">{r.ms.toFixed(1)}</td>
          <td class="wide-only"><span class="timing" role="img" aria-label={`${(r.firstMs ?? r.ms).toFixed(1)} ms until the response began, ${r.ms.toFixed(1)} ms in all`}><i style={{ width: part(r.firstMs ?? r.ms) }} /><i class="sent" style={{ width: part(r.ms - (r.firstMs ?? r.ms)) }} /></span></td></tr>)}</tbody></table></div>
      {chosen && <section class="request" aria-label="Headers">
        <p>{chosen.method} <code>{chosen.path}{chosen.query ? '?…' : ''}</code> · {chosen.status} · {chosen.firstMs !== undefined && `${chosen.firstMs.toFixed(1)} ms until the response began, `}{chosen.ms.toFixed(1)} ms in all · {bytes(chosen.bytesIn)} in, {bytes(chosen.bytesOut)} out</p>
        <div class="row top"><HeaderTable title="Request" list={chosen.requestHeaders} /><HeaderTable title="Response" list={chosen.responseHeaders} /></div>
      </section>}
    </>
  );
}

export function Preview(p: { id: string; active: boolean }) {
  const [ports, setPorts] = useState<Port[]>(), [at, setAt] = useState<number>(), [port, setPort] = useState('8080'), [path, setPath] = useState('/');
  const [size, setSize] = useState('full'), [requests, setRequests] = useState<Request[]>([]), [round, setRound] = useState(0), [qr, setQr] = useState(false);
  const frame = useRef<HTMLIFrameElement>(null);
  const load = async () => { const { ports: list } = await json('GET', boxPath(p.id, '/ports')); setPorts(list); return list as Port[]; };
  useEffect(() => { if (p.active) attempt(load); }, [p.active]);
  const current = ports?.find((x) => x.port === at) ?? ports?.[0];
  useEffect(() => {
    if (!p.active || !current) return undefined;
    const look = () => attempt(async () => setRequests((await json('GET', boxPath(p.id, `/ports/${current.port}/requests`))).requests ?? []));
    look();
    const t = setInterval(look, 2000);
    return () => clearInterval(t);
  }, [p.active, current?.port]);
  const expose = (e: Event) => { e.preventDefault(); attempt(async () => { const made = await json('POST', boxPath(p.id, `/ports/${Number(port)}`), {}); await load(); setAt(made.port); }); };
  const end = (x: Port) => attempt(async () => { await json('DELETE', boxPath(p.id, `/ports/${x.port}`)); setAt(undefined); await load(); });
  return (
    <div class="page">
      <form class="row" onSubmit={expose}><Field label="Port"><input required type="number" min="1024" max="65535" value={port} onInput={(e) => setPort(e.currentTarget.value)} /></Field><Button kind="main" type="submit">Expose</Button>
        {ports?.map((x) => <span class={x === current ? 'subtab on' : 'subtab'}><button type="button" aria-pressed={x === current} onClick={() => setAt(x.port)}>{x.port}{x.name ? ` ${x.name}` : ''}</button><button type="button" aria-label={`Close port ${x.port}`} onClick={() => end(x)}>×</button></span>)}</form>
      {!ports ? <Loading /> : !current ? <Empty title="No port is exposed"><p>Start a server in the box, then give its port a URL here.</p></Empty> : (
        <>
          <div class="row address">
            <Button aria-label="Reload" onClick={() => setRound(round + 1)}>↻</Button>
            <input class="grow" aria-label="Address" value={path} onChange={(e) => { const v = e.currentTarget.value; setPath(v.startsWith('/') ? v : `/${v}`); }} />
            <select aria-label="Size" value={size} onChange={(e) => setSize(e.currentTarget.value)}>{Object.keys(SIZES).map((s) => <option>{s}</option>)}</select>
            <Button onClick={() => copy(current.url)}>Copy URL</Button><Button onClick={() => setQr(!qr)}>QR</Button><a class="button plain" target="_blank" rel="noopener noreferrer" href={current.url}>Open</a>
          </div>
          {qr && <Qr text={current.url} />}
          <iframe ref={frame} key={`${current.url}${path}${round}`} title={`Port ${current.port} of ${p.id}`} sandbox="allow-scripts allow-forms allow-same-origin allow-popups" referrerpolicy="no-referrer" style={{ width: SIZES[size] }} src={new URL(path, current.url).href} />
          <h2>Requests</h2>
          <Requests list={requests} />
        </>)}
    </div>
  );
}
