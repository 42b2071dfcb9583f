// What a person does with a preview. Each gets the box with the apps in /workspace, a page, what the page's console said
// in anger, and a way to take a picture.
import assert from 'node:assert/strict';

const text = (page, selector, wanted) =>
  page.waitForFunction(([s, w]) => document.querySelector(s)?.textContent.includes(w), [selector, wanted]);

async function until(what, condition) {
  const end = Date.now() + 60_000;
  while (!(await condition())) {
    assert.ok(Date.now() < end, `not in time: ${what}`);
    await new Promise((resolve) => setTimeout(resolve, 50));
  }
}

// The page that waits is replaced by the app as soon as that listens.
export async function the_page_reloads_when_the_server_comes_up({ box, page, said, shot }) {
  const url = await box.expose(8001);
  const first = await page.goto(url);
  assert.equal(first.status(), 502);
  assert.match(await page.textContent('h1'), /Nothing listens on port 8001/);
  await page.waitForResponse((r) => r.request().method() === 'HEAD' && r.headers()['x-atoll-preview'] === 'waiting');
  await shot('waiting');
  await box.write('/workspace/plain/index.html', '<h1>up at last</h1>');
  await box.start('python3 -m http.server 8001', '/workspace/plain');
  await text(page, 'h1', 'up at last');
  const policy = said.filter((line) => /Content Security Policy|Refused/.test(line));
  assert.deepEqual(policy, [], 'its own policy lets its style and script pass');
}

export async function a_wrong_address_shows_a_page({ box, page, shot }) {
  const url = (await box.expose(8002)).replace(/-[a-z0-9_]+\./, '-wrong.');
  assert.equal((await page.goto(url)).status(), 404);
  assert.match(await page.textContent('h1'), /no preview/);
  assert.equal(await page.evaluate(() => getComputedStyle(document.querySelector('main')).borderRadius), '14px', 'it is styled');
  await shot('not-found');
}

export async function express_with_clicks_sockets_and_events({ box, page, said, shot }) {
  const url = await box.expose(8003);
  await box.start('node server.cjs 8003', '/workspace/express');
  await page.goto(url);
  await text(page, 'h1', 'Express in a box');
  await text(page, '#events', '3');
  await page.click('#click');
  await text(page, '#clicks', '1 by browser');
  await text(page, '#echo', 'click 1');
  await page.click('#click');
  await text(page, '#echo', 'click 2');
  await shot('express');
  await page.goto(`${url}login`);
  assert.equal(page.url(), `${url}whoami`, 'redirects stay on the preview');
  assert.match(await page.textContent('#cookie'), /session=abc/);
  const errors = said.filter((line) => !/favicon|404/.test(line) && !/502/.test(line));
  assert.deepEqual(errors, []);
  for (const wanted of ['POST /click 200', 'GET /login 302', 'GET /echo 101']) {
    await until(`${wanted} is remembered`, async () => (await box.requests(8003))
      .some(({ method, path, status }) => `${method} ${path} ${status}` === wanted));
  }
}

export async function vite_replaces_modules_in_the_open_page({ box, page, shot }) {
  const url = await box.expose(8004);
  await page.goto(url);
  await box.start('node /workspace/node_modules/vite/bin/vite.js --port 8004 --strictPort', '/workspace/vite');
  await text(page, '#app', 'before');
  const shown = () => page.evaluate(() => {
    const main = document.querySelector('main');
    return `${main.textContent} ${getComputedStyle(main).color}`;
  }).catch(() => 'between two pages');
  await until('the style is there', async () => (await shown()) === 'before rgb(1, 2, 3)');
  await page.evaluate(() => { window.stayed = true; });
  // Vite says nothing about when it watches a file and when the page's socket is up: what was missed is written again.
  const written = async (path, content, wanted) => {
    for (let i = 0; i < 240 && (await shown()) !== wanted; i++) {
      if (i % 10 === 0) await box.write(path, content);
      await page.waitForTimeout(250);
    }
    await until(`${wanted} is shown`, async () => (await shown()) === wanted);
  };
  await written('/workspace/vite/message.js', "export const message = 'after';\n", 'after rgb(1, 2, 3)');
  await written('/workspace/vite/style.css', 'main { color: rgb(4, 5, 6); }\n', 'after rgb(4, 5, 6)');
  assert.equal(await page.evaluate(() => window.stayed), true, 'without a reload');
  await shot('vite');
}

export async function flask_with_a_form_and_a_session({ box, page }) {
  const url = await box.expose(8005);
  await page.goto(url);
  await box.start('env PYTHONPATH=/workspace/python python3 -m flask run --port 8005', '/workspace/flask');
  await text(page, 'h1', 'Hello stranger');
  await page.fill('input', 'Grace');
  await page.click('button');
  await text(page, 'h1', 'Hello Grace');
  const streamed = await page.evaluate(() => fetch('/stream').then((answer) => answer.text()));
  assert.equal(streamed, 'line 0\nline 1\nline 2\n');
}

// An app is as hostile as it likes: what it runs in the browser has an origin of its own.
export async function an_app_is_no_part_of_the_console({ box, page }) {
  const url = await box.expose(8006);
  await box.write('/workspace/hostile/index.html', '<h1>hostile</h1>');
  await box.start('python3 -m http.server 8006', '/workspace/hostile');
  await page.goto(url);
  await text(page, 'h1', 'hostile');
  const port = new URL(box.daemon).port;
  const tried = await page.evaluate(async (console) => {
    const read = (target, options) => fetch(target, options).then((r) => r.text(), () => 'refused');
    const opened = new Promise((resolve) => {
      const socket = new WebSocket(`ws://${console}/v1/sandboxes/x/ws/pty`);
      socket.onopen = () => resolve('open');
      socket.onerror = () => resolve('refused');
    });
    document.cookie = 'atoll_session=planted; domain=localhost';
    return {
      origin: location.origin,
      health: await read(`http://${console}/v1/health`),
      list: await read(`http://${console}/v1/sandboxes`, { headers: { Authorization: 'Bearer x' } }),
      socket: await opened,
    };
  }, `localhost:${port}`);
  assert.equal(tried.origin, url.replace(/\/$/, ''));
  assert.deepEqual([tried.health, tried.list, tried.socket], ['refused', 'refused', 'refused']);
  await page.goto(`http://localhost:${port}/`);
  assert.equal(await page.evaluate(() => document.cookie), '', 'nothing is planted on the console');
}
