// The site of docs/ in Chromium, at 1280 and at 380 pixels: node site.mjs DIRECTORY [PICTURES]. Prints what is wrong, a line each.
import { readdir, readFile } from 'node:fs/promises';
import http from 'node:http';
import path from 'node:path';
import { chromium } from '../browser/node_modules/playwright-core/index.mjs';

const [root, pictures] = process.argv.slice(2);
const kinds = { html: 'text/html', css: 'text/css', js: 'text/javascript', json: 'application/json', png: 'image/png', svg: 'image/svg+xml' };
const wrong = [];

const server = http.createServer(async (request, response) => {
  const file = path.join(root, path.normalize(new URL(request.url, 'http://x').pathname));
  try {
    response.writeHead(200, { 'Content-Type': kinds[file.split('.').pop()] ?? 'application/octet-stream' }).end(await readFile(file));
  } catch {
    response.writeHead(404).end();
  }
});
await new Promise((done) => server.listen(0, '127.0.0.1', done));
const site = `http://127.0.0.1:${server.address().port}/`;
const pages = (await readdir(root)).filter((name) => name.endsWith('.html') && name !== '404.html');
const browser = await chromium.launch({ executablePath: '/usr/bin/chromium', args: ['--no-sandbox'] });

async function opened(width) {
  const page = await browser.newPage({ viewport: { width, height: 800 } });
  page.setDefaultTimeout(60_000);
  const say = (what) => wrong.push(`${width} ${page.url().slice(site.length)}: ${what}`);
  page.on('console', (message) => ['error', 'warning'].includes(message.type()) && say(message.text()));
  page.on('pageerror', (error) => say(String(error)));
  page.on('response', (answer) => answer.status() >= 400 && say(`${answer.status()} ${answer.url()}`));
  page.on('request', (request) => !request.url().startsWith(site) && !/^(data|blob):/.test(request.url()) && say(`asks for ${request.url()}`));
  return { page, say };
}

/** Nothing is wider than the window, tables fit beside the menus of a wide one, cells have room, pictures have loaded. */
function flaws() {
  const found = [];
  const room = document.documentElement.clientWidth;
  if (document.documentElement.scrollWidth > room) found.push(`is ${document.documentElement.scrollWidth} pixels wide`);
  for (const wrap of document.querySelectorAll('.md-typeset__scrollwrap')) {
    const named = wrap.textContent.trim().replace(/\s+/g, ' ').slice(0, 40);
    if (getComputedStyle(wrap).overflowX === 'visible') found.push(`a table cannot scroll: ${named}`);
    if (room > 1200 && wrap.scrollWidth > wrap.clientWidth + 1) found.push(`a table is too wide: ${named}`);
    for (const cell of wrap.querySelectorAll('td'))
      if (cell.textContent.trim().length > 30 && cell.clientWidth < 60) found.push(`a cell has ${cell.clientWidth} pixels: ${named}`);
  }
  for (const image of document.images) if (!image.naturalWidth) found.push(`no picture ${image.src}`);
  return found;
}

async function search(page, say) {
  await page.locator('input.md-search__input').fill('snapshot');
  const result = page.locator('.md-search-result__link').first();
  await result.waitFor({ timeout: 180_000 }); // the page makes the index of all documents first
  if (!/storage|command-line|snapshot/.test(await result.getAttribute('href'))) say(`the first result is ${await result.getAttribute('href')}`);
  await result.click();
  await page.waitForURL(/h=snapshot/);
}

try {
  const wide = await opened(1280);
  for (const name of pages) {
    await wide.page.goto(site + name);
    for (const flaw of await wide.page.evaluate(flaws)) wide.say(flaw);
  }
  await wide.page.goto(`${site}commands.html`);
  if (!(await wide.page.locator('.md-sidebar--primary a:text("Storage")').first().isVisible())) wide.say('no menu');
  if (pictures) await wide.page.screenshot({ path: `${pictures}/site-1280.png` });
  await search(wide.page, wide.say);

  const narrow = await opened(380);
  for (const name of pages) {
    await narrow.page.goto(site + name);
    for (const flaw of await narrow.page.evaluate(flaws)) narrow.say(flaw);
  }
  await narrow.page.goto(`${site}commands.html`);
  if (pictures) await narrow.page.screenshot({ path: `${pictures}/site-380.png` });
  await narrow.page.locator('label[for=__drawer].md-header__button').click();
  const entry = narrow.page.locator('.md-sidebar--primary a', { hasText: /^\s*Storage\s*$/ }).first();
  await narrow.page.locator('.md-sidebar--primary .md-nav__title:visible').first().waitFor();
  if (!(await entry.isVisible())) {
    // The drawer shows one level at a time: go up to all groups, then into the guides.
    await narrow.page.locator('.md-sidebar--primary label.md-nav__title:visible').last().click();
    await narrow.page.locator('.md-sidebar--primary label.md-nav__link:visible', { hasText: 'Guides' }).click();
  }
  await entry.waitFor();
  await narrow.page.waitForTimeout(400); // the drawer slides: for the picture
  if (pictures) await narrow.page.screenshot({ path: `${pictures}/site-380-menu.png` });
  await entry.click();
  await narrow.page.waitForURL(/storage\.html/);
  await narrow.page.locator('label[for=__search].md-header__button').click();
  await search(narrow.page, narrow.say);
} finally {
  await browser.close();
  server.close();
  server.closeAllConnections();
}
for (const line of new Set(wrong)) console.log(line);
process.exitCode = wrong.length ? 1 : 0;
