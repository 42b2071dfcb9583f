/** A notebook on code contexts: cells in Python, JavaScript and TypeScript, kept as .ipynb in the box. */
import { useEffect, useRef, useState } from 'preact/hooks';
import { boxPath, events, json } from '../api';
import { Editor } from '../editor';
import { look } from '../entries';
import { Formula } from '../formula';
import { Markdown } from '../markdown';
import { attempt, failed, notice } from '../state';
import { Ansi, Button, sure } from '../ui';

type Output = { type: string; text?: string; [mime: string]: any };
/** `cut`: its first outputs were left out. `kept` is what an opened notebook had in this cell that is not shown here: it is saved again. So is an output (`raw`) that was not made here. */
interface Cell { key: number; language: string; code: string; outputs: Output[]; count?: number | undefined; running: boolean; cut?: boolean; kept?: any }
/** Cells that are text; the others are run. */
const TEXT = ['markdown', 'raw'];
let keys = 0;
const cell = (language = 'python', code = ''): Cell => ({ key: ++keys, language, code, outputs: [], running: false });

function Tree(p: { value: any; name?: string }) {
  if (p.value === null || typeof p.value !== 'object') return <div class="leaf">{p.name !== undefined && <b>{p.name}: </b>}<code>{JSON.stringify(p.value)}</code></div>;
  const entries = Object.entries(p.value);
  return <details open={entries.length < 20}><summary>{p.name ?? (Array.isArray(p.value) ? 'array' : 'object')} ({entries.length})</summary>{entries.slice(0, 500).map(([k, v]) => <Tree name={k} value={v} />)}</details>;
}

/** HTML of a box: in a frame without scripts of its own, whose origin is no origin. */
function Html(p: { html: string }) {
  const frame = useRef<HTMLIFrameElement>(null);
  const lines = (p.html.match(/<tr|<p|<br|<div/gi) ?? []).length;
  return <iframe ref={frame} class="html" title="Result" sandbox="" referrerpolicy="no-referrer" style={{ height: `${Math.min(480, 34 + lines * 24)}px` }} srcdoc={`<!doctype html><meta name="color-scheme" content="light dark"><style>html{background:Canvas;color:CanvasText}body{font:13px system-ui;margin:8px}table{border-collapse:collapse}td,th{padding:2px 8px;border:1px solid #8886}</style>${p.html}`} />;
}

function Result(p: { output: Output }) {
  const o = p.output;
  if (o.type === 'stdout' || o.type === 'stderr') return <pre class={o.type}><Ansi text={o.text ?? ''} /></pre>;
  if (o.type === 'error') return <pre class="traceback"><Ansi text={(o.traceback?.length ? o.traceback.join('\n') : `${o.ename}: ${o.evalue}`)} /></pre>;
  if (o.png) return <img class="picture" alt={o.text ?? 'A picture'} src={`data:image/png;base64,${o.png}`} />;
  if (o.jpeg) return <img class="picture" alt={o.text ?? 'A picture'} src={`data:image/jpeg;base64,${o.jpeg}`} />;
  if (o.svg) return <img class="picture" alt={o.text ?? 'A picture'} src={`data:image/svg+xml;base64,${btoa(unescape(encodeURIComponent(o.svg)))}`} />;
  if (o.html) return <Html html={o.html} />;
  if (o.markdown) return <Markdown text={o.markdown} />;
  if (o.latex) return <Formula text={o.latex} />;
  if (o.json !== undefined) return <Tree value={o.json} />;
  return <pre>{o.text}</pre>;
}

const MIMES = [['text', 'text/plain'], ['html', 'text/html'], ['png', 'image/png'], ['jpeg', 'image/jpeg'], ['svg', 'image/svg+xml'], ['latex', 'text/latex'], ['markdown', 'text/markdown'], ['json', 'application/json']] as const;
const text = (x: any) => (Array.isArray(x) ? x.join('') : String(x ?? ''));
const rendered = (code: string): Output[] => [{ type: 'result', markdown: code }];

function toOutput(o: Output): any {
  if (o.raw) return o.raw;
  if (o.type === 'stdout' || o.type === 'stderr') return { output_type: 'stream', name: o.type, text: o.text };
  if (o.type === 'error') return { output_type: 'error', ename: o.ename, evalue: o.evalue, traceback: o.traceback ?? [] };
  const data: any = {};
  for (const [key, mime] of MIMES) if (o[key] !== undefined) data[mime] = o[key];
  return { output_type: 'display_data', data, metadata: {} };
}

function fromOutput(o: any): Output {
  if (o.output_type === 'stream') return { type: o.name, text: text(o.text), raw: o };
  if (o.output_type === 'error') return { type: 'error', ename: o.ename, evalue: o.evalue, traceback: [o.traceback ?? []].flat(), raw: o };
  const made: Output = { type: 'result', raw: o };
  for (const [key, mime] of MIMES) if (o.data?.[mime] !== undefined) made[key] = key === 'json' ? o.data[mime] : text(o.data[mime]);
  return made;
}

const emptyBook = () => ({ nbformat: 4, nbformat_minor: 5, metadata: { kernelspec: { name: 'python3', display_name: 'Python 3', language: 'python' } } });

const toNotebook = (cells: Cell[], book: any) => ({
  ...book,
  cells: cells.map((c) => ({
    id: `${Math.random().toString(36).slice(2, 10)}${c.key}`, ...c.kept, metadata: { ...c.kept?.metadata, ...(!TEXT.includes(c.language) && { language: c.language }) }, source: c.code.split(/(?<=\n)/),
    ...(TEXT.includes(c.language) ? { cell_type: c.language } : { cell_type: 'code', execution_count: c.count ?? null, outputs: c.outputs.map(toOutput) }),
  })),
});

/** Throws when it is no notebook. */
function fromNotebook(book: any): Cell[] {
  return book.cells.map((c: any) => {
    const { source, outputs, execution_count, cell_type, ...kept } = c, code = text(source);
    if (cell_type !== 'code') return { ...cell(cell_type === 'markdown' ? 'markdown' : 'raw', code), kept, outputs: cell_type === 'markdown' ? rendered(code) : [] };
    return { ...cell(c.metadata?.language ?? book.metadata?.kernelspec?.language ?? 'python', code), kept, count: execution_count ?? undefined, outputs: (outputs ?? []).map(fromOutput) };
  });
}

/** What a file holds: its cells, and the rest that is saved again. */
function parse(path: string, content: string): { list: Cell[]; rest: any } {
  try {
    const { cells, ...rest } = JSON.parse(content);
    return { list: fromNotebook({ ...rest, cells }), rest };
  } catch {
    throw new Error(`${path} is not a notebook`);
  }
}

const isStream = (o: Output) => o.type === 'stdout' || o.type === 'stderr';
/** Of one cell: a stream keeps its last characters, and all outputs together have these bounds. */
const REDRAW_MS = 50, TEXT_KEPT = 200_000, OUTPUTS_KEPT = 500, SIZE_KEPT = 32 << 20;
const sizeOf = (o: Output) => Object.values(o).reduce((n: number, v) => n + (typeof v === 'string' ? v.length : 0), 0);

/** The last outputs that fit. */
function fitting(outputs: Output[]): Output[] {
  let from = Math.max(0, outputs.length - OUTPUTS_KEPT), size = outputs.slice(from).reduce((n, o) => n + sizeOf(o), 0);
  while (size > SIZE_KEPT && from < outputs.length - 1) size -= sizeOf(outputs[from++]!);
  return from ? outputs.slice(from) : outputs;
}

/** Gathers outputs, so that a flood of lines is one change of the page now and then, and not one for each line. */
function gather(show: (change: (now: Cell) => Partial<Cell>) => void): { add: (o: Output) => void; flush: () => void } {
  let waiting: { output: Output; parts: string[] }[] = [], due = 0;
  const flush = () => {
    clearTimeout(due);
    due = 0;
    const some = waiting;
    waiting = [];
    if (some.length) show(({ outputs, cut = false }) => {
      const all = [...outputs];
      for (const { output, parts } of some) {
        const last = all.at(-1), goesOn = isStream(output) && last?.type === output.type && !last.raw;
        if (!isStream(output)) { all.push(output); continue; }
        const text = (goesOn ? last.text ?? '' : '') + parts.join('');
        cut ||= text.length > TEXT_KEPT;
        all.splice(goesOn ? -1 : all.length, 1, { ...output, text: text.slice(-TEXT_KEPT) });
      }
      const left = fitting(all);
      return { outputs: left, cut: cut || left !== all };
    });
  };
  const add = (output: Output) => {
    const last = waiting.at(-1);
    if (last && isStream(output) && last.output.type === output.type) last.parts.push(output.text ?? '');
    else waiting.push({ output, parts: [output.text ?? ''] });
    due ||= window.setTimeout(flush, REDRAW_MS);
  };
  return { add, flush };
}

export function Notebook(p: { id: string; active: boolean }) {
  const [cells, setCells] = useState<Cell[]>(() => [cell()]), [path, setPath] = useState('/workspace/notebook.ipynb'), [focus, setFocus] = useState(() => keys);
  const contexts = useRef<Record<string, string>>({}), stops = useRef<Record<number, AbortController>>({}), latest = useRef(cells), book = useRef<any>(emptyBook());
  /** The cells as they are in the box, and where: what is not saved is asked about before it goes, and so is a file that somebody else wrote. */
  const [clean, setClean] = useState(cells), origin = useRef<{ path: string; modifiedAt: string | undefined } | undefined>(undefined), dirty = cells !== clean && Boolean(origin.current || cells.some((c) => c.code));
  useEffect(() => { const keep = (e: BeforeUnloadEvent) => { if (dirty) e.preventDefault(); }; addEventListener('beforeunload', keep); return () => removeEventListener('beforeunload', keep); }, [dirty]);
  latest.current = cells;
  const change = (key: number, what: Partial<Cell> | ((c: Cell) => Partial<Cell>)) => setCells((list) => list.map((c) => (c.key === key ? { ...c, ...(typeof what === 'function' ? what(c) : what) } : c)));
  const contextOf = async (language: string) => (contexts.current[language] ??= (await json('POST', boxPath(p.id, '/api/contexts'), { language })).contextId);
  /** False: the code failed or was interrupted. */
  const run = async (key: number, again = true): Promise<boolean> => {
    const c = latest.current.find((x) => x.key === key)!;
    if (c.running || !c.code.trim() || c.language === 'raw') return true;
    if (c.language === 'markdown') { change(key, { outputs: rendered(c.code) }); return true; }
    let good = true;
    const stop = new AbortController(), { add, flush } = gather((more) => change(key, more));
    stops.current[key] = stop;
    change(key, { running: true, outputs: [], cut: false });
    try {
      const context_id = await contextOf(c.language);
      for await (const e of events('POST', boxPath(p.id, '/api/execute/code'), { code: c.code, context_id }, stop.signal)) {
        if (e.type === 'execution_complete') change(key, { count: e.execution_count });
        else { good &&= e.type !== 'error'; add(e); }
      }
    } catch (error) {
      good = false;
      if (stop.signal.aborted) add({ type: 'error', ename: 'Interrupted', evalue: '', traceback: ['Interrupted'] });
      if ((error as any).status === 404 && again) {
        delete contexts.current[c.language];
        change(key, { running: false });
        return run(key, false);
      }
      failed(error);
    } finally {
      delete stops.current[key];
      flush();
      change(key, { running: false });
    }
    return good;
  };
  const runAll = async () => { for (const c of [...latest.current]) if (!await run(c.key)) return; };
  const next = (key: number) => {
    const i = latest.current.findIndex((c) => c.key === key);
    if (i === latest.current.length - 1) { const made = cell(latest.current[i]!.language); setCells((list) => [...list, made]); setFocus(made.key); }
    run(key);
  };
  const restart = () => attempt(async () => {
    for (const stop of Object.values(stops.current)) stop.abort();
    for (const id of Object.values(contexts.current)) await json('DELETE', boxPath(p.id, `/api/contexts/${id}`)).catch(() => {});
    contexts.current = {};
    setCells((list) => list.map((c) => ({ ...c, outputs: c.language === 'markdown' ? c.outputs : [], cut: false, count: undefined, running: false })));
  });
  const move = (key: number, by: number) => setCells((list) => { const i = list.findIndex((c) => c.key === key), j = i + by; if (j < 0 || j >= list.length) return list; const out = [...list]; [out[i], out[j]] = [out[j]!, out[i]!]; return out; });
  const remove = (key: number) => setCells((list) => (list.length > 1 ? list.filter((c) => c.key !== key) : [cell()]));
  const save = () => attempt(async () => {
    const there = await look(p.id, path), mine = origin.current?.path === path;
    if (there && !(mine && there.modifiedAt === origin.current!.modifiedAt) && !(await sure(mine ? `${path} was changed in the box since it was opened. Write over it?` : `${path} exists. Write over it?`, 'Write over it'))) return;
    const now = latest.current;
    await json('POST', boxPath(p.id, '/api/write'), { path, content: JSON.stringify(toNotebook(now, book.current), null, 1) });
    origin.current = { path, modifiedAt: (await look(p.id, path))?.modifiedAt };
    setClean(now);
    notice(`${path} is saved`);
  });
  const load = () => attempt(async () => {
    if (dirty && !(await sure('Open another notebook? What is here goes.', 'Open it'))) return;
    const there = await look(p.id, path), { content } = await json('POST', boxPath(p.id, '/api/read'), { path });
    const { list, rest } = parse(path, content), now = list.length ? list : [cell()];
    book.current = rest;
    origin.current = { path, modifiedAt: there?.modifiedAt };
    setCells(now);
    setClean(now);
  });
  return (
    <div class="page notebook">
      <div class="row tools"><Button kind="main" onClick={runAll}>Run all</Button><Button onClick={() => Object.values(stops.current).forEach((s) => s.abort())}>Interrupt</Button><Button onClick={restart}>Restart</Button><span class="grow" /><input aria-label="Path of the notebook" size={30} value={path} onInput={(e) => setPath(e.currentTarget.value)} /><Button onClick={load}>Open</Button><Button onClick={save}>Save</Button></div>
      {cells.map((c) => (
        <article key={c.key} class={c.running ? 'cell running' : 'cell'} aria-label={`Cell ${c.count ?? ''}`}>
          <div class="row"><span class="count" aria-live="polite">{c.running ? '[*]' : `[${c.count ?? ' '}]`}</span><select aria-label="Language" value={c.language} onChange={(e) => change(c.key, { language: e.currentTarget.value })}>{['python', 'javascript', 'typescript', ...TEXT].map((l) => <option>{l}</option>)}</select><span class="grow" />
            {c.running ? <Button onClick={() => stops.current[c.key]?.abort()}>Interrupt</Button> : <Button onClick={() => run(c.key)}>Run</Button>}<Button class="quiet" aria-label="Move up" onClick={() => move(c.key, -1)}>↑</Button><Button class="quiet" aria-label="Move down" onClick={() => move(c.key, 1)}>↓</Button><Button class="quiet" aria-label="Delete the cell" onClick={() => remove(c.key)}>×</Button></div>
          <Editor key={`${c.key}${c.language}`} small name={`x.${c.language}`} label="Code" text={c.code} onChange={(code) => change(c.key, { code })} onSave={save} focus={focus === c.key} keys={[{ key: 'Shift-Enter', run: () => { next(c.key); return true; } }, { key: 'Ctrl-Enter', run: () => { run(c.key); return true; } }]} />
          {c.outputs.length > 0 && <div class="outputs" aria-live="polite">{c.cut && <p class="reason">The first part of the output was left out.</p>}{c.outputs.map((o) => <Result output={o} />)}</div>}
        </article>
      ))}
      <div class="row"><Button onClick={() => { const made = cell(cells.at(-1)!.language); setCells((list) => [...list, made]); setFocus(made.key); }}>New cell</Button></div>
    </div>
  );
}
