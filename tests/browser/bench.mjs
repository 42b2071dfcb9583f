// Measures the console in Chromium, for tests/bench/rows_console.py: node bench.mjs N MEGABYTES prints one JSON object.
// ATOLL_URL, ATOLL_TOKEN and ATOLL_CLI name the daemon, BROWSER the browser's address.
import { chromium } from 'playwright-core';
import { Daemon, open, shows, signIn } from './console-daemon.mjs';

const [samples, megabytes] = process.argv.slice(2).map(Number);
const daemon = new Daemon(process.env), ID = 'bench-console';

/** Bytes that the first page takes, as they travel, and the time until the list is there. */
async function firstList(page) {
  await signIn({ page, daemon });
  await page.addInitScript(() => {
    new MutationObserver((_, me) => {
      if (!document.querySelector('tbody th')) return;
      globalThis.firstList = performance.now();
      me.disconnect();
    }).observe(document, { childList: true, subtree: true });
  });
  const times = [];
  let bytes = 0;
  for (let i = 0; i < samples; i++) {
    await page.reload();
    await page.waitForFunction(() => globalThis.firstList);
    const seen = await page.evaluate(() => ({ at: globalThis.firstList, sizes: performance.getEntriesByType('resource').filter((r) => r.name.includes('/assets/')).map((r) => r.name) }));
    times.push(seen.at);
    if (!i) for (const url of [page.url().split('#')[0], ...seen.sizes]) bytes += (await (await fetch(url, { headers: { 'Accept-Encoding': 'gzip' } })).headers.get('content-length')) | 0;
  }
  return { times, bytes };
}

/** From a key to its character in the page, seen by the page itself. */
async function echo(page) {
  await page.evaluate(() => {
    globalThis.echoes = [];
    const rows = document.querySelector('.xterm-rows');
    addEventListener('keydown', (e) => {
      if (e.key.length !== 1) return;
      const began = performance.now(), before = rows.textContent.split(e.key).length;
      const look = new MutationObserver(() => {
        if (rows.textContent.split(e.key).length === before) return;
        look.disconnect();
        globalThis.echoes.push(performance.now() - began);
      });
      look.observe(rows, { childList: true, subtree: true, characterData: true });
    }, true);
  });
  for (let i = 0; i < samples; i++) {
    // Playwright looks once a frame: without this, every key would come just after one.
    await new Promise((r) => setTimeout(r, 50 * Math.random()));
    await page.keyboard.press('x');
    await page.waitForFunction((n) => globalThis.echoes.length === n, i + 1);
  }
  await page.keyboard.press('Control+u');
  return page.evaluate(() => globalThis.echoes);
}

const LONG = 'x'.repeat(79);

/** Output as fast as it comes; the longest time between two frames says whether the page still answers. A line feed becomes CR LF in the terminal. */
async function flood(page, line) {
  const n = line.length + 1;
  await page.keyboard.type(`clear; yes ${line} | head -c ${megabytes}000000; echo over-$((6*7))\n`);
  await page.evaluate(() => {
    globalThis.frames = [];
    let last = performance.now();
    const tick = (now) => { globalThis.frames.push(now - last); last = now; requestAnimationFrame(tick); };
    requestAnimationFrame(tick);
  });
  const began = Date.now();
  await shows(page.locator('.xterm-rows').first(), 'over-42');
  const seconds = (Date.now() - began) / 1000, frames = (await page.evaluate(() => globalThis.frames)).sort((a, b) => a - b);
  await page.keyboard.type('clear\n');
  await page.waitForFunction(() => !document.querySelector('.xterm-rows').textContent.includes('over-42'));
  return { rate: ((n + 1) / n) * megabytes / seconds, frame50: frames[frames.length >> 1], frame99: frames[Math.floor(frames.length * 0.99)], longest: frames.at(-1) };
}

const browser = await chromium.connect(process.env.BROWSER);
const context = await browser.newContext({ viewport: { width: 1280, height: 800 } });
context.setDefaultTimeout(120_000);
const page = await context.newPage();
await daemon.box(ID, { limits: { cpu: 2 } });
const first = await firstList(page);
await open({ page, daemon }, ID, 'Terminal');
await shows(page.locator('.xterm-rows').first(), /[$#]/);
const result = { bytes: first.bytes, list: first.times, echo: await echo(page), flood: await flood(page, 'y'), long: await flood(page, LONG) };
await daemon.ask('DELETE', `/v1/sandboxes/${ID}`);
await browser.close();
console.log(JSON.stringify(result));
process.exit(0);
