/** A notebook on code contexts: cells in Python, JavaScript and TypeScript, kept as .ipynb in the box. */
import { useEffect, useRef, useState } from 'preact/hooks';
import { boxPath, events, json } from '../api';
import { Editor } from '../editor';
import { Formula } from '../formula';
import { Markdown } from '../markdown';
import { attempt, failed, notice } from '../state';
import { Ansi, Button, sure } from '../ui';

type Output = { type: string; text?: string; [mime: string]: any };
interface Cell { key: number; language: string; code: string; outputs: Output[]; count?: number | undefined; running: boolean }
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

const toNotebook = (cells: Cell[]) => ({
  nbformat: 4, nbformat_minor: 5, metadata: { kernelspec: { name: 'python3', display_name: 'Python 3', language: 'python' } },
  cells: cells.map((c) => ({
    cell_type: 'code', execution_count: c.count ?? null, metadata: { language: c.language }, source: c.code.split(/(?<=\n)/),
    outputs: c.outputs.map((o) => {
      if (o.type === 'stdout' || o.type === 'stderr') return { output_type: 'stream', name: o.type, text: o.text };
      if (o.type === 'error') return { output_type: 'error', ename: o.ename, evalue: o.evalue, traceback: o.traceback ?? [] };
      const data: any = {};
      for (const [key, mime] of [['text', 'text/plain'], ['html', 'text/html'], ['png', 'image/png'], ['jpeg', 'image/jpeg'], ['svg', 'image/svg+xml'], ['latex', 'text/latex'], ['markdown', 'text/markdown'], ['json', 'application/json']] as const) if (o[key] !== undefined) data[mime] = o[key];
      return { output_type: 'display_data', data, metadata: {} };
    }),
  })),
});

function fromNotebook(book: any): Cell[] {
  const text = (x: any) => (Array.isArray(x) ? x.join('') : x ?? '');
  return book.cells.filter((c: any) => c.cell_type === 'code').map((c: any) => ({
    ...cell(c.metadata?.language ?? 'python', text(c.source)), count: c.execution_count ?? undefined,
    outputs: (c.outputs ?? []).map((o: any) => {
      if (o.output_type === 'stream') return { type: o.name, text: text(o.text) };
      if (o.output_type === 'error') return { type: 'error', ename: o.ename, evalue: o.evalue, traceback: o.traceback };
      const d = o.data ?? {};
      return { type: 'result', text: text(d['text/plain']), html: d['text/html'] && text(d['text/html']), png: d['image/png'] && text(d['image/png']), jpeg: d['image/jpeg'] && text(d['image/jpeg']), latex: d['text/latex'] && text(d['text/latex']), markdown: d['text/markdown'] && text(d['text/markdown']), svg: d['image/svg+xml'] && text(d['image/svg+xml']), json: d['application/json'] };
    }),
  }));
}

export function Notebook(p: { id: string; active: boolean }) {
  const [cells, setCells] = useState<Cell[]>(() => [cell()]), [path, setPath] = useState('/workspace/notebook.ipynb'), [focus, setFocus] = useState(() => keys);
  const contexts = useRef<Record<string, string>>({}), stops = useRef<Record<number, AbortController>>({}), latest = useRef(cells);
  latest.current = cells;
  const change = (key: number, what: Partial<Cell> | ((c: Cell) => Partial<Cell>)) => setCells((list) => list.map((c) => (c.key === key ? { ...c, ...(typeof what === 'function' ? what(c) : what) } : c)));
  const contextOf = async (language: string) => (contexts.current[language] ??= (await json('POST', boxPath(p.id, '/api/contexts'), { language })).contextId);
  const run = async (key: number, again = true): Promise<void> => {
    const c = latest.current.find((x) => x.key === key)!;
    if (c.running || !c.code.trim()) return;
    const stop = new AbortController();
    stops.current[key] = stop;
    change(key, { running: true, outputs: [] });
    try {
      const context_id = await contextOf(c.language);
      for await (const e of events('POST', boxPath(p.id, '/api/execute/code'), { code: c.code, context_id }, stop.signal)) {
        if (e.type === 'execution_complete') change(key, { count: e.execution_count });
        else change(key, ({ outputs }) => {
          const last = outputs.at(-1);
          if (last && last.type === e.type && (e.type === 'stdout' || e.type === 'stderr')) return { outputs: [...outputs.slice(0, -1), { ...last, text: ((last.text ?? '') + e.text).slice(-200_000) }] };
          return { outputs: [...outputs, e] };
        });
      }
    } catch (error) {
      if ((error as any).status === 404 && again) {
        delete contexts.current[c.language];
        change(key, { running: false });
        return run(key, false);
      }
      failed(error);
    } finally {
      delete stops.current[key];
      change(key, { running: false });
    }
  };
  const runAll = async () => { for (const c of [...latest.current]) await run(c.key); };
  const next = (key: number) => {
    const i = latest.current.findIndex((c) => c.key === key);
    if (i === latest.current.length - 1) { const made = cell(latest.current[i]!.language); setCells((list) => [...list, made]); setFocus(made.key); }
    run(key);
  };
  const restart = () => attempt(async () => {
    for (const stop of Object.values(stops.current)) stop.abort();
    for (const id of Object.values(contexts.current)) await json('DELETE', boxPath(p.id, `/api/contexts/${id}`)).catch(() => {});
    contexts.current = {};
    setCells((list) => list.map((c) => ({ ...c, outputs: [], count: undefined, running: false })));
  });
  const move = (key: number, by: number) => setCells((list) => { const i = list.findIndex((c) => c.key === key), j = i + by; if (j < 0 || j >= list.length) return list; const out = [...list]; [out[i], out[j]] = [out[j]!, out[i]!]; return out; });
  const remove = (key: number) => setCells((list) => (list.length > 1 ? list.filter((c) => c.key !== key) : [cell()]));
  const save = () => attempt(async () => { await json('POST', boxPath(p.id, '/api/write'), { path, content: JSON.stringify(toNotebook(cells), null, 1) }); notice(`${path} is saved`); });
  const load = () => attempt(async () => {
    if (cells.some((c) => c.code) && !(await sure('Open another notebook? What is here goes.', 'Open it'))) return;
    const { content } = await json('POST', boxPath(p.id, '/api/read'), { path });
    const list = fromNotebook(JSON.parse(content));
    setCells(list.length ? list : [cell()]);
  });
  return (
    <div class="page notebook">
      <div class="row tools"><Button kind="main" onClick={runAll}>Run all</Button><Button onClick={() => Object.values(stops.current).forEach((s) => s.abort())}>Interrupt</Button><Button onClick={restart}>Restart</Button><span class="grow" /><input aria-label="Path of the notebook" value={path} onInput={(e) => setPath(e.currentTarget.value)} /><Button onClick={load}>Open</Button><Button onClick={save}>Save</Button></div>
      {cells.map((c) => (
        <article key={c.key} class={c.running ? 'cell running' : 'cell'} aria-label={`Cell ${c.count ?? ''}`}>
          <div class="row"><span class="count" aria-live="polite">{c.running ? '[*]' : `[${c.count ?? ' '}]`}</span><select aria-label="Language" value={c.language} onChange={(e) => change(c.key, { language: e.currentTarget.value })}>{['python', 'javascript', 'typescript'].map((l) => <option>{l}</option>)}</select><span class="grow" />
            {c.running ? <Button onClick={() => stops.current[c.key]?.abort()}>Interrupt</Button> : <Button onClick={() => run(c.key)}>Run</Button>}<Button class="quiet" aria-label="Move up" onClick={() => move(c.key, -1)}>↑</Button><Button class="quiet" aria-label="Move down" onClick={() => move(c.key, 1)}>↓</Button><Button class="quiet" aria-label="Delete the cell" onClick={() => remove(c.key)}>×</Button></div>
          <Editor key={`${c.key}${c.language}`} small name={`x.${c.language}`} label="Code" text={c.code} onChange={(code) => change(c.key, { code })} onSave={save} focus={focus === c.key} keys={[{ key: 'Shift-Enter', run: () => { next(c.key); return true; } }, { key: 'Ctrl-Enter', run: () => { run(c.key); return true; } }]} />
          {c.outputs.length > 0 && <div class="outputs" aria-live="polite">{c.outputs.map((o) => <Result output={o} />)}</div>}
        </article>
      ))}
      <div class="row"><Button onClick={() => { const made = cell(cells.at(-1)!.language); setCells((list) => [...list, made]); setFocus(made.key); }}>New cell</Button></div>
    </div>
  );
}
