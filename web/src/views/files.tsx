/** Files: a tree that follows the box, an editor, uploads and downloads. */
import { useEffect, useRef, useState } from 'preact/hooks';
import { boxPath, download, events, exec, json, quote, request } from '../api';
import { Editor } from '../editor';
import { attempt, failed, notice } from '../state';
import { Button, bytes, Empty, sure } from '../ui';
import { Markdown } from '../markdown';

interface Entry { name: string; path: string; type: string; size: number; modifiedAt: string }
const ROOT = '/workspace', BIG = 5 << 20;
const sorted = (list: Entry[]) => list.sort((a, b) => (a.type === 'directory' ? 0 : 1) - (b.type === 'directory' ? 0 : 1) || (a.name < b.name ? -1 : 1));

async function listDirectory(id: string, path: string): Promise<Entry[]> {
  const { files } = await json('POST', boxPath(id, '/api/list-files'), { path, options: { includeHidden: true } });
  return sorted(files.map((f: any) => ({ name: f.name, path: f.absolutePath, type: f.type, size: f.size, modifiedAt: f.modifiedAt })));
}

function Tree(p: { id: string; path: string; depth: number; open: Set<string>; toggle: (path: string) => void; pick: (e: Entry) => void; picked?: string | undefined; version: number; drop: (path: string, data: DataTransfer) => void }) {
  const [list, setList] = useState<Entry[]>();
  useEffect(() => { let gone = false; listDirectory(p.id, p.path).then((l) => { if (!gone) setList(l); }).catch(failed); return () => { gone = true; }; }, [p.path, p.version]);
  const onDrop = (path: string) => (e: DragEvent) => { e.preventDefault(); e.stopPropagation(); if (e.dataTransfer) p.drop(path, e.dataTransfer); };
  return (
    <ul role={p.depth ? 'group' : 'tree'} aria-label={p.depth ? undefined : 'Files'} onDragOver={(e) => e.preventDefault()} onDrop={onDrop(p.path)}>
      {list?.map((e) => {
        const dir = e.type === 'directory', open = p.open.has(e.path);
        const act = () => (dir ? p.toggle(e.path) : p.pick(e));
        return (
          <li key={e.path} role="treeitem" aria-expanded={dir ? open : undefined} aria-selected={p.picked === e.path} tabIndex={0} onDragOver={(ev) => ev.preventDefault()} onDrop={dir ? onDrop(e.path) : undefined}
            onClick={(ev) => { ev.stopPropagation(); act(); }} onKeyDown={(ev) => { if (ev.target === ev.currentTarget && (ev.key === 'Enter' || ev.key === ' ')) { ev.preventDefault(); act(); } }}>
            <span class="entry" style={{ paddingLeft: `${p.depth * 14 + 6}px` }}><span aria-hidden="true">{dir ? (open ? '▾' : '▸') : ' '}</span> {e.name}</span>
            {dir && open && <Tree {...p} path={e.path} depth={p.depth + 1} />}
          </li>
        );
      })}
      {list && !list.length && p.depth > 0 && <li role="none" class="entry quiet" style={{ paddingLeft: `${p.depth * 14 + 6}px` }}>empty</li>}
    </ul>
  );
}

/** The files and directories of a drop, with their paths. */
async function dropped(data: DataTransfer): Promise<{ path: string; file: File }[]> {
  const out: { path: string; file: File }[] = [];
  const walk = async (entry: any, base: string): Promise<void> => {
    if (entry.isFile) out.push({ path: base + entry.name, file: await new Promise((ok, no) => entry.file(ok, no)) });
    else {
      const reader = entry.createReader();
      for (;;) {
        const some: any[] = await new Promise((ok, no) => reader.readEntries(ok, no));
        if (!some.length) break;
        for (const e of some) await walk(e, `${base}${entry.name}/`);
      }
    }
  };
  const entries = [...data.items].map((i) => i.webkitGetAsEntry?.()).filter(Boolean);
  if (entries.length) for (const e of entries) await walk(e, '');
  else for (const file of data.files) out.push({ path: file.name, file });
  return out;
}

function Csv(p: { text: string }) {
  const rows = p.text.split(/\r?\n/).filter(Boolean).slice(0, 500).map((l) => l.split(/,(?=(?:[^"]*"[^"]*")*[^"]*$)/).map((c) => c.replace(/^"|"$/g, '').replaceAll('""', '"')));
  return <div class="table" tabIndex={0} role="region" aria-label="Rows"><table><thead><tr>{rows[0]?.map((c) => <th scope="col">{c}</th>)}</tr></thead><tbody>{rows.slice(1).map((r) => <tr>{r.map((c) => <td>{c}</td>)}</tr>)}</tbody></table></div>;
}

interface Open { entry: Entry; mime: string; binary: boolean; base64: string; text: string; saved: string; modifiedAt: string; preview: boolean }

export function Files(p: { id: string; active: boolean }) {
  const [open, setOpen] = useState(new Set<string>()), [version, setVersion] = useState(0), [file, setFile] = useState<Open>(), [sending, setSending] = useState('');
  const [outside, setOutside] = useState(false), input = useRef<HTMLInputElement>(null), dirty = Boolean(file && !file.binary && file.text !== file.saved);
  const again = () => setVersion((v) => v + 1);
  useEffect(() => {
    if (!p.active) return undefined;
    const stop = new AbortController();
    let due = 0;
    (async () => {
      for await (const e of events('POST', boxPath(p.id, '/api/watch'), { path: ROOT, recursive: true }, stop.signal)) {
        if (e.type === 'event' && !due) due = window.setTimeout(() => { due = 0; again(); }, 150);
      }
    })().catch(failed);
    return () => { stop.abort(); clearTimeout(due); };
  }, [p.active]);
  useEffect(() => { const keep = (e: BeforeUnloadEvent) => { if (dirty) e.preventDefault(); }; addEventListener('beforeunload', keep); return () => removeEventListener('beforeunload', keep); }, [dirty]);
  const look = async (path: string) => (await listDirectory(p.id, path.slice(0, path.lastIndexOf('/')) || '/')).find((e) => e.path === path);
  useEffect(() => { if (file) look(file.entry.path).then((e) => setOutside(Boolean(e && e.modifiedAt !== file.modifiedAt))).catch(() => {}); }, [version]);
  const pick = (entry: Entry) => attempt(async () => {
    if (dirty && !(await sure(`Leave ${file!.entry.name} without saving it?`, 'Leave it'))) return;
    if (entry.size > BIG) { setFile({ entry, mime: '', binary: true, base64: '', text: '', saved: '', modifiedAt: entry.modifiedAt, preview: false }); return; }
    const got = await json('POST', boxPath(p.id, '/api/read'), { path: entry.path });
    setOutside(false);
    setFile({ entry, mime: got.mimeType, binary: got.isBinary, base64: got.isBinary ? got.content : '', text: got.isBinary ? '' : got.content, saved: got.isBinary ? '' : got.content, modifiedAt: entry.modifiedAt, preview: /\.(md|csv)$/i.test(entry.name) });
  });
  const save = () => attempt(async () => {
    if (!file || !dirty) return;
    const now = await look(file.entry.path);
    if (now && now.modifiedAt !== file.modifiedAt && !(await sure(`${file.entry.name} was changed in the box since it was opened. Write over it?`, 'Write over it'))) return;
    await json('POST', boxPath(p.id, '/api/write'), { path: file.entry.path, content: file.text });
    const after = await look(file.entry.path);
    setOutside(false);
    setFile((f) => f && { ...f, saved: file.text, modifiedAt: after?.modifiedAt ?? f.modifiedAt });
  });
  const upload = (target: string, files: { path: string; file: File }[]) => attempt(async () => {
    const total = files.reduce((n, f) => n + f.file.size, 0);
    let done = 0;
    for (const f of files) {
      setSending(`${f.path} (${bytes(done)} of ${bytes(total)})`);
      const directory = `${target}/${f.path}`.split('/').slice(0, -1).join('/');
      if (f.path.includes('/')) await json('POST', boxPath(p.id, '/api/mkdir'), { path: directory, recursive: true });
      await request('PUT', boxPath(p.id, `/api/file?path=${encodeURIComponent(`${target}/${f.path}`)}`), f.file);
      done += f.file.size;
    }
    setSending('');
    notice(`${files.length} files are in ${target}`);
    again();
  });
  const name = (text: string, start: string) => prompt(text, start)?.trim();
  const make = (kind: 'file' | 'directory') => attempt(async () => {
    const path = name(`Path of the new ${kind}`, `${ROOT}/`);
    if (!path) return;
    if (kind === 'file') await json('POST', boxPath(p.id, '/api/write'), { path, content: '' });
    else await json('POST', boxPath(p.id, '/api/mkdir'), { path, recursive: true });
    again();
  });
  const move = () => attempt(async () => { const to = name('New path', file!.entry.path); if (!to || to === file!.entry.path) return; await json('POST', boxPath(p.id, '/api/move'), { sourcePath: file!.entry.path, destinationPath: to }); setFile(undefined); again(); });
  const remove = () => attempt(async () => { if (!(await sure(`Delete ${file!.entry.path}?`, 'Delete'))) return; await json('POST', boxPath(p.id, '/api/delete'), { path: file!.entry.path }); setFile(undefined); again(); });
  const tar = () => attempt(async () => {
    const made = `/tmp/.console-${Date.now()}.tar`;
    const r = await exec(p.id, `tar -C ${quote(ROOT)} -cf ${quote(made)} .`);
    if (r.exitCode) throw new Error(r.stderr);
    await download(p.id, made);
  });
  return (
    <div class="files">
      <aside>
        <div class="row tools"><Button class="quiet" onClick={() => make('file')}>New file</Button><Button class="quiet" onClick={() => make('directory')}>New directory</Button><Button class="quiet" onClick={() => input.current!.click()}>Upload</Button><Button class="quiet" onClick={tar}>Download all</Button>
          <input ref={input} class="hidden" type="file" multiple tabIndex={-1} aria-label="Files to upload" onChange={(e) => { upload(ROOT, [...e.currentTarget.files!].map((file) => ({ path: file.name, file }))); e.currentTarget.value = ''; }} /></div>
        {sending && <p class="sending" role="status">Sending {sending}</p>}
        <p class="root">{ROOT}</p>
        <Tree id={p.id} path={ROOT} depth={0} open={open} toggle={(path) => { const next = new Set(open); if (!next.delete(path)) next.add(path); setOpen(next); }} pick={pick} picked={file?.entry.path} version={version} drop={(path, data) => dropped(data).then((f) => upload(path, f)).catch(failed)} />
      </aside>
      <div class="content">
        {!file ? <Empty title="No file is open"><p>Choose one on the left, or drop files there to upload them.</p></Empty> : (
          <>
            <div class="row tools"><strong>{file.entry.name}{dirty ? ' ●' : ''}</strong>{dirty && <span class="hidden">not saved</span>}{outside && <span class="state stopped">changed in the box</span>}<span class="grow" />
              {/\.(md|csv)$/i.test(file.entry.name) && <Button onClick={() => setFile({ ...file, preview: !file.preview })}>{file.preview ? 'Edit' : 'Preview'}</Button>}
              {!file.binary && <Button kind="main" disabled={!dirty} onClick={save}>Save</Button>}<Button onClick={() => attempt(() => download(p.id, file.entry.path))}>Download</Button><Button onClick={move}>Move</Button><Button kind="danger" onClick={remove}>Delete</Button></div>
            {file.binary ? (file.mime.startsWith('image/') && file.base64 ? <img class="picture" alt={file.entry.name} src={`data:${file.mime === 'image/svg+xml' ? 'image/svg+xml' : file.mime};base64,${file.base64}`} />
              : <Empty title={file.entry.size > BIG ? `${file.entry.name} is large: ${bytes(file.entry.size)}` : `${file.entry.name} is no text`}><p>Download it to look at it.</p></Empty>)
              : file.preview && /\.csv$/i.test(file.entry.name) ? <Csv text={file.text} /> : file.preview ? <Markdown text={file.text} />
                : <Editor key={file.entry.path} name={file.entry.name} label={file.entry.path} text={file.text} onChange={(text) => setFile((f) => f && { ...f, text })} onSave={save} focus />}
          </>
        )}
      </div>
    </div>
  );
}
