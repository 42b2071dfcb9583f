/** Images: the list, and a build from a Dockerfile with its output as it comes. */
import { useEffect, useRef, useState } from 'preact/hooks';
import { events, json, type ApiError } from '../api';
import type { Image, ImageEvent } from '../schema';
import { attempt, notice } from '../state';
import { tar } from '../tar';
import { age, Ansi, Button, bytes, Dialog, Field, sure } from '../ui';

const KEEP = 200_000;
const line = (e: ImageEvent) => {
  if (e.type === 'step' || e.type === 'cached') return `\x1b[1m[${e.n}/${e.of}] ${e.text ?? ''}\x1b[0m${e.type === 'cached' ? ' (cached)' : ''}\n`;
  if (e.type === 'error') return `\x1b[31m${e.message}\x1b[0m\n${e.suggestion ? `${e.suggestion}\n` : ''}`;
  if (e.type === 'done') return `\x1b[32mdone in ${((e.milliseconds ?? 0) / 1000).toFixed(1)} s\x1b[0m\n`;
  return e.text ?? (e.name ? `${e.name}\n` : '');
};

/** The chosen files as a context; one file alone is the Dockerfile, whatever its name. */
function context(text: string, files: File[]): Blob {
  const list = files.map((file) => ({ path: (file.webkitRelativePath || file.name).replace(/^[^/]*\//, (top) => (file.webkitRelativePath ? '' : top)), file: file as Blob }));
  if (list.length === 1 && !files[0]!.webkitRelativePath) list[0]!.path = 'Dockerfile';
  if (text.trim()) list.push({ path: 'Dockerfile', file: new Blob([text]) });
  return tar(list);
}

function Build(p: { onClose: () => void; onDone: () => void }) {
  const [tag, setTag] = useState(''), [text, setText] = useState(''), [files, setFiles] = useState<File[]>([]), [output, setOutput] = useState(''), [running, setRunning] = useState(false);
  const stop = useRef(new AbortController()), view = useRef<HTMLPreElement>(null), folder = useRef<HTMLInputElement>(null);
  useEffect(() => { if (folder.current) folder.current.webkitdirectory = true; return () => stop.current.abort(); }, []);
  useEffect(() => { if (view.current) view.current.scrollTop = view.current.scrollHeight; }, [output]);
  const build = async () => {
    setRunning(true);
    setOutput('');
    try {
      let all = '';
      for await (const e of events('POST', `/v1/images/build?tag=${encodeURIComponent(tag)}`, context(text, files), stop.current.signal)) {
        setOutput(all = (all + line(e)).slice(-KEEP));
        if (e.type === 'done') { notice(`${tag} is built`); p.onDone(); }
      }
    } catch (error) {
      const { name, message, suggestion } = error as ApiError;
      if (name !== 'AbortError') setOutput((before) => before + line({ type: 'error', message, suggestion }));
    }
    setRunning(false);
  };
  return (
    <Dialog title="Build an image" wide onClose={p.onClose}>
      <form class="stack" onSubmit={(e) => { e.preventDefault(); build(); }}>
        <Field label="Name"><input required autofocus placeholder="mytools" value={tag} onInput={(e) => setTag(e.currentTarget.value)} /></Field>
        <Field label="Dockerfile" hint="Write it here, or choose it below"><textarea rows={6} placeholder={'FROM default\nRUN pip install rich'} value={text} onInput={(e) => setText(e.currentTarget.value)} /></Field>
        <div class="row"><Field label="Dockerfile or other files"><input type="file" multiple onChange={(e) => setFiles([...e.currentTarget.files!])} /></Field><Field label="A whole directory"><input ref={folder} type="file" onChange={(e) => setFiles([...e.currentTarget.files!])} /></Field></div>
        {output && <pre class="output" ref={view} tabIndex={0} aria-label="Output of the build"><Ansi text={output} /></pre>}
        <div class="row end"><Button onClick={p.onClose}>{running ? 'Cancel' : 'Close'}</Button><Button kind="main" type="submit" disabled={running || !(text.trim() || files.length)}>{running ? 'Building …' : 'Build'}</Button></div>
      </form>
    </Dialog>
  );
}

export function Images(p: { first: Image[] }) {
  const [list, setList] = useState(p.first), [building, setBuilding] = useState(false);
  const load = async () => setList((await json<{ images: Image[] }>('GET', '/v1/images')).images);
  const remove = async (i: Image) => { if (await sure(`Remove the image ${i.name}? Boxes that use it keep it.`, 'Remove')) attempt(async () => { await json('DELETE', `/v1/images/${encodeURIComponent(i.name)}`); await load(); }); };
  return (
    <>
      <div class="row"><h2>Images</h2><span class="grow" /><Button onClick={() => setBuilding(true)}>Build an image</Button></div>
      <div class="table short" tabIndex={0} role="region" aria-label="Images"><table><thead><tr><th scope="col">Name</th><th scope="col" class="wide-only">Digest</th><th scope="col" class="number">Size</th><th scope="col" class="number">Age</th><th scope="col"><span class="hidden">Actions</span></th></tr></thead>
        <tbody>{list.map((i) => <tr key={i.name}><th scope="row">{i.name}</th><td class="wide-only"><code>{i.id.slice(0, 19)}</code></td><td class="number">{i.size ? bytes(i.size) : '–'}</td><td class="number">{age(i.created && i.created * (i.created < 1e11 ? 1000 : 1))}</td><td class="row end">{!i.name.startsWith('default') && <Button kind="danger" onClick={() => remove(i)}>Remove</Button>}</td></tr>)}</tbody></table></div>
      {building && <Build onClose={() => setBuilding(false)} onDone={() => attempt(load)} />}
    </>
  );
}
