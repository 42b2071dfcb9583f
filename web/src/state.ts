/** What the whole page shares: the boxes with their samples, what the daemon can do, messages. */
import { computed, signal } from '@preact/signals';
import { ApiError, boxPath, events, json } from './api';
import type { Event, Health, Sandbox, UsageSample } from './schema';

export type Box = Sandbox;
/** One sample of a box; `net` is bytes a second, both ways. */
export interface Sample { time: number; memory: number; cpu: number; pids: number; disk: number | undefined; net: number }

export const boxes = signal<Map<string, Box>>(new Map());
export const loaded = signal(false);
export const connected = signal(true);
export const samples = signal<Map<string, Sample[]>>(new Map());
export const recent = signal<Event[]>([]);
export const health = signal<Partial<Health>>({});
export const features = computed(() => new Set<string>(health.value.features ?? []));
export const notices = signal<{ id: number; text: string; bad: boolean }[]>([]);

let noticeId = 0;
export function notice(text: string, bad = false): void {
  const id = ++noticeId;
  notices.value = [...notices.value.slice(-4), { id, text, bad }];
  setTimeout(() => { notices.value = notices.value.filter((n) => n.id !== id); }, bad ? 10000 : 4000);
}
export function failed(error: unknown): void {
  if ((error as Error)?.name === 'AbortError') return;
  const e = error as ApiError;
  notice(e.suggestion ? `${e.message} ${e.suggestion}` : e.message ?? String(error), true);
}
/** Runs something that may fail, and shows how. */
export const attempt = (work: () => Promise<unknown>) => { work().catch(failed); };

const SAMPLES = 60;
const before = new Map<string, Counters>();

/** What a sample counts since the start of the box, at a time. */
interface Counters { time: number; cpuSeconds: number; bytes: number }
export const counters = (s: UsageSample): Counters => ({ time: Date.parse(s.time), cpuSeconds: s.cpuSeconds, bytes: s.bytesSent + s.bytesReceived });
/** What happened between two samples, a second. */
export function rates(from: Counters | undefined, to: Counters): { cpu: number; net: number } {
  const seconds = from ? (to.time - from.time) / 1000 : 0;
  const rate = (a: number, b: number) => (seconds > 0 ? Math.max(0, b - a) / seconds : 0);
  return { cpu: rate(from?.cpuSeconds ?? 0, to.cpuSeconds), net: rate(from?.bytes ?? 0, to.bytes) };
}

function takeUsage(list: UsageSample[]): void {
  const all = new Map(samples.value);
  for (const s of list) {
    const id = s.sandbox!, now = counters(s);
    all.set(id, [...(all.get(id) ?? []).slice(1 - SAMPLES), { time: now.time, memory: s.memory, pids: s.pids, disk: s.disk, ...rates(before.get(id), now) }]);
    before.set(id, now);
  }
  samples.value = all;
}

export async function loadBoxes(): Promise<void> {
  const all = new Map<string, Box>();
  let after = '';
  for (;;) {
    const page = await json('GET', `/v1/sandboxes?limit=500${after && `&after=${encodeURIComponent(after)}`}`);
    for (const box of page.sandboxes) all.set(box.id, box);
    if (!page.next) break;
    after = page.next;
  }
  boxes.value = all;
  loaded.value = true;
}

/** Takes a box off the list. */
export function forget(id: string): void {
  const all = new Map(boxes.value);
  all.delete(id);
  boxes.value = all;
}

const REFRESH_EVERY = 200;
let refreshing = false, stale = false;
/** Reads the list again soon, once for many events. A box may be gone by then: asking for the box itself would be an error. */
async function refresh(): Promise<void> {
  stale = true;
  if (refreshing) return;
  refreshing = true;
  while (stale) {
    stale = false;
    await loadBoxes().catch(() => {});
    await new Promise((r) => setTimeout(r, REFRESH_EVERY));
  }
  refreshing = false;
}

export async function loadBox(id: string): Promise<Box | undefined> {
  try {
    const box = await json<Box>('GET', boxPath(id));
    boxes.value = new Map(boxes.value).set(id, box);
    return box;
  } catch (error) {
    if ((error as ApiError).status !== 404) throw error;
    forget(id);
    return undefined;
  }
}

async function follow(): Promise<void> {
  for await (const event of events('GET', '/v1/events?follow=1')) {
    if (event.type === 'usage') {
      takeUsage(event.samples);
      continue;
    }
    recent.value = [event, ...recent.value].slice(0, 200);
    if (event.type === 'destroyed') forget(event.sandbox);
    refresh();
  }
}

/** Keeps all of it up to date, over cut connections and restarts of the daemon. */
export async function run(): Promise<void> {
  for (let wait = 250; ; wait = Math.min(wait * 2, 5000)) {
    try {
      health.value = await json('GET', '/v1/health');
      const stream = follow();
      stream.catch(() => {});
      await loadBoxes();
      recent.value = (await json('GET', '/v1/events')).events.reverse().slice(0, 200);
      connected.value = true;
      wait = 250;
      await stream;
    } catch (error) {
      if ((error as ApiError).status === 401) return;
    }
    connected.value = false;
    await new Promise((r) => setTimeout(r, wait));
  }
}
