// What a person does with the console, one scenario a feature. Each gets a page that is not signed in, the API with the token,
// and the command line. At the end of a scenario the page may have said nothing in anger, and no request of it may have failed,
// but for what the scenario put into `pardoned`.
import assert from 'node:assert/strict';
import { open, signIn } from './console-daemon.mjs';

const shows = (locator, text) => locator.filter({ hasText: text }).first().waitFor();
const row = (page, name) => page.locator('tr', { has: page.page?.().getByRole('rowheader', { name }) ?? page.getByRole('rowheader', { name }) });
const answer = (page, action) => page.getByRole('dialog').getByRole('button', { name: action, exact: true }).click();

export async function sign_in({ page, daemon, pardoned }) {
  const link = daemon.link();
  await page.goto(link);
  await page.getByRole('heading', { name: 'Boxes' }).waitFor();
  assert.ok(!page.url().includes('login='), 'the code does not stay in the address');
  const [cookie] = (await page.context().cookies()).filter((c) => c.name === 'atoll_session');
  assert.ok(cookie.httpOnly && cookie.sameSite === 'Strict');
  assert.equal(await page.evaluate(() => document.cookie), '');
  await page.reload();
  await page.getByRole('heading', { name: 'Boxes' }).waitFor();
  await page.getByRole('button', { name: 'Sign out' }).click();
  const token = page.getByLabel('Token');
  await token.waitFor();
  pardoned.push(/401/);
  await page.goto('about:blank');
  await page.goto(link);
  await shows(page.locator('.notices'), /has been used/);
  await token.fill('wrong');
  await page.getByRole('button', { name: 'Sign in' }).click();
  await shows(page.locator('.notices'), /not the daemon/);
  await token.fill(daemon.env.ATOLL_TOKEN);
  await page.getByRole('button', { name: 'Sign in' }).click();
  await page.getByRole('heading', { name: 'Boxes' }).waitFor();
}

export async function list({ page, daemon, ...t }) {
  await daemon.box('list-a', { labels: { team: 'blue' } });
  await signIn({ page, daemon, ...t });
  await row(page, 'list-a').waitFor();
  await daemon.box('list-b');
  await row(page, 'list-b').waitFor();
  await shows(row(page, 'list-b'), /running/);
  await shows(row(page, 'list-b'), /iB/);
  await page.getByLabel('Filter').fill('team=blue');
  await row(page, 'list-b').waitFor({ state: 'detached' });
  await page.getByLabel('Filter').fill('list-');
  await row(page, 'list-b').waitFor();
  await page.getByRole('button', { name: 'New box' }).click();
  await page.getByLabel('Name', { exact: true }).fill('list-c');
  await page.getByLabel('Memory (MiB)').fill('300');
  await page.getByLabel('Variables').fill('COLOUR=blue');
  await page.getByRole('button', { name: 'Make it' }).click();
  await page.getByRole('tab', { name: 'Terminal' }).waitFor();
  assert.equal((await daemon.ask('GET', '/v1/sandboxes/list-c')).limits.memory, 300 << 20);
  assert.equal((await daemon.run('list-c', 'echo $COLOUR')).stdout, 'blue\n');
  await page.getByRole('link', { name: 'Boxes' }).click();
  await page.getByRole('button', { name: 'Name' }).click();
  await page.waitForFunction(() => document.querySelector('tbody th')?.textContent === 'list-c', undefined);
  await page.getByLabel('Choose all').check();
  await page.getByRole('button', { name: 'Destroy' }).click();
  await answer(page, 'Cancel');
  assert.equal((await daemon.boxes()).filter((id) => id.startsWith('list-')).length, 3);
  await page.getByRole('button', { name: 'Destroy' }).click();
  await answer(page, 'Destroy');
  await shows(page.locator('.notices'), 'Destroy: 3 done');
  await row(page, /^list-/).first().waitFor({ state: 'detached' });
  assert.deepEqual((await daemon.boxes()).filter((id) => id.startsWith('list-')), []);
}

export async function palette({ page, daemon, ...t }) {
  await open({ page, daemon, ...t }, 'palette', 'Info');
  await page.keyboard.press('Control+k');
  await page.getByRole('combobox', { name: 'Command' }).fill('files of');
  await page.keyboard.press('Enter');
  await page.getByRole('tree', { name: 'Files' }).waitFor();
  await page.getByRole('tab', { name: 'Files' }).focus();
  await page.keyboard.press('?');
  await page.getByRole('dialog', { name: 'Shortcuts' }).waitFor();
  await page.keyboard.press('Escape');
  await page.getByRole('dialog').waitFor({ state: 'detached' });
  await page.keyboard.press('ArrowRight');
  await page.locator('[role=tab][aria-selected=true]', { hasText: 'Notebook' }).waitFor();
  await page.keyboard.press('Control+k');
  await page.getByRole('combobox', { name: 'Command' }).fill('host');
  await page.keyboard.press('Enter');
  await page.getByRole('heading', { name: 'Host' }).waitFor();
}

const screen = (page) => page.locator('.xterm-rows').first();

async function terminal(t, id) {
  await open(t, id, 'Terminal');
  await shows(screen(t.page), /[$#]/);
  await t.page.waitForFunction(() => document.activeElement?.classList.contains('xterm-helper-textarea'));
}

export async function terminal_types_and_splits(t) {
  const { page } = t;
  await terminal(t, 'term');
  await page.keyboard.type('echo hello-$((6*7))\n');
  await shows(screen(page), 'hello-42');
  await page.getByRole('tab', { name: 'Info' }).click();
  await page.getByRole('tab', { name: 'Terminal' }).click();
  await shows(screen(page), 'hello-42');
  await page.waitForFunction(() => document.activeElement?.classList.contains('xterm-helper-textarea'));
  await page.getByRole('button', { name: 'Split' }).click();
  await shows(page.locator('.xterm-rows').nth(1), /[$#]/);
  const other = await page.context().newPage();
  await other.goto(page.url());
  await shows(screen(other), 'hello-42');
  await page.locator('.xterm-screen').first().click();
  await page.keyboard.type('echo seen-by-$((1+1))\n');
  await shows(screen(other), 'seen-by-2');
}

export async function terminal_outlives_the_daemon(t) {
  const { page, daemon, pardoned } = t;
  await terminal(t, 'survivor');
  await page.keyboard.type('echo before-$((6*7)); x=kept\n');
  await shows(screen(page), 'before-42');
  pardoned.push(/ERR_|WebSocket|Failed to fetch|network error/);
  const opened = page.waitForEvent('websocket');
  daemon.kill();
  await opened;
  await page.locator('.terminal .overlay').waitFor({ state: 'detached' });
  await shows(screen(page), 'before-42');
  await page.keyboard.type('echo after-$x\n');
  await shows(screen(page), 'after-kept');
  await page.getByText('Reconnecting …').first().waitFor({ state: 'detached' });
}

async function saved(download) {
  const parts = [];
  for await (const part of await download.createReadStream()) parts.push(part);
  return Buffer.concat(parts);
}

export async function files(t) {
  const { page, daemon } = t;
  await daemon.box('files');
  await daemon.run('files', 'mkdir -p /workspace/src && echo "print(1)" > /workspace/src/a.py && echo hi > /workspace/a.txt');
  const tab = await open(t, 'files', 'Files');
  await tab.getByRole('treeitem', { name: 'src' }).click();
  await tab.getByRole('treeitem', { name: 'a.py' }).click();
  await shows(tab.locator('.cm-content'), 'print(1)');
  await daemon.write('files', '/workspace/live.txt', 'live');
  await tab.getByRole('treeitem', { name: 'live.txt' }).waitFor();
  await tab.locator('.cm-content').click();
  await page.keyboard.press('Control+a');
  await page.keyboard.insertText('print(2)\n');
  await tab.getByText('not saved').waitFor({ state: 'attached' });
  await page.keyboard.press('Control+s');
  await tab.getByText('not saved').waitFor({ state: 'detached' });
  assert.equal(await daemon.read('files', '/workspace/src/a.py'), 'print(2)\n');
  await page.keyboard.insertText('# mine\n');
  await daemon.write('files', '/workspace/src/a.py', '# theirs\n');
  await tab.getByText('changed in the box').waitFor();
  await tab.getByRole('button', { name: 'Save' }).click();
  await answer(page, 'Cancel');
  assert.equal(await daemon.read('files', '/workspace/src/a.py'), '# theirs\n');
  await tab.getByRole('button', { name: 'Save' }).click();
  await answer(page, 'Write over it');
  await tab.getByText('not saved').waitFor({ state: 'detached' });
  assert.equal(await daemon.read('files', '/workspace/src/a.py'), 'print(2)\n# mine\n');
  await page.getByLabel('Files to upload').setInputFiles([{ name: 'up load.bin', mimeType: 'application/octet-stream', buffer: Buffer.from([0, 1, 255]) }]);
  await tab.getByRole('treeitem', { name: 'up load.bin' }).click();
  await shows(tab, 'is no text');
  const coming = page.waitForEvent('download');
  await tab.getByRole('button', { name: 'Download', exact: true }).click();
  assert.deepEqual([...await saved(await coming)], [0, 1, 255]);
  const all = page.waitForEvent('download');
  await tab.getByRole('button', { name: 'Download all' }).click();
  assert.ok((await saved(await all)).includes('up load.bin'));
  await tab.getByRole('button', { name: 'Delete' }).click();
  await answer(page, 'Delete');
  await tab.getByRole('treeitem', { name: 'up load.bin' }).waitFor({ state: 'detached' });
}

async function cell(tab, page, code) {
  await tab.locator('.cm-content').last().click();
  const next = await tab.locator('.cm-content').count();
  await page.keyboard.insertText(code);
  await page.keyboard.press('Shift+Enter');
  await tab.locator('.cm-content').nth(next).waitFor();
}

export async function notebook(t) {
  const { page, daemon } = t;
  const tab = await open(t, 'notebook', 'Notebook');
  await tab.locator('.cm-content').waitFor();
  assert.equal(await tab.locator('.cm-content').count(), 1);
  await cell(tab, page, 'print("out", 6*7)');
  await shows(tab.locator('.outputs pre'), 'out 42');
  await cell(tab, page, 'import matplotlib.pyplot as plt\nplt.plot([1, 3, 2])\nplt.show()');
  await tab.locator('.outputs img').waitFor();
  assert.ok(await tab.locator('.outputs img').evaluate((img) => img.decode().then(() => img.naturalWidth)) > 100);
  await cell(tab, page, 'import pandas as pd\npd.DataFrame({"colour": ["blue"]})');
  await tab.frameLocator('iframe.html').getByText('blue').waitFor();
  await cell(tab, page, '1/0');
  await shows(tab.locator('.traceback'), 'ZeroDivisionError');
  await tab.getByLabel('Language').last().selectOption('javascript');
  await tab.locator('.cm-content[data-language=javascript]').waitFor();
  await cell(tab, page, 'const n = 20; console.log(`js ${n + 3}`)');
  await shows(tab.locator('.outputs pre'), 'js 23');
  await tab.getByRole('button', { name: 'Save' }).click();
  await shows(page.locator('.notices'), 'is saved');
  const book = JSON.parse(await daemon.read('notebook', '/workspace/notebook.ipynb'));
  assert.equal(book.nbformat, 4);
  assert.equal([book.cells[0].source].flat().join(''), 'print("out", 6*7)');
  await page.reload();
  await tab.getByRole('button', { name: 'Open' }).click();
  await shows(tab.locator('.outputs pre'), 'out 42');
  await shows(tab.locator('.cm-content'), 'pd.DataFrame');
}

export async function processes(t) {
  const { page } = t;
  const tab = await open(t, 'processes', 'Processes');
  await tab.getByLabel('Start a process').fill('printf "\\033[31mred\\033[0m line\\n"; exec sleep 1000');
  await tab.getByRole('button', { name: 'Start', exact: true }).click();
  await shows(tab.locator('.log pre'), 'red line');
  await shows(tab.locator('.log .c1'), 'red');
  await tab.getByLabel('Search in the log').fill('lin');
  await shows(tab.locator('mark'), 'lin');
  await tab.getByRole('button', { name: 'End' }).click();
  await tab.getByRole('button', { name: 'End' }).waitFor({ state: 'detached' });
  assert.equal((await t.daemon.run('processes', 'pgrep -fx "sleep 1000" | wc -l')).stdout.trim(), '0');
  assert.ok(await page.locator('.state.killed, .state.failed, .state.completed').count());
}

export async function preview(t) {
  const { page, daemon } = t;
  await daemon.box('preview');
  await daemon.write('preview', '/workspace/index.html', '<h1>my app</h1>');
  await daemon.write('preview', '/workspace/two.html', '<h1>second page</h1>');
  await daemon.start('preview', 'python3 -m http.server 8123 -d /workspace');
  await daemon.run('preview', 'until curl -sf localhost:8123 >/dev/null; do sleep 0.05; done');
  const tab = await open(t, 'preview', 'Preview');
  await tab.getByLabel('Port', { exact: true }).fill('8123');
  await tab.getByRole('button', { name: 'Expose' }).click();
  const app = tab.frameLocator('iframe').locator('h1');
  await shows(app, 'my app');
  await tab.getByLabel('Address').fill('two.html');
  await tab.getByLabel('Address').press('Enter');
  await shows(app, 'second page');
  await shows(tab.getByRole('row'), '/two.html');
  await tab.getByRole('button', { name: 'QR' }).click();
  await tab.getByRole('img', { name: /QR code/ }).waitFor();
  await tab.getByRole('button', { name: 'Close port 8123' }).click();
  await shows(tab, 'No port is exposed');
  assert.deepEqual((await daemon.ask('GET', '/v1/sandboxes/preview/ports')).ports, []);
}

export async function network(t) {
  const { page, daemon } = t;
  const tab = await open(t, 'network', 'Network');
  await tab.getByLabel('Mode').selectOption('list');
  await tab.getByRole('textbox', { name: /^Allow/ }).fill('pypi.org\n*.npmjs.org:443');
  const saved = page.waitForResponse((r) => r.request().method() === 'PATCH');
  await tab.getByRole('button', { name: 'Save the policy' }).click();
  assert.equal((await saved).status(), 200);
  const { own } = await daemon.ask('GET', '/v1/sandboxes/network/network');
  assert.deepEqual([own.mode, own.allow], ['list', ['pypi.org', '*.npmjs.org:443']]);
  await daemon.run('network', 'curl -s -m 5 http://203.0.113.7/; true');
  await shows(tab.getByRole('row'), '203.0.113.7');
  await shows(tab.locator('.state'), 'deny');
}

export async function snapshots(t) {
  const { page, daemon } = t;
  const { features } = await daemon.ask('GET', '/v1/health');
  if (!features.includes('snapshots')) {
    await open(t, 'snapshots', 'Info');
    assert.equal(await page.getByRole('tab', { name: 'Snapshots' }).count(), 0);
    return;
  }
  await daemon.box('snapshots');
  await daemon.write('snapshots', '/workspace/a.txt', 'one');
  const tab = await open(t, 'snapshots', 'Snapshots');
  await tab.getByLabel('Name').fill('first');
  await tab.getByRole('button', { name: 'Make a snapshot' }).click();
  await row(tab, 'first').waitFor();
  await daemon.write('snapshots', '/workspace/a.txt', 'two');
  await tab.getByRole('button', { name: 'Diff' }).click();
  await shows(tab.locator('.diff'), '/workspace/a.txt');
  await tab.getByRole('button', { name: 'Restore' }).click();
  await answer(page, 'Restore');
  await shows(page.locator('.notices'), 'restored');
  assert.equal(await daemon.read('snapshots', '/workspace/a.txt'), 'one');
  const before = await daemon.boxes();
  await tab.getByRole('button', { name: 'Fork this box' }).click();
  await page.waitForFunction(() => document.querySelector('#box-title')?.textContent !== 'snapshots');
  const [made] = (await daemon.boxes()).filter((id) => !before.includes(id));
  assert.equal(await daemon.read(made, '/workspace/a.txt'), 'one');
}

export async function info(t) {
  const { page, daemon } = t;
  const tab = await open(t, 'info', 'Info');
  await tab.locator('.uplot').first().waitFor();
  await tab.getByRole('spinbutton', { name: 'Memory (MiB)' }).fill('333');
  const saved = page.waitForResponse((r) => r.request().method() === 'PUT');
  await tab.getByRole('button', { name: 'Change' }).click();
  assert.equal((await saved).status(), 200);
  assert.equal((await daemon.ask('GET', '/v1/sandboxes/info')).limits.memory, 333 << 20);
  await tab.getByRole('button', { name: 'CLI' }).click();
  await shows(tab.locator('.snippet'), 'atoll exec info');
  await shows(tab.locator('.events'), 'created');
}
