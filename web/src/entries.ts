/** What is in the directories of a box. */
import { boxPath, json, ran } from './api';
import { sure } from './ui';

export interface Entry { name: string; path: string; type: string; size: number; modifiedAt: string }
const sorted = (list: Entry[]) => list.sort((a, b) => (a.type === 'directory' ? 0 : 1) - (b.type === 'directory' ? 0 : 1) || (a.name < b.name ? -1 : 1));
export const parentOf = (path: string) => path.slice(0, path.lastIndexOf('/')) || '/';
const nameOf = (path: string) => path.slice(path.lastIndexOf('/') + 1);
/** As the box takes a path that somebody typed. */
const whole = (path: string) => (path.startsWith('/') ? path : `/workspace/${path}`);

export async function listDirectory(id: string, path: string): Promise<Entry[]> {
  const { files } = await json('POST', boxPath(id, '/api/list-files'), { path, options: { includeHidden: true } });
  return sorted(files.map((f: any) => ({ name: f.name, path: f.absolutePath, type: f.type, size: f.size, modifiedAt: f.modifiedAt })));
}

export const isThere = async (id: string, path: string): Promise<boolean> => (await json('POST', boxPath(id, '/api/exists'), { path })).exists;

/** What a link leads to; undefined: nothing. */
export async function typeBehind(id: string, link: string): Promise<'directory' | 'file' | undefined> {
  if (!(await isThere(id, link))) return undefined;
  return (await ran(id, 'test', '-d', link)).exitCode === 0 ? 'directory' : 'file';
}

/** The entry of a path, if there is one. */
export async function look(id: string, typed: string): Promise<Entry | undefined> {
  const path = whole(typed);
  return (await isThere(id, path)) ? (await listDirectory(id, parentOf(path))).find((e) => e.name === nameOf(path)) : undefined;
}

/** Which of the paths below a directory are files already. A directory is listed once, and only when it is there. */
async function existing(id: string, target: string, paths: string[]): Promise<string[]> {
  const lists = new Map<string, Promise<Entry[]>>();
  const list = (path: string): Promise<Entry[]> => {
    if (!lists.has(path)) lists.set(path, (path === target ? isThere(id, path) : entry(path).then((e) => e?.type === 'directory')).then((there) => (there ? listDirectory(id, path) : [])));
    return lists.get(path)!;
  };
  const entry = async (path: string): Promise<Entry | undefined> => (await list(parentOf(path))).find((e) => `${parentOf(path)}/${e.name}`.replace('//', '/') === path);
  const found: string[] = [];
  for (const path of paths) {
    const e = await entry(`${target}/${path}`.replace('//', '/'));
    if (e && e.type !== 'directory') found.push(path);
  }
  return found;
}

/** Asks before files that are there are written over; false: leave them. */
export async function mayWrite(id: string, target: string, paths: string[]): Promise<boolean> {
  const there = await existing(id, target, paths);
  if (!there.length) return true;
  if (there.length === 1) return sure(`${there[0]} exists. Write over it?`, 'Write over it');
  return sure(`${there[0]} and ${there.length - 1} more exist. Write over them?`, 'Write over them');
}

export const mayWriteAt = (id: string, path: string) => mayWrite(id, parentOf(whole(path)), [nameOf(path)]);
