// The page with a terminal of docs/terminals.md, which comes on stdin, in Chromium: types a command and prints what its terminal shows for it.
// Stands for the page's server: /ticket, and /node_modules of the TypeScript SDK. ATOLL_URL and ATOLL_TOKEN name the daemon.
import { readFile } from 'node:fs/promises';
import http from 'node:http';
import { text } from 'node:stream/consumers';
import { fileURLToPath } from 'node:url';
import { chromium } from '../browser/node_modules/playwright-core/index.mjs';

const { ATOLL_URL, ATOLL_TOKEN } = process.env;
const sdk = fileURLToPath(new URL('../../sdk/typescript', import.meta.url));
const kinds = { css: 'text/css', mjs: 'text/javascript' };
const html = await text(process.stdin);

async function answer({ url }) {
  if (url === '/') return ['text/html', `<!doctype html>${html}`];
  if (url === '/favicon.ico') return ['image/png', ''];
  if (url === '/ticket') {
    const body = JSON.stringify({ sandbox: 'web-term', for: 'terminal' });
    const reply = await fetch(`${ATOLL_URL}/v1/tickets`, { method: 'POST', headers: { Authorization: `Bearer ${ATOLL_TOKEN}` }, body });
    return ['application/json', await reply.text()];
  }
  return [kinds[url.split('.').pop()], await readFile(`${sdk}${url}`)];
}

const server = http.createServer(async (request, response) => {
  const [kind, body] = await answer(request);
  response.writeHead(200, { 'Content-Type': kind }).end(body);
});
await new Promise((done) => server.listen(0, '127.0.0.1', done));
const browser = await chromium.launch({ executablePath: '/usr/bin/chromium', args: ['--no-sandbox'] });
try {
  const page = await browser.newPage();
  page.setDefaultTimeout(60_000);
  page.on('console', (message) => message.type() === 'error' && console.error(message.text()));
  page.on('pageerror', (error) => console.error(String(error)));
  await page.goto(`http://127.0.0.1:${server.address().port}/`);
  const rows = page.locator('.xterm-rows');
  await rows.filter({ hasText: /[$#]/ }).waitFor();
  await page.locator('.xterm-helper-textarea').focus();
  await page.keyboard.type('echo "[$((6 * 7))]"\n');
  await rows.filter({ hasText: '[42]' }).waitFor();
  console.log('42');
} finally {
  await browser.close();
  server.close();
  server.closeAllConnections();
}
