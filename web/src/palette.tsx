/** The command palette (Ctrl-K) and the list of shortcuts (?). */
import { useEffect, useState } from 'preact/hooks';
import { json, boxPath } from './api';
import { boxLink, go, route } from './route';
import { attempt, boxes, notice } from './state';
import { Dialog } from './ui';
import { newBox } from './views/boxes';
import { TABS } from './views/box';

interface Command { name: string; run: () => void }

function commands(): Command[] {
  const list: Command[] = [
    { name: 'New box', run: () => { go('/'); newBox.value = true; } },
    { name: 'Boxes', run: () => go('/') },
    { name: 'Host', run: () => go('/host') },
  ];
  const { id } = route.value;
  if (id) {
    for (const tab of TABS()) list.push({ name: `${tab} of ${id}`, run: () => go(boxLink(id, tab).slice(1)) });
    for (const verb of ['sleep', 'wake', 'stop']) list.push({ name: `${verb[0].toUpperCase()}${verb.slice(1)} ${id}`, run: () => attempt(async () => { await json('POST', boxPath(id, `/${verb}`)); notice(`${id}: ${verb} done`); }) });
  }
  for (const box of boxes.value.keys()) list.push({ name: `Open ${box}`, run: () => go(boxLink(box).slice(1)) });
  return list;
}

const SHORTCUTS: [string, string][] = [
  ['Ctrl K', 'command palette'], ['?', 'this list'], ['/', 'filter the boxes'], ['Ctrl S', 'save the file'],
  ['Shift Enter', 'run the cell and go on'], ['Ctrl Enter', 'run the cell'], ['1 … 8', 'tabs of a box'], ['Esc', 'close a dialog'],
];

export function Palette() {
  const [open, setOpen] = useState<'palette' | 'help' | undefined>();
  const [filter, setFilter] = useState('');
  const [at, setAt] = useState(0);
  useEffect(() => {
    const show = () => { setFilter(''); setAt(0); setOpen('palette'); };
    const onKey = (e: KeyboardEvent) => {
      const typing = (e.target as HTMLElement).closest('input, textarea, select, [contenteditable], .xterm');
      if ((e.ctrlKey || e.metaKey) && e.key === 'k') { e.preventDefault(); show(); }
      else if (e.key === '?' && !typing) setOpen('help');
      else if (!typing && route.value.id && /^[1-8]$/.test(e.key) && !e.ctrlKey && !e.altKey && !e.metaKey) {
        const tab = TABS()[Number(e.key) - 1];
        if (tab) go(boxLink(route.value.id, tab).slice(1));
      }
    };
    addEventListener('keydown', onKey, true);
    addEventListener('palette', show);
    return () => { removeEventListener('keydown', onKey, true); removeEventListener('palette', show); };
  }, []);
  if (open === 'help') {
    return <Dialog title="Shortcuts" onClose={() => setOpen(undefined)}><table><tbody>{SHORTCUTS.map(([k, t]) => <tr><td><kbd>{k}</kbd></td><td>{t}</td></tr>)}</tbody></table></Dialog>;
  }
  if (!open) return null;
  const found = commands().filter((c) => c.name.toLowerCase().includes(filter.toLowerCase())).slice(0, 12);
  const run = (c?: Command) => { setOpen(undefined); c?.run(); };
  const onKey = (e: KeyboardEvent) => {
    if (e.key === 'ArrowDown') setAt(Math.min(at + 1, found.length - 1));
    else if (e.key === 'ArrowUp') setAt(Math.max(at - 1, 0));
    else if (e.key === 'Enter') run(found[at]);
    else return;
    e.preventDefault();
  };
  return (
    <Dialog title="Command palette" onClose={() => setOpen(undefined)}>
      <input class="wide" autofocus role="combobox" aria-expanded="true" aria-controls="commands" aria-activedescendant={found.length ? `command-${at}` : undefined} aria-label="Command" placeholder="Type a command or the name of a box" value={filter}
        onInput={(e) => { setFilter(e.currentTarget.value); setAt(0); }} onKeyDown={onKey} />
      <ul id="commands" class="commands" role="listbox" aria-label="Commands">
        {found.map((c, i) => <li id={`command-${i}`} role="option" aria-selected={i === at} onClick={() => run(c)}>{c.name}</li>)}
        {!found.length && <li role="option" aria-selected={false}>Nothing has this name</li>}
      </ul>
    </Dialog>
  );
}
