/** Terminals: tabs and splits of xterm.js on /ws/pty. A terminal belongs to its box: a cut connection or a restart of the daemon only pauses it. */
import { FitAddon } from '@xterm/addon-fit';
import { SearchAddon } from '@xterm/addon-search';
import { WebLinksAddon } from '@xterm/addon-web-links';
import { Terminal } from '@xterm/xterm';
import { useEffect, useLayoutEffect, useRef, useState } from 'preact/hooks';
import { boxPath, socketUrl } from '../api';
import { Flood, SCROLLBACK, WINDOW } from '../flood';
import { boxes, loadBoxes, type Box } from '../state';
import { Button, useLive } from '../ui';

const light = { background: '#ffffff', foreground: '#1d2433', cursor: '#0b6e69', selectionBackground: '#b6dedb', black: '#1d2433', red: '#b3261e', green: '#1a7340', yellow: '#8a5a00', blue: '#1f5fbf', magenta: '#8a3ab0', cyan: '#0b6e69', white: '#55606f', brightBlack: '#55606f', brightRed: '#c7352c', brightGreen: '#1f8a4c', brightYellow: '#9a6700', brightBlue: '#2a6fd6', brightMagenta: '#9c4bc4', brightCyan: '#0d7f79', brightWhite: '#1d2433' };
const dark = { background: '#10151d', foreground: '#d5dce6', cursor: '#52c7bf', selectionBackground: '#2d4a55' };
const theme = () => (matchMedia('(prefers-color-scheme: dark)').matches ? dark : light);

/** A browser complains of a socket that is closed before it is open. */
function leave(socket: WebSocket | undefined): void {
  if (!socket) return;
  socket.onmessage = null;
  if (socket.readyState === WebSocket.CONNECTING) socket.onopen = () => socket.close();
  else socket.close();
}

/** After a cut: a box that was stopped is not started again by a terminal that somebody left open. */
async function mayConnect(id: string): Promise<boolean> {
  await loadBoxes();
  return ['running', 'creating'].includes(boxes.value.get(id)?.state ?? '');
}

function One(p: { id: string; session: string; live: boolean; active: boolean; clicks: number; onExit: () => void }) {
  const place = useRef<HTMLDivElement>(null), term = useRef<Terminal | undefined>(undefined), search = useRef<SearchAddon | undefined>(undefined);
  const [state, setState] = useState('connecting');
  const [finding, setFinding] = useState(false), wake = useRef(() => {}), field = useRef<HTMLInputElement>(null);
  useLayoutEffect(() => { if (finding) field.current!.focus(); }, [finding]); // at once: the next key belongs to it
  useEffect(() => {
    const t = new Terminal({ fontFamily: 'ui-monospace, SFMono-Regular, Menlo, monospace', fontSize: 13, scrollback: SCROLLBACK, theme: theme(), allowProposedApi: false, screenReaderMode: false });
    const fit = new FitAddon(), find = new SearchAddon();
    t.loadAddon(fit);
    t.loadAddon(find);
    t.loadAddon(new WebLinksAddon((e, url) => { e.preventDefault(); if (/^https?:/.test(url)) window.open(url, '_blank', 'noopener,noreferrer'); }));
    t.open(place.current!);
    term.current = t;
    search.current = find;
    t.attachCustomKeyEventHandler((e) => {
      if (e.type === 'keydown' && e.ctrlKey && e.shiftKey && e.key === 'F') { e.preventDefault(); setFinding(true); field.current?.focus(); return false; }
      if (e.type === 'keydown' && e.ctrlKey && e.shiftKey && e.key === 'C') { navigator.clipboard?.writeText(t.getSelection()); return false; }
      return !((e.ctrlKey || e.metaKey) && e.key === 'k');
    });
    let socket: WebSocket | undefined, timer = 0, tries = 0, ended = false;
    const connect = () => {
      fit.fit();
      socket = new WebSocket(socketUrl(boxPath(p.id, `/ws/pty?sessionId=${encodeURIComponent(p.session)}&cols=${t.cols}&rows=${t.rows}&window=${WINDOW}`)));
      const mine = socket, flood = new Flood((data, drawn) => t.write(data, drawn), (bytes) => { if (mine.readyState === WebSocket.OPEN) mine.send(JSON.stringify({ type: 'ack', bytes })); }, () => t.rows);
      socket.binaryType = 'arraybuffer';
      socket.onopen = () => { tries = 0; t.reset(); setState('open'); };
      socket.onmessage = (e) => {
        if (typeof e.data === 'string') {
          const message = JSON.parse(e.data);
          if (message.type === 'exit') { ended = true; setState(`ended with ${message.code}`); p.onExit(); }
          return;
        }
        flood.add(new Uint8Array(e.data as ArrayBuffer));
      };
      socket.onclose = () => {
        if (ended) return;
        flood.clear();
        setState('reconnecting');
        again();
      };
    };
    const again = () => {
      timer = window.setTimeout(() => mayConnect(p.id).then((may) => { if (!ended) { if (may) connect(); else setState('stopped'); } }, again), Math.min(200 * 2 ** tries++, 5000));
    };
    wake.current = () => { if (socket?.readyState === WebSocket.CLOSED && !ended) { clearTimeout(timer); connect(); } };
    connect();
    const send = (data: string | Uint8Array) => { if (socket?.readyState === WebSocket.OPEN) socket.send(data as any); };
    t.onData((text) => send(new TextEncoder().encode(text)));
    t.onBinary((text) => send(Uint8Array.from(text, (ch) => ch.charCodeAt(0))));
    t.onResize(({ cols, rows }) => send(JSON.stringify({ type: 'resize', cols, rows })));
    const sizes = new ResizeObserver(() => { if (place.current?.offsetWidth) fit.fit(); });
    sizes.observe(place.current!);
    const scheme = matchMedia('(prefers-color-scheme: dark)'), repaint = () => { t.options.theme = theme(); };
    scheme.addEventListener('change', repaint);
    return () => { ended = true; clearTimeout(timer); sizes.disconnect(); scheme.removeEventListener('change', repaint); leave(socket); t.dispose(); };
  }, []);
  useEffect(() => { if (p.live && state === 'stopped') wake.current(); }, [p.live, state]);
  useEffect(() => { if (p.active) setTimeout(() => term.current?.focus(), 0); }, [p.active, p.clicks]);
  return (
    <div class="terminal">
      {finding && <div class="find row"><input ref={field} aria-label="Search in the terminal" placeholder="Search" onKeyDown={(e) => { if (e.key === 'Enter') search.current?.[e.shiftKey ? 'findPrevious' : 'findNext'](e.currentTarget.value); if (e.key === 'Escape') { setFinding(false); term.current?.focus(); } }} /></div>}
      {state !== 'open' && <p class="overlay" role="status">{state === 'connecting' ? '' : state === 'reconnecting' ? 'Reconnecting …' : state === 'stopped' ? 'The box does not run' : `The shell ${state}`}</p>}
      <div class="screen" ref={place} />
    </div>
  );
}

let made = 0;
export function Terminals(p: { id: string; active: boolean; clicks: number; box: Box }) {
  const live = useLive(p.box.state);
  const [panes, setPanes] = useState<{ name: string; session: string; split: string[]; ended: boolean }[]>(() => [{ name: 'Shell 1', session: 'console', split: [], ended: false }]);
  const [at, setAt] = useState(0);
  const add = () => { const session = `console-${Date.now().toString(36)}${++made}`; setPanes([...panes, { name: `Shell ${panes.length + 1}`, session, split: [], ended: false }]); setAt(panes.length); };
  const change = (i: number, what: object) => setPanes((now) => now.map((x, k) => (k === i ? { ...x, ...what } : x)));
  const close = (i: number) => { const next = panes.filter((_, k) => k !== i); setPanes(next.length ? next : [{ name: 'Shell 1', session: `console-${Date.now().toString(36)}`, split: [], ended: false }]); setAt(Math.max(0, Math.min(at, next.length - 1))); };
  return (
    <div class="terminals">
      <div class="subtabs row" role="group" aria-label="Terminals">
        {panes.map((x, i) => <span class={i === at ? 'subtab on' : 'subtab'}><button type="button" aria-pressed={i === at} onClick={() => setAt(i)}>{x.name}{x.ended ? ' (ended)' : ''}</button>{panes.length > 1 && <button type="button" aria-label={`Close ${x.name}`} onClick={() => close(i)}>×</button>}</span>)}
        <Button class="quiet" onClick={add} aria-label="New terminal">+</Button>
        <span class="grow" />
        <Button class="quiet" onClick={() => change(at, { split: [...panes[at].split, `console-${Date.now().toString(36)}${++made}`] })}>Split</Button>
        <small class="wide-only">Ctrl Shift F searches · Ctrl Shift C copies</small>
      </div>
      {panes.map((x, i) => (
        <div class="panes" key={x.session} hidden={i !== at}>
          {[x.session, ...x.split].map((session) => <One key={session} id={p.id} session={session} live={live} clicks={p.clicks} active={p.active && i === at && session === (x.split.at(-1) ?? x.session)} onExit={() => (session === x.session ? change(i, { ended: true }) : change(i, { split: x.split.filter((s) => s !== session) }))} />)}
        </div>
      ))}
    </div>
  );
}
