/** Files and directories of a drop or a dialog, on their way into a box. */
import { boxPath, json } from './api';

export interface Sending { path: string; file: File }
export interface Progress { path: string; done: number; total: number; files: number; of: number }

/** What a drop holds, directories with all that is in them. */
export async function dropped(data: DataTransfer): Promise<Sending[]> {
  const out: Sending[] = [];
  const walk = async (entry: any, base: string): Promise<void> => {
    if (entry.isFile) {
      out.push({ path: base + entry.name, file: await new Promise((ok, no) => entry.file(ok, no)) });
      return;
    }
    const reader = entry.createReader();
    for (;;) {
      const some: any[] = await new Promise((ok, no) => reader.readEntries(ok, no));
      if (!some.length) return;
      for (const e of some) await walk(e, `${base}${entry.name}/`);
    }
  };
  const entries = [...data.items].map((i) => i.webkitGetAsEntry?.()).filter(Boolean), files = [...data.files];
  if (!entries.length) return files.map((file) => ({ path: file.name, file }));
  for (const e of entries) await walk(e, '');
  return out;
}

/** One file. XMLHttpRequest: fetch does not say how much of a body has gone. */
function send(url: string, file: File, onBytes: (n: number) => void, signal: AbortSignal): Promise<void> {
  return new Promise((ok, no) => {
    const x = new XMLHttpRequest();
    x.open('PUT', url);
    x.setRequestHeader('X-Atoll-Console', '1');
    x.upload.onprogress = (e) => onBytes(e.loaded);
    x.onload = () => {
      if (x.status < 300) return ok();
      let message = `the daemon answered ${x.status}`;
      try { message = JSON.parse(x.responseText).message; } catch { /* no JSON: the status must do */ }
      return no(new Error(message));
    };
    x.onerror = () => no(new Error('the connection broke'));
    x.onabort = () => no(new DOMException('cancelled', 'AbortError'));
    signal.addEventListener('abort', () => x.abort());
    x.send(file);
  });
}

export async function upload(id: string, target: string, files: Sending[], tell: (p: Progress) => void, signal: AbortSignal): Promise<void> {
  const total = files.reduce((n, f) => n + f.file.size, 0), made = new Set<string>();
  let before = 0;
  for (const [i, f] of files.entries()) {
    const path = `${target}/${f.path}`, directory = path.slice(0, path.lastIndexOf('/'));
    const say = (n: number) => tell({ path: f.path, done: before + n, total, files: i, of: files.length });
    say(0);
    if (f.path.includes('/') && !made.has(directory)) await json('POST', boxPath(id, '/api/mkdir'), { path: directory, recursive: true }, signal);
    made.add(directory);
    await send(boxPath(id, `/api/file?path=${encodeURIComponent(path)}`), f.file, say, signal);
    before += f.file.size;
  }
}
