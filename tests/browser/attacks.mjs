// What a hostile box, or a hostile page in the same browser, tries on the console. Nothing of it may run on the console's origin.
import assert from 'node:assert/strict';
import { createServer } from 'node:http';
import { open, saved, signIn } from './console-daemon.mjs';

const SCRIPT = "document.documentElement.dataset.owned=1";
const HOSTILE = `<img src=x onerror=${SCRIPT}>`;

const owned = (page) => page.evaluate(() => document.documentElement.dataset.owned);

export async function names_with_markup(t) {
  const { page, daemon } = t;
  await daemon.box('markup');
  await daemon.run('markup', `cd /workspace && printf %s '${HOSTILE}' > '${HOSTILE.replaceAll('/', '')}' && printf '# <script>${SCRIPT}</script>\\n[x](javascript:alert)\\n' > read.md && printf '<svg xmlns="http://www.w3.org/2000/svg" onload="${SCRIPT}"><script>${SCRIPT}</script></svg>' > a.svg`);
  const tab = await open(t, 'markup', 'Files');
  await tab.getByRole('treeitem', { name: HOSTILE }).click();
  await tab.locator('.cm-content').filter({ hasText: 'onerror' }).waitFor();
  await tab.getByRole('treeitem', { name: 'read.md' }).click();
  await tab.locator('.markdown h1').filter({ hasText: '<script>' }).waitFor();
  assert.equal(await tab.locator('.markdown a').count(), 0);
  await tab.getByRole('treeitem', { name: 'a.svg' }).click();
  await tab.locator('strong').filter({ hasText: 'a.svg' }).waitFor();
  await daemon.start('markup', `printf '\\033]0;${HOSTILE}\\007\\033]8;;javascript:${SCRIPT}\\033\\\\click\\033]8;;\\033\\\\${HOSTILE}\\n'; exec -a '${HOSTILE}' sleep 1000`);
  await page.getByRole('tab', { name: 'Processes' }).click();
  const processes = page.getByRole('tabpanel', { name: 'Processes' });
  await processes.locator('code').filter({ hasText: 'onerror' }).waitFor();
  await processes.getByRole('button', { name: 'Log' }).click();
  await processes.locator('.log pre').filter({ hasText: 'click' }).waitFor();
  assert.equal(await processes.locator('.log a, .log img').count(), 0);
  await page.getByRole('tab', { name: 'Terminal' }).click();
  const screen = page.locator('.xterm-rows').first();
  await screen.filter({ hasText: /[$#]/ }).waitFor();
  await page.keyboard.type(`printf '\\033]8;;javascript:${SCRIPT}\\033\\\\cli%s\\033]8;;\\033\\\\\\n' ckme\n`);
  await screen.filter({ hasText: 'clickme' }).waitFor();
  const place = await screen.getByText('clickme').last().boundingBox();
  page.on('dialog', (dialog) => { t.asked = dialog.message(); dialog.dismiss(); });
  await page.mouse.move(place.x + 20, place.y + 5);
  await page.mouse.click(place.x + 20, place.y + 5);
  assert.equal(t.asked, undefined, 'a link that is no web address does nothing');
  assert.equal(await owned(page), undefined);
  assert.equal(await page.title(), 'markup · Atoll');
}

/** HTML under the name of a PDF: the page, not the box and not its content, says what the frame holds. */
export async function html_called_pdf(t) {
  const { page, daemon } = t;
  await daemon.box('pdf');
  const html = `<!doctype html><title>x</title><script>parent.${SCRIPT}; ${SCRIPT}</script><img src=x onerror="parent.${SCRIPT}"><a target=_top href=/gone>leave</a>`;
  for (const name of ['page.pdf', 'half.pdf']) await daemon.write('pdf', `/workspace/${name}`, name === 'page.pdf' ? html : `%PDF-1.4\n${html}`);
  const tab = await open(t, 'pdf', 'Files');
  for (const name of ['page.pdf', 'half.pdf']) {
    await tab.getByRole('treeitem', { name }).click();
    const frame = tab.locator(`iframe[title="${name}"]`);
    await frame.waitFor();
    assert.match(await frame.getAttribute('src'), /^blob:/);
    const inside = await (await frame.elementHandle()).contentFrame();
    await inside.waitForLoadState();
    assert.equal(await inside.evaluate(() => document.scripts.length + document.images.length).catch(() => 0), 0, `${name} is not read as HTML`);
  }
  assert.equal(await owned(page), undefined);
  assert.match(page.url(), /#\/box\/pdf/);
}

export async function output_that_reaches_for_the_page(t) {
  const { page, daemon } = t;
  await daemon.box('output');
  t.pardoned.push(/Blocked script execution|sandboxed|Content Security Policy|ERR_|Loading the image|x:1/);
  const tab = await open(t, 'output', 'Notebook');
  const html = `<script>parent.${SCRIPT}</script><img src=x onerror="parent.${SCRIPT}"><a target=_top href=/gone>leave</a><p>was shown</p>`;
  const svg = `<svg xmlns="http://www.w3.org/2000/svg" width="20" height="20" onload="parent.${SCRIPT}"><script>parent.${SCRIPT}</script></svg>`;
  await tab.locator('.cm-content').click();
  await page.keyboard.insertText(`from IPython.display import HTML, SVG, display\ndisplay(SVG(data=${JSON.stringify(svg)}))\ndisplay(HTML(${JSON.stringify(html)}))`);
  await page.keyboard.press('Control+Enter');
  const frame = tab.frameLocator('iframe.html');
  await frame.getByText('was shown').waitFor();
  await tab.locator('.outputs img').waitFor();
  assert.equal(await tab.locator('.outputs svg').count(), 0);
  assert.ok(!/allow-(scripts|same-origin|top)/.test(await tab.locator('iframe.html').getAttribute('sandbox')));
  await frame.getByText('leave').click();
  assert.equal(await owned(page), undefined);
  assert.match(page.url(), /#\/box\/output/);
}

export async function a_preview_frames_the_console(t) {
  const { page, daemon } = t;
  await daemon.box('framer');
  await signIn(t);
  const origin = new URL(page.url()).origin;
  await daemon.write('framer', '/workspace/index.html', `<h1>mine</h1><iframe src="${origin}/"></iframe>`);
  await daemon.start('framer', 'python3 -m http.server 8200 -d /workspace');
  await daemon.run('framer', 'until curl -sf localhost:8200 >/dev/null; do sleep 0.05; done');
  const { url } = await daemon.ask('POST', '/v1/sandboxes/framer/ports/8200', {});
  t.pardoned.push(/frame-ancestors|Refused to (frame|display)|Framing|ERR_BLOCKED|ERR_FAILED|CORS/i);
  const refused = page.waitForEvent('console', (m) => /frame-ancestors/i.test(m.text()));
  await page.goto(url);
  await refused;
  assert.ok(!page.frames().slice(1).some((f) => f.url().startsWith(origin)), 'the frame is empty');
  t.pardoned.push(/40[1349]/);
  const inside = await page.evaluate(async (where) => {
    const get = (path, options) => fetch(where + path, { credentials: 'include', ...options }).then((r) => r.status, () => 'refused');
    return [await get('/v1/sandboxes'), await get('/v1/sandboxes', { headers: { 'X-Atoll-Console': '1' } })];
  }, origin);
  assert.deepEqual(inside, ['refused', 'refused']);
}

/** A page of somebody else on the same machine: another port is the same site, so SameSite alone does not help. */
async function elsewhere() {
  const server = createServer((_, answer) => answer.setHeader('Content-Type', 'text/html').end('<h1>elsewhere</h1>'));
  await new Promise((resolve) => server.listen(0, '127.0.0.1', resolve));
  return server;
}

export async function a_page_elsewhere_uses_the_cookie(t) {
  const { page, daemon } = t;
  await daemon.box('victim');
  await signIn(t);
  const own = new URL(page.url()), server = await elsewhere();
  try {
    t.pardoned.push(/./);
    for (const host of [own.hostname, '127.0.0.1', 'localhost']) {
      await page.goto(`http://${host}:${server.address().port}/`);
      const got = await page.evaluate(async (there) => {
        const post = (path, body) => fetch(there + path, { method: 'POST', mode: 'no-cors', credentials: 'include', body }).catch(() => {});
        await post('/v1/sandboxes/made-elsewhere/api/execute', '{"command":"true"}');
        await post('/v1/sandboxes/victim/api/execute', '{"command":"touch /workspace/owned"}');
        const read = await fetch(`${there}/v1/sandboxes`, { credentials: 'include', headers: { 'X-Atoll-Console': '1' } }).then((r) => r.text(), () => 'refused');
        const socket = await new Promise((resolve) => {
          const s = new WebSocket(`${there.replace('http', 'ws')}/v1/sandboxes/victim/ws/pty`);
          s.onopen = () => resolve('open');
          s.onerror = () => resolve('refused');
        });
        return { read, socket };
      }, own.origin);
      assert.deepEqual(got, { read: 'refused', socket: 'refused' }, host);
      await page.setContent(`<form method="post" enctype="text/plain" action="${own.origin}/v1/sandboxes/made-elsewhere/api/execute"><input name='{"command":"true","x":"' value='"}'></form>`);
      await Promise.all([page.waitForURL(/made-elsewhere/), page.evaluate(() => document.forms[0].submit())]);
    }
  } finally {
    server.close();
  }
  assert.ok(!(await daemon.boxes()).includes('made-elsewhere'));
  assert.equal((await daemon.run('victim', 'ls /workspace')).stdout, '');
}

/** The same origin serves what a box says, to clients with a token: a browser gets none of it, signed in or not. */
export async function html_of_a_box_on_this_origin(t) {
  const { page, daemon } = t;
  await daemon.box('inside');
  await daemon.write('inside', '/workspace/index.html', `<h1>of the box</h1><script>${SCRIPT}; fetch('/v1/sandboxes/made-inside/api/execute', { method: 'POST', headers: { 'X-Atoll-Console': '1' }, body: '{"command":"true"}' })</script>`);
  await daemon.start('inside', 'python3 -m http.server 8210 -d /workspace');
  await daemon.run('inside', 'until curl -sf localhost:8210 >/dev/null; do sleep 0.05; done');
  await signIn(t);
  t.pardoned.push(/40[01]/, /Refused|Content Security Policy|ERR_/);
  const { origin } = new URL(page.url()), base = `${origin}/v1/sandboxes/inside`;
  for (const path of ['/proxy/8210/', '/proxy/8210/index.html', '/api/file?path=/workspace/index.html', '/proxy/3000/api/file?path=/workspace/index.html']) {
    const shown = await page.goto(base + path);
    assert.equal(shown.status(), 401, path);
    assert.match(shown.headers()['content-type'], /json/);
    assert.equal(await page.getByText('of the box').count(), 0);
    assert.equal(await owned(page), undefined);
  }
  // With a ticket it is a download, and nothing of it is shown.
  const { ticket } = await daemon.ask('POST', '/v1/tickets', { sandbox: 'inside', for: 'download', path: '/workspace/index.html' });
  const coming = page.waitForEvent('download');
  await page.goto(`${base}/api/file?path=/workspace/index.html&ticket=${ticket}`).catch(() => {});
  assert.match((await saved(await coming)).toString(), /of the box/);
  assert.ok(!(await daemon.boxes()).includes('made-inside'));
}

/** A name of the attacker that now means this machine: for the browser, the daemon is the attacker's own origin. */
export async function a_name_that_is_bound_to_this_machine(t) {
  const { page, daemon } = t;
  await daemon.box('rebound');
  await signIn(t);
  t.pardoned.push(/./);
  const there = `http://rebound.test:${new URL(page.url()).port}`;
  const shown = await page.goto(`${there}/`);
  assert.ok(shown.status() >= 400, `the page is not given to ${there}: ${shown.status()}`);
  const got = await page.evaluate(async () => {
    const ask = (path, options) => fetch(path, { credentials: 'include', headers: { 'X-Atoll-Console': '1' }, ...options }).then((r) => r.status >= 400, () => true);
    const socket = new Promise((resolve) => {
      const s = new WebSocket(`ws://${location.host}/v1/sandboxes/rebound/ws/pty?sessionId=a`);
      s.onopen = () => resolve(false);
      s.onerror = () => resolve(true);
    });
    return [await ask('/v1/sandboxes'), await ask('/v1/health'), await ask('/v1/sandboxes/rebound/api/execute', { method: 'POST', body: '{"command":"touch /workspace/owned"}' }), await ask('/v1/console/session', { method: 'POST', body: '{"token":"x"}' }), await socket];
  });
  assert.deepEqual(got, [true, true, true, true, true]);
  assert.equal((await daemon.run('rebound', 'ls /workspace')).stdout, '');
}
