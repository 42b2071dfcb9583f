/** Small parts that every view uses. */
import type { ComponentChildren, JSX } from 'preact';
import { useEffect, useLayoutEffect, useRef, useState } from 'preact/hooks';
import { signal } from '@preact/signals';

export const bytes = (n: number | undefined) => {
  if (n === undefined) return '–';
  const units = ['B', 'KiB', 'MiB', 'GiB', 'TiB'];
  let i = 0;
  while (n >= 1024 && i < units.length - 1) { n /= 1024; i++; }
  return `${n < 10 && i ? n.toFixed(1) : Math.round(n)} ${units[i]}`;
};
export const age = (when: string | number | undefined) => {
  if (when === undefined) return '–';
  const s = Math.max(0, (Date.now() - new Date(when).getTime()) / 1000);
  return s < 60 ? `${Math.floor(s)} s` : s < 3600 ? `${Math.floor(s / 60)} min` : s < 86400 ? `${Math.floor(s / 3600)} h` : `${Math.floor(s / 86400)} d`;
};
export const clock = (iso: string | undefined) => (iso ? new Date(iso).toLocaleTimeString() : '');
export const percent = (x: number) => `${(100 * x).toFixed(x < 0.1 ? 1 : 0)} %`;

export function Button(p: JSX.IntrinsicElements['button'] & { kind?: 'main' | 'danger' | 'plain' }) {
  const { kind = 'plain', class: extra, ...rest } = p;
  return <button type="button" class={`button ${kind} ${extra ?? ''}`} {...rest} />;
}

/** Whether a view may ask the box for something by itself. Opening a view wakes or starts the box; a box that sleeps or is stopped later is left alone. */
export function useLive(state: string): boolean {
  const was = useRef(false);
  if (state === 'running') was.current = true;
  return state === 'running' || !was.current;
}

/** Whether the system's setting is dark, as it changes. */
export function useDark(): boolean {
  const setting = matchMedia('(prefers-color-scheme: dark)'), [dark, setDark] = useState(setting.matches);
  useEffect(() => { const look = () => setDark(setting.matches); setting.addEventListener('change', look); return () => setting.removeEventListener('change', look); }, []);
  return dark;
}

export function Empty(p: { title: string; children?: ComponentChildren }) {
  return <div class="empty"><h2>{p.title}</h2>{p.children}</div>;
}

/** Nothing for 200 ms, then a word that something is being loaded. */
export function Loading() {
  const [late, setLate] = useState(false);
  useEffect(() => { const t = setTimeout(() => setLate(true), 200); return () => clearTimeout(t); }, []);
  return <p class="loading" role="status">{late ? 'Loading …' : ''}</p>;
}

export function Spark(p: { values: number[]; max?: number | undefined; label: string }) {
  const top = p.max || Math.max(1e-9, ...p.values);
  const points = p.values.map((v, i) => `${((i / Math.max(1, p.values.length - 1)) * 60).toFixed(1)},${(17 - Math.min(1, v / top) * 16).toFixed(1)}`).join(' ');
  return <svg class="spark" width="60" height="18" role="img" aria-label={p.label}><polyline points={points} /></svg>;
}

/** A dialog that has the focus while it is open, and gives it back. A browser may close it without asking (a second Escape): it is told, too. */
export function Dialog(p: { title: string; wide?: boolean; onClose: () => void; children: ComponentChildren }) {
  const ref = useRef<HTMLDialogElement>(null), gone = useRef(false);
  useLayoutEffect(() => { // at once: the next key belongs to the dialog
    const before = document.activeElement as HTMLElement | null;
    const dialog = ref.current!;
    dialog.showModal();
    return () => { gone.current = true; dialog.close(); before?.focus?.(); };
  }, []);
  return (
    <dialog ref={ref} class={p.wide ? 'wide' : ''} aria-label={p.title} onCancel={(e) => { e.preventDefault(); p.onClose(); }} onClose={() => { if (!gone.current) p.onClose(); }} onClick={(e) => { if (e.target === ref.current) p.onClose(); }}>
      <div class="dialog"><h2>{p.title}</h2>{p.children}</div>
    </dialog>
  );
}

interface Question { id: number; text: string; action: string; field?: { label: string; value: string }; answer: (value: string | undefined) => void }
const question = signal<Question | undefined>(undefined);
let asked = 0;
/** Asks before something that cannot be undone. */
export const sure = (text: string, action: string) => new Promise<boolean>((answer) => { question.value = { id: ++asked, text, action, answer: (v) => answer(v !== undefined) }; });
/** Asks for a line of text; undefined when the person would rather not. */
export const ask = (text: string, label: string, value: string) => new Promise<string | undefined>((answer) => { question.value = { id: ++asked, text, action: 'OK', field: { label, value }, answer }; });

/** Has its first value from the start: a key that comes at once is not lost to it. */
function Asked(p: { question: Question }) {
  const q = p.question, [value, setValue] = useState(q.field?.value ?? '');
  const end = (result?: string) => { question.value = undefined; q.answer(result); };
  return (
    <Dialog title={q.text} onClose={() => end()}>
      <form class="stack" onSubmit={(e) => { e.preventDefault(); end(value.trim()); }}>
        {q.field && <Field label={q.field.label}><input autofocus value={value} onInput={(e) => setValue(e.currentTarget.value)} /></Field>}
        <div class="row end"><Button onClick={() => end()}>Cancel</Button><Button kind={q.field ? 'main' : 'danger'} type="submit" autofocus={!q.field}>{q.action}</Button></div>
      </form>
    </Dialog>
  );
}

export const QuestionDialog = () => (question.value ? <Asked key={question.value.id} question={question.value} /> : null);

export const Field = (p: { label: string; children: ComponentChildren; hint?: string }) =>
  <label class="field"><span>{p.label}</span>{p.children}{p.hint && <small>{p.hint}</small>}</label>;

/** Text with its ANSI colours, as elements: nothing of it is ever HTML. */
export function Ansi(p: { text: string; find?: string }) {
  const parts: JSX.Element[] = [];
  let style = '';
  for (const piece of p.text.replace(/\x1b\][^\x07\x1b]*(\x07|\x1b\\)/g, '').split(/(\x1b\[[0-9;?]*[A-Za-z])/)) {
    const code = /^\x1b\[([0-9;]*)m$/.exec(piece);
    if (code) {
      for (const n of (code[1] || '0').split(';').map(Number)) {
        if (n === 0) style = '';
        else if (n === 1) style += ' bold';
        else if ((n >= 30 && n <= 37) || (n >= 90 && n <= 97)) style = `${style.replace(/ ?c\d+/, '')} c${n % 10}`;
      }
    } else if (!piece.startsWith('\x1b[') && piece) {
      parts.push(<span class={style.trim()}>{mark(piece, p.find)}</span>);
    }
  }
  return <>{parts}</>;
}

function mark(text: string, find?: string) {
  if (!find) return text;
  return text.split(find).flatMap((part, i) => (i ? [<mark>{find}</mark>, part] : [part]));
}

/** False: a page that came over plain HTTP from another machine may not. */
export async function copy(text: string): Promise<boolean> {
  return navigator.clipboard?.writeText(text).then(() => true, () => false) ?? false;
}
