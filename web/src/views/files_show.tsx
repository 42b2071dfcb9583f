/** How a file is shown that is not edited: pictures, PDF, tables, Markdown, and files too large for an editor. */
import { useEffect, useState } from 'preact/hooks';
import { boxPath, request } from '../api';
import { Markdown } from '../markdown';
import { failed } from '../state';
import { Button, bytes, Empty, Loading } from '../ui';

const PIECE = 256 << 10, ROWS = 500;
const PICTURES: Record<string, string> = { png: 'image/png', jpg: 'image/jpeg', jpeg: 'image/jpeg', gif: 'image/gif', webp: 'image/webp', bmp: 'image/bmp', ico: 'image/x-icon', avif: 'image/avif', svg: 'image/svg+xml' };
const ending = (name: string) => name.toLowerCase().split('.').pop()!;
/** The type under which a file is given to the browser comes from this table, never from the box. */
export const pictureType = (name: string) => PICTURES[ending(name)];
export const isPdf = (name: string) => ending(name) === 'pdf';
export const hasPreview = (name: string) => ['md', 'markdown', 'csv', 'svg'].includes(ending(name));

const fileUrl = (id: string, path: string) => boxPath(id, `/api/file?path=${encodeURIComponent(path)}`);

/** The file as a URL of this page, while the view is shown. */
function useBlob(id: string, path: string, type: string, version: string): string | undefined {
  const [url, setUrl] = useState<string>();
  useEffect(() => {
    const stop = new AbortController();
    let made = '';
    request('GET', fileUrl(id, path), undefined, stop.signal).then((r) => r.blob()).then((blob) => {
      if (!stop.signal.aborted) setUrl(made = URL.createObjectURL(blob.slice(0, blob.size, type)));
    }).catch(failed);
    return () => { stop.abort(); URL.revokeObjectURL(made); };
  }, [path, version]);
  return url;
}

/** An image never runs scripts, also if it is SVG. */
export function Picture(p: { id: string; path: string; name: string; version: string }) {
  const url = useBlob(p.id, p.path, pictureType(p.name)!, p.version);
  return url ? <div class="canvas"><img class="picture" alt={p.name} src={url} /></div> : <Loading />;
}

export function Pdf(p: { id: string; path: string; name: string; version: string }) {
  const url = useBlob(p.id, p.path, 'application/pdf', p.version);
  return url ? <iframe class="pdf" title={p.name} src={url} /> : <Loading />;
}

function cells(line: string): string[] {
  return line.split(/,(?=(?:[^"]*"[^"]*")*[^"]*$)/).map((c) => c.replace(/^"|"$/g, '').replaceAll('""', '"'));
}

function Csv(p: { text: string }) {
  const lines = p.text.split(/\r?\n/).filter(Boolean), rows = lines.slice(0, ROWS + 1).map(cells);
  return <div class="table" tabIndex={0} role="region" aria-label="Rows"><table><thead><tr>{rows[0]?.map((c) => <th scope="col">{c}</th>)}</tr></thead><tbody>{rows.slice(1).map((r) => <tr>{r.map((c) => <td>{c}</td>)}</tr>)}</tbody></table>{lines.length > ROWS + 1 && <p class="pad">{lines.length - ROWS - 1} more rows</p>}</div>;
}

export const TextPreview = (p: { name: string; text: string }) => (ending(p.name) === 'csv' ? <Csv text={p.text} />
  : ending(p.name) === 'svg' ? <div class="canvas"><img class="picture" alt={p.name} src={`data:image/svg+xml;base64,${btoa(unescape(encodeURIComponent(p.text)))}`} /></div>
    : <Markdown text={p.text} />);

/** A part of a large file, as text: only this part travels. */
export function Large(p: { id: string; path: string; name: string; size: number }) {
  const [at, setAt] = useState(0), [text, setText] = useState<string>();
  const last = Math.max(0, Math.floor((p.size - 1) / PIECE) * PIECE), end = Math.min(p.size, at + PIECE);
  useEffect(() => {
    const stop = new AbortController();
    (async () => {
      const reply = await request('GET', fileUrl(p.id, p.path), undefined, stop.signal, { Range: `bytes=${at}-${end - 1}` });
      setText(new TextDecoder().decode(await reply.arrayBuffer()));
    })().catch(failed);
    return () => stop.abort();
  }, [p.path, at, p.size]);
  if (text === undefined) return <Loading />;
  const to = (label: string, where: number) => <Button disabled={where === at || where < 0 || where > last} onClick={() => setAt(where)}>{label}</Button>;
  return (
    <>
      <div class="row tools" role="group" aria-label="Part of the file"><span role="status">Bytes {at.toLocaleString('en')} to {end.toLocaleString('en')} of {bytes(p.size)}</span><span class="grow" />{to('Start', 0)}{to('Back', at - PIECE)}{to('On', at + PIECE)}{to('End', last)}</div>
      {text.slice(0, 8192).includes('\0') ? <Empty title={`${p.name} is no text`}><p>Download it to look at it.</p></Empty> : <pre class="part" tabIndex={0} aria-label={`Part of ${p.name}`}>{text}</pre>}
    </>
  );
}
