// node serve.mjs WORKER: serves a Worker with a Durable Object class Sandbox until stdin ends; its URL is the first line.
import { start } from './workerd.mjs';

const { miniflare } = await start(process.argv[2], ['Sandbox']);
console.log((await miniflare.ready).href);
for await (const _ of process.stdin);
await miniflare.dispose();
