/** CodeMirror 6 with the languages of the console. */
import { autocompletion } from '@codemirror/autocomplete';
import { defaultKeymap, history, historyKeymap, indentWithTab } from '@codemirror/commands';
import { cpp } from '@codemirror/lang-cpp';
import { javascript } from '@codemirror/lang-javascript';
import { json } from '@codemirror/lang-json';
import { markdown } from '@codemirror/lang-markdown';
import { python } from '@codemirror/lang-python';
import { yaml } from '@codemirror/lang-yaml';
import { bracketMatching, defaultHighlightStyle, indentOnInput, StreamLanguage, syntaxHighlighting } from '@codemirror/language';
import { shell } from '@codemirror/legacy-modes/mode/shell';
import { highlightSelectionMatches, searchKeymap } from '@codemirror/search';
import { Annotation, Compartment, EditorState, Text, type Extension } from '@codemirror/state';
import { oneDark } from '@codemirror/theme-one-dark';
import { drawSelection, EditorView, highlightActiveLine, keymap, lineNumbers } from '@codemirror/view';
import { useEffect, useRef } from 'preact/hooks';
import { useDark } from './ui';

export function languageOf(name: string): Extension {
  const end = name.toLowerCase().split('.').pop()!;
  if (['py', 'python'].includes(end)) return python();
  if (['js', 'mjs', 'cjs', 'jsx', 'javascript'].includes(end)) return javascript({ jsx: true });
  if (['ts', 'tsx', 'mts', 'typescript'].includes(end)) return javascript({ jsx: true, typescript: true });
  if (['json', 'ipynb', 'jsonc'].includes(end)) return json();
  if (['md', 'markdown'].includes(end)) return markdown();
  if (['yml', 'yaml'].includes(end)) return yaml();
  if (['c', 'h', 'cc', 'cpp', 'hpp'].includes(end)) return cpp();
  if (['sh', 'bash', 'dockerfile', 'makefile'].includes(end)) return StreamLanguage.define(shell);
  return [];
}

/** The colours of oneDark need a darker paper to be readable (WCAG AA). */
const darker = EditorView.theme({ '&': { backgroundColor: '#10151d' }, '.cm-gutters': { backgroundColor: '#10151d' }, '.cm-activeLine, .cm-activeLineGutter': { backgroundColor: '#161c26' } }, { dark: true });

/** Where a text is cut into lines, so that joining them gives the very same text: a file with \r\n is saved with \r\n. */
const cut = (text: string) => (!text.includes('\r') ? undefined : text.includes('\n') && !/(^|[^\r])\n/.test(text) ? '\r\n' : '\n');
const lines = (text: string) => Text.of(text.split(cut(text) ?? '\n'));
const separator = (text: string) => { const at = cut(text); return at ? [EditorState.lineSeparator.of(at), EditorView.clipboardInputFilter.of((pasted, state) => pasted.replace(/\r\n?|\n/g, state.lineBreak))] : []; };
const coloursOf = (dark: boolean) => (dark ? [darker, oneDark] : syntaxHighlighting(defaultHighlightStyle));
/** A change that is none of the person's. */
const given = Annotation.define<boolean>();

export function Editor(p: { text: string; name: string; label: string; onChange?: (text: string) => void; onSave?: () => void; keys?: { key: string; run: () => boolean }[]; focus?: boolean; small?: boolean }) {
  const place = useRef<HTMLDivElement>(null), view = useRef<EditorView | undefined>(undefined), now = useRef(p), told = useRef<string[]>([]), last = useRef(p.text), ends = useRef(new Compartment()), colours = useRef(new Compartment()), dark = useDark();
  now.current = p;
  useEffect(() => {
    const own = [{ key: 'Mod-s', run: () => { now.current.onSave?.(); return Boolean(now.current.onSave); } }, ...(p.keys ?? []).map((k, i) => ({ key: k.key, run: () => now.current.keys![i].run() }))];
    view.current = new EditorView({
      parent: place.current!,
      state: EditorState.create({ doc: lines(p.text), extensions: [
        ends.current.of(separator(p.text)), keymap.of(own), p.small ? [] : lineNumbers(), history(), drawSelection(), indentOnInput(), bracketMatching(), highlightActiveLine(), highlightSelectionMatches(), autocompletion(),
        keymap.of([...defaultKeymap, ...searchKeymap, ...historyKeymap, indentWithTab]), colours.current.of(coloursOf(dark)), languageOf(p.name), EditorView.lineWrapping,
        EditorView.contentAttributes.of({ 'aria-label': p.label }),
        EditorView.updateListener.of((u) => { if (u.docChanged && !u.transactions.some((x) => x.annotation(given))) { const text = u.state.sliceDoc(); told.current.push(text); now.current.onChange?.(text); } }),
      ] }),
    });
    return () => view.current?.destroy();
  }, []);
  useEffect(() => { view.current!.dispatch({ effects: colours.current.reconfigure(coloursOf(dark)) }); }, [dark]);
  useEffect(() => { if (p.focus) view.current!.focus(); }, [p.focus]);
  useEffect(() => {
    const v = view.current!;
    // What the editor itself has told comes back late while somebody types: each once, in its order. Every other text is new.
    const echo = told.current.lastIndexOf(p.text), same = p.text === last.current;
    told.current.splice(0, echo + 1);
    last.current = p.text;
    if (same || echo >= 0 || p.text === v.state.sliceDoc()) return;
    v.dispatch({ changes: { from: 0, to: v.state.doc.length, insert: lines(p.text) }, effects: ends.current.reconfigure(separator(p.text)), annotations: given.of(true) });
  });
  return <div class={p.small ? 'editor small' : 'editor'} ref={place} />;
}
