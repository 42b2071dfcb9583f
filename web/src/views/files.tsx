/** Files: a tree that follows the box, an editor, uploads and downloads. */
import { useEffect, useRef, useState } from 'preact/hooks';
import { boxPath, download, events, exec, json } from '../api';
import { Editor } from '../editor';
import { listDirectory, look, mayWrite, mayWriteAt, parentOf, typeBehind, type Entry } from '../entries';
import { attempt, connected, failed, notice, type Box } from '../state';
import { ask, Button, bytes, Empty, sure, useLive } from '../ui';
import { dropped, upload, type Progress, type Sending } from '../upload';
import { hasPreview, isPdf, Large, Pdf, Picture, pictureType, TextPreview } from './files_show';

const ROOT: Entry = { name: 'workspace', path: '/workspace', type: 'directory', size: 0, modifiedAt: '' }, BIG = 5 << 20;

type Lists = Map<string, Entry[]>;
/** The wanted directories, from the top down: what is gone from its parent is not asked for. */
async function listAll(id: string, wanted: (path: string) => boolean, path = ROOT.path, out: Lists = new Map()): Promise<Lists> {
  const list = await listDirectory(id, path).catch((error) => { if ((error.status === 404 || error.code === 'NOT_DIRECTORY') && path !== ROOT.path) return []; throw error; }); // gone since its parent was listed
  out.set(path, list);
  for (const e of list) if ((e.type === 'directory' || e.type === 'symlink') && wanted(e.path)) await listAll(id, wanted, e.path, out);
  return out;
}

interface TreeProps { path: string; depth: number; lists: Lists; open: Set<string>; pick: (e: Entry) => void; picked: string; drop: (path: string, data: DataTransfer) => void }

function Tree(p: TreeProps) {
  const list = p.lists.get(p.path), [over, setOver] = useState('');
  const target = (path: string) => ({
    onDragOver: (e: DragEvent) => { e.preventDefault(); e.stopPropagation(); setOver(path); },
    onDragLeave: () => setOver(''),
    onDrop: (e: DragEvent) => { e.preventDefault(); e.stopPropagation(); setOver(''); if (e.dataTransfer) p.drop(path, e.dataTransfer); },
  });
  const indent = { paddingLeft: `${p.depth * 14 + 6}px` };
  return (
    <ul role={p.depth ? 'group' : 'tree'} aria-label={p.depth ? undefined : 'Files'} class={over === p.path ? 'over' : ''} {...target(p.path)}>
      {list?.map((e) => {
        const open = p.open.has(e.path), dir = e.type === 'directory' || open; // a link that leads to a directory can be open, too
        return (
          <li key={e.path} role="treeitem" aria-expanded={dir ? open : undefined} aria-selected={p.picked === e.path} tabIndex={0} class={over === e.path ? 'over' : ''} {...(dir ? target(e.path) : {})}
            onClick={(ev) => { ev.stopPropagation(); p.pick(e); }} onKeyDown={(ev) => { if (ev.target === ev.currentTarget && (ev.key === 'Enter' || ev.key === ' ')) { ev.preventDefault(); p.pick(e); } }}>
            <span class="entry" style={indent}><span aria-hidden="true">{dir ? (open ? '▾' : '▸') : ' '}</span> {e.name}</span>
            {dir && open && <Tree {...p} path={e.path} depth={p.depth + 1} />}
          </li>
        );
      })}
      {list && !list.length && p.depth > 0 && <li role="none" class="entry quiet" style={indent}>empty</li>}
    </ul>
  );
}

/** `odd`: why there is nothing to show or edit. */
interface Open { entry: Entry; odd?: string; binary: boolean; text: string; saved: string; modifiedAt: string; preview: boolean }

/** Whether the file is read into the editor at all. */
const isShownWhole = (e: Entry) => e.size > BIG || isPdf(e.name) || (pictureType(e.name) && !hasPreview(e.name));

function Content(p: { id: string; file: Open; onText: (text: string) => void; onSave: () => void }) {
  const { file, file: { entry } } = p, same = { id: p.id, path: entry.path, name: entry.name };
  if (file.odd) return <Empty title={`${entry.name} cannot be shown`}><p>{file.odd}</p></Empty>;
  if (isPdf(entry.name)) return <Pdf {...same} version={file.modifiedAt} />;
  if (pictureType(entry.name) && (file.binary || isShownWhole(entry))) return <Picture {...same} version={file.modifiedAt} />;
  if (entry.size > BIG) return <Large {...same} size={entry.size} />;
  if (file.binary) return <Empty title={`${entry.name} is no text`}><p>Download it to look at it.</p></Empty>;
  if (file.preview) return <TextPreview name={entry.name} text={file.text} />;
  return <Editor key={entry.path} name={entry.name} label={entry.path} text={file.text} onChange={p.onText} onSave={p.onSave} focus />;
}

export function Files(p: { id: string; active: boolean; box: Box }) {
  const live = useLive(p.box.state) && connected.value;
  const [open, setOpen] = useState(new Set<string>()), [lists, setLists] = useState<Lists>(new Map()), [version, setVersion] = useState(0), [file, setFile] = useState<Open>(), [at, setAt] = useState<Entry>(ROOT);
  const [sending, setSending] = useState<Progress>(), [outside, setOutside] = useState<'' | 'changed' | 'deleted'>(''), input = useRef<HTMLInputElement>(null), stop = useRef<AbortController | undefined>(undefined), latest = useRef(file), listing = useRef(Promise.resolve()), moving = useRef(false);
  const dirty = Boolean(file && !file.binary && file.text !== file.saved), directory = at.type === 'directory' ? at.path : parentOf(at.path);
  latest.current = file;
  const again = () => setVersion((v) => v + 1);
  useEffect(() => {
    if (!p.active || !live) return undefined;
    const end = new AbortController();
    let due = 0;
    (async () => {
      for await (const e of events('POST', boxPath(p.id, '/api/watch'), { path: ROOT.path, recursive: true }, end.signal)) {
        if (e.type === 'event' && !due) due = window.setTimeout(() => { due = 0; again(); }, 150);
      }
    })().catch((error) => { if (!(error instanceof TypeError)) failed(error); }); // TypeError: the connection broke, the next one follows
    again();
    return () => { end.abort(); clearTimeout(due); };
  }, [p.active, live]);
  useEffect(() => { const keep = (e: BeforeUnloadEvent) => { if (dirty) e.preventDefault(); }; addEventListener('beforeunload', keep); return () => removeEventListener('beforeunload', keep); }, [dirty]);
  useEffect(() => {
    if (!p.active || !live || moving.current) return undefined;
    let late = false;
    listing.current = listAll(p.id, (path) => open.has(path) || Boolean(file?.entry.path.startsWith(`${path}/`))).then((all) => { if (!late) setLists(all); }).catch((error) => { if (!(error instanceof TypeError)) failed(error); });
    return () => { late = true; };
  }, [version, open, live, p.active]);
  useEffect(() => {
    const now = file && lists.get(parentOf(file.entry.path))?.find((e) => e.path === file.entry.path);
    setOutside(!file || !lists.size ? '' : !now ? 'deleted' : now.modifiedAt !== file.modifiedAt ? 'changed' : '');
  }, [lists]);

  const read = async (entry: Entry): Promise<Open> => {
    const base = { entry, binary: true, text: '', saved: '', modifiedAt: entry.modifiedAt, preview: false };
    if (entry.type === 'other') return { ...base, odd: 'It is a pipe, a socket or a device, not a file.' };
    if (entry.type === 'symlink' && !(await typeBehind(p.id, entry.path))) return { ...base, odd: 'It is a link that leads nowhere.' };
    if (isShownWhole(entry)) return base;
    const got = await json('POST', boxPath(p.id, '/api/read'), { path: entry.path });
    return got.isBinary ? base : { ...base, binary: false, text: got.content, saved: got.content, preview: hasPreview(entry.name) };
  };
  const pick = (entry: Entry) => attempt(async () => {
    if (entry.type === 'directory' || open.has(entry.path) || (entry.type === 'symlink' && (await typeBehind(p.id, entry.path)) === 'directory')) {
      const next = new Set(open);
      if (!next.delete(entry.path)) next.add(entry.path);
      setOpen(next);
      setAt({ ...entry, type: 'directory' });
      return;
    }
    if (dirty && entry.path === file!.entry.path) { setAt(entry); return; }
    if (dirty && !(await sure(`Leave ${file!.entry.name} without saving it?`, 'Leave it'))) return;
    const typed = latest.current?.text, now = await read(entry);
    if (latest.current?.text !== typed) return; // somebody goes on typing: what they type stays
    setOutside('');
    setAt(entry);
    setFile(now);
  });
  const save = () => attempt(async () => {
    if (!file || !(dirty || outside === 'deleted')) return;
    const now = await look(p.id, file.entry.path);
    if (now && now.modifiedAt !== file.modifiedAt && !(await sure(`${file.entry.name} was changed in the box since it was opened. Write over it?`, 'Write over it'))) return;
    await json('POST', boxPath(p.id, '/api/write'), { path: file.entry.path, content: file.text });
    const after = await look(p.id, file.entry.path);
    setOutside('');
    setFile((f) => (f?.entry.path === file.entry.path ? { ...f, saved: file.text, modifiedAt: after?.modifiedAt ?? f.modifiedAt } : f));
    again();
  });
  const send = (target: string, files: Sending[]) => attempt(async () => {
    if (!files.length || !(await mayWrite(p.id, target, files.map((f) => f.path)))) return;
    stop.current = new AbortController();
    try {
      await upload(p.id, target, files, setSending, stop.current.signal);
      notice(files.length === 1 ? `${files[0]!.path} is in ${target}` : `${files.length} files are in ${target}`);
    } finally {
      setSending(undefined);
      again();
    }
  });
  const make = (kind: 'file' | 'directory') => attempt(async () => {
    const path = await ask(`New ${kind}`, 'Path', `${directory}/`);
    if (!path || (kind === 'file' && !(await mayWriteAt(p.id, path)))) return;
    if (kind === 'file') await json('POST', boxPath(p.id, '/api/write'), { path, content: '' });
    else await json('POST', boxPath(p.id, '/api/mkdir'), { path, recursive: true });
    again();
  });
  const isBelow = (path: string) => Boolean(file && (file.entry.path === path || file.entry.path.startsWith(`${path}/`)));
  const left = (path: string) => { if (isBelow(path)) setFile(undefined); setAt(ROOT); again(); };
  /** Moves or deletes while nobody lists what goes. */
  const alone = async (work: () => Promise<unknown>) => {
    moving.current = true;
    try {
      await listing.current;
      await work();
    } finally {
      moving.current = false;
      again();
    }
  };
  const move = () => attempt(async () => {
    const to = await ask(`Rename or move ${at.name}`, 'New path', at.path);
    if (!to || to === at.path || !(await mayWriteAt(p.id, to))) return;
    if (dirty && isBelow(at.path) && !(await sure(`Move it without what is not saved in ${file!.entry.name}?`, 'Move it'))) return;
    await alone(() => json('POST', boxPath(p.id, '/api/move'), { sourcePath: at.path, destinationPath: to }));
    left(at.path);
  });
  const remove = () => attempt(async () => {
    const dir = at.type === 'directory';
    if (!(await sure(dir ? `Delete ${at.path} with everything in it?` : `Delete ${at.path}?`, 'Delete'))) return;
    await alone(() => (dir ? exec(p.id, 'rm', '-rf', '--', at.path) : json('POST', boxPath(p.id, '/api/delete'), { path: at.path })));
    left(at.path);
  });
  const isRoot = at.path === ROOT.path, name = at.type === 'directory' ? at.path : at.name;
  return (
    <div class="files">
      <aside>
        <div class="row tools"><Button class="quiet" onClick={() => make('file')}>New file</Button><Button class="quiet" onClick={() => make('directory')}>New directory</Button><Button class="quiet" onClick={() => input.current!.click()}>Upload</Button>
          <input ref={input} class="hidden" type="file" multiple tabIndex={-1} aria-label="Files to upload" onChange={(e) => { send(directory, [...e.currentTarget.files!].map((f) => ({ path: f.name, file: f }))); e.currentTarget.value = ''; }} /></div>
        {sending && <div class="sending"><p role="status">Sending {sending.path} ({sending.files + 1} of {sending.of})</p><progress aria-label="Upload" value={sending.done} max={sending.total || 1} /> <small>{bytes(sending.done)} of {bytes(sending.total)}</small> <Button class="quiet" onClick={() => stop.current?.abort()}>Cancel</Button></div>}
        <button type="button" class={isRoot ? 'root on' : 'root'} aria-pressed={isRoot} onClick={() => setAt(ROOT)}>{ROOT.path}</button>
        <Tree path={ROOT.path} depth={0} lists={lists} open={open} pick={pick} picked={at.path} drop={(path, data) => dropped(data).then((f) => send(path, f)).catch(failed)} />
      </aside>
      <div class="content">
        <div class="row tools" role="toolbar" aria-label={`Actions for ${name}`}><strong>{name}{dirty && file?.entry.path === at.path ? ' ●' : ''}</strong>{dirty && <span class="hidden">not saved</span>}{outside && <span class="state stopped">{outside} in the box</span>}<span class="grow" />
          {file && file.entry.path === at.path && !file.binary && <>{hasPreview(at.name) && <Button onClick={() => setFile({ ...file, preview: !file.preview })}>{file.preview ? 'Edit' : 'Preview'}</Button>}<Button kind="main" disabled={!dirty && outside !== 'deleted'} onClick={save}>Save</Button></>}
          {at.type === 'directory' ? <Button onClick={() => attempt(() => download(p.id, at.path, true))}>Download as tar</Button> : !(file?.odd && file.entry.path === at.path) && <Button onClick={() => attempt(() => download(p.id, at.path))}>Download</Button>}
          {!isRoot && <><Button onClick={move}>Move</Button><Button kind="danger" onClick={remove}>Delete</Button></>}</div>
        {!file ? <Empty title="No file is open"><p>Choose one on the left, or drop files and directories there to upload them.</p></Empty>
          : <Content id={p.id} file={file} onText={(text) => setFile((f) => f && { ...f, text })} onSave={save} />}
      </div>
    </div>
  );
}
