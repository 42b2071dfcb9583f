// What a person does with the console, one scenario a feature. Each gets a page that is not signed in, the API with the token,
// and the command line. At the end of a scenario the page may have said nothing in anger, and no request of it may have failed,
// but for what the scenario put into `pardoned`.
import assert from 'node:assert/strict';
import { answer, open, row, shows, signIn } from './console-daemon.mjs';


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
  await page.getByLabel('Memory (MiB)').fill('300');
  await page.getByLabel('Name', { exact: true }).fill('list-a');
  const { limits } = await daemon.ask('GET', '/v1/sandboxes/list-a');
  await page.getByRole('button', { name: 'Make it' }).click();
  await shows(page.getByRole('dialog').getByRole('alert'), 'There is a box list-a already');
  assert.deepEqual((await daemon.ask('GET', '/v1/sandboxes/list-a')).limits, limits);
  await page.getByLabel('Name', { exact: true }).fill('list-c');
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

export async function list_of_many_and_failed({ page, daemon, ...t }) {
  const names = Array.from({ length: 90 }, (_, i) => `many-${String(i).padStart(2, '0')}`);
  for (const name of names) await daemon.box(name);
  await signIn({ page, daemon, ...t });
  await row(page, 'many-00').waitFor();
  assert.ok(await page.locator('tbody tr').count() < 70, 'rows out of sight are not made');
  await page.getByRole('region', { name: 'List of boxes' }).evaluate((e) => { e.scrollTop = e.scrollHeight; });
  await row(page, 'many-89').waitFor();
  await daemon.ask('POST', '/v1/sandboxes/many-89/stop');
  const { reason } = await daemon.ask('GET', '/v1/sandboxes/many-89');
  await shows(row(page, 'many-89').locator('small'), reason);
  await page.getByLabel('Filter').fill('many-88');
  await row(page, 'many-89').waitFor({ state: 'detached' });
  await shows(row(page, 'many-88'), /\/s/);
  for (const what of ['CPU', 'Memory', 'Disk', 'Network']) await row(page, 'many-88').getByRole('img', { name: `${what} of many-88` }).waitFor();
  await page.getByLabel('Choose many-88').check();
  for (const [verb, state] of [['Sleep', 'asleep'], ['Wake', 'running'], ['Stop', 'stopped']]) {
    await page.getByRole('toolbar', { name: 'Chosen boxes' }).getByRole('button', { name: verb }).click();
    await answer(page, verb);
    await shows(row(page, 'many-88').locator('.state'), state);
    await page.getByLabel('Choose many-88').check();
  }
}

export async function list_of_500({ page, daemon, ...t }) {
  const names = Array.from({ length: 500 }, (_, i) => `crowd-${String(i).padStart(3, '0')}`), left = [...names];
  await Promise.all(Array.from({ length: 8 }, async () => { for (let name; (name = left.pop());) await daemon.box(name, { labels: { half: name < 'crowd-250' ? 'low' : 'high' } }); }));
  await signIn({ page, daemon, ...t });
  await row(page, 'crowd-000').waitFor();
  const scroller = page.getByRole('region', { name: 'List of boxes' }), rows = page.locator('tbody tr');
  const few = async () => assert.ok(await rows.count() < 70, 'rows out of sight are not made');
  await few();
  assert.ok(await scroller.evaluate((e) => e.scrollHeight) > 500 * 25, 'the bar has the length of all');
  for (const [part, name] of [[1, 'crowd-499'], [0.5, 'crowd-250'], [0, 'crowd-000']]) {
    await scroller.evaluate((e, to) => { e.scrollTop = to * (e.scrollHeight - e.clientHeight); }, part);
    await row(page, name).waitFor();
    await few();
  }
  await page.getByRole('button', { name: 'Name' }).click();
  await row(page, 'crowd-499').waitFor();
  await page.getByLabel('Filter').fill('half=low');
  await row(page, 'crowd-249').waitFor();
  await row(page, 'crowd-250').waitFor({ state: 'detached' });
  await page.getByLabel('Filter').fill('crowd-12');
  await row(page, 'crowd-130').waitFor({ state: 'detached' });
  assert.equal(await rows.count(), 10);
  await page.getByLabel('Filter').fill('');
  await page.getByLabel('Choose all').check();
  await shows(page.getByRole('toolbar', { name: 'Chosen boxes' }), '500 chosen');
  await page.getByRole('button', { name: 'Destroy' }).click();
  await answer(page, 'Destroy');
  await page.getByText('Nothing here yet').waitFor();
  assert.deepEqual(await daemon.boxes(), []);
}

/** What is shown stays where it is when more of it comes: by the browser's own measure, from 0 to 1. */
export async function nothing_moves_by_itself({ page, daemon, ...t }) {
  for (const id of ['still-a', 'still-b', 'still-c']) await daemon.box(id);
  await page.addInitScript(() => {
    globalThis.moved = [];
    new PerformanceObserver((list) => { for (const e of list.getEntries()) if (!e.hadRecentInput) globalThis.moved.push([e.value, location.hash, e.sources.map((s) => s.node?.outerHTML?.slice(0, 60))]); }).observe({ type: 'layout-shift', buffered: true });
  });
  await signIn({ page, daemon, ...t });
  await row(page, 'still-a').waitFor();
  await page.waitForFunction(() => document.querySelector('[aria-label="CPU of still-a"] polyline')?.getAttribute('points').split(' ').length > 2);
  const to = (hash) => page.evaluate((h) => { location.hash = h; }, hash); // a click would pardon what moves after it
  await to('/box/still-a');
  await page.getByRole('tab', { name: 'Info' }).waitFor();
  for (const tab of await page.getByRole('tab').allInnerTexts()) {
    await to(`/box/still-a/${tab}`);
    await page.getByRole('tabpanel', { name: tab }).waitFor();
  }
  await page.locator('.uplot').first().waitFor();
  await to('/host');
  await page.getByRole('region', { name: 'Audit' }).waitFor();
  await page.waitForFunction(() => Number(document.querySelector('.chart')?.dataset.points) > 1);
  const moved = await page.evaluate(() => globalThis.moved);
  assert.ok(moved.reduce((sum, [value]) => sum + value, 0) < 0.02, JSON.stringify(moved.filter(([value]) => value > 0.001), undefined, 1));
}

export async function empty_and_slow(t) {
  const { page, daemon } = t;
  await signIn(t);
  await shows(page.locator('.empty'), 'Nothing here yet');
  await page.locator('.empty').getByRole('button', { name: 'New box' }).click();
  await page.getByRole('dialog').getByLabel('Name', { exact: true }).waitFor();
  await page.keyboard.press('Escape');
  // An answer that does not come is shown as such, and its end too.
  await daemon.box('slow');
  let release;
  const held = new Promise((resolve) => { release = resolve; });
  await page.route('**/api/process/list', async (route) => { await held; await route.continue(); });
  await page.getByRole('link', { name: 'slow', exact: true }).click();
  await page.getByRole('tab', { name: 'Processes', exact: true }).click();
  const tab = page.getByRole('tabpanel', { name: 'Processes' });
  await shows(tab.getByRole('status'), 'Loading …');
  release();
  await shows(tab.locator('.empty'), 'No background processes');
}

export async function motion_is_a_wish({ page, daemon, ...t }) {
  await signIn({ page, daemon, ...t });
  const time = () => page.evaluate(() => {
    document.body.style.transition = 'opacity 3s';
    return getComputedStyle(document.body).transitionDuration;
  });
  await page.emulateMedia({ reducedMotion: 'no-preference' });
  assert.equal(await time(), '3s');
  await page.emulateMedia({ reducedMotion: 'reduce' });
  assert.equal(await time(), '0s');
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

export async function terminal_searches_and_links(t) {
  const { page } = t;
  await terminal(t, 'search');
  await page.keyboard.type('seq 1 300; echo http://127.0.0.1:9/nobody-$((6*7))\n');
  await shows(screen(page), 'nobody-42');
  await page.keyboard.press('Control+Shift+F');
  await page.getByLabel('Search in the terminal').waitFor();
  await page.keyboard.type('137');
  await page.keyboard.press('Enter');
  await shows(screen(page), /^.*136\s*137\s*138/s);
  await page.keyboard.press('Escape');
  await page.waitForFunction(() => document.activeElement?.classList.contains('xterm-helper-textarea'));
  await page.keyboard.type('echo back-$((6*7))\n');
  await shows(screen(page), 'back-42');
  const link = screen(page).getByText('nobody-42').last();
  await link.waitFor();
  t.pardoned.push(/ERR_CONNECTION_REFUSED|127\.0\.0\.1:9/);
  const place = await link.boundingBox(), opened = page.context().waitForEvent('page');
  await page.mouse.move(place.x + 60, place.y + 6);
  await page.locator('.xterm-cursor-pointer').waitFor();
  await page.mouse.click(place.x + 60, place.y + 6);
  assert.equal(await (await opened).evaluate(() => globalThis.opener), null);
}

export async function terminal_copies_pastes_and_resizes(t) {
  const { page } = t;
  await page.context().grantPermissions(['clipboard-read', 'clipboard-write']);
  await terminal(t, 'paste');
  await page.evaluate(() => navigator.clipboard.writeText('echo pasted-$((6*7))'));
  await page.keyboard.press('Control+Shift+V');
  await page.keyboard.press('Enter');
  await shows(screen(page), 'pasted-42');
  const place = await screen(page).getByText('pasted-42').last().boundingBox();
  await page.mouse.dblclick(place.x + 20, place.y + 6);
  await page.keyboard.press('Control+Shift+C');
  await page.waitForFunction(async () => (await navigator.clipboard.readText()).includes('pasted-42'));
  const size = async (word) => {
    await page.keyboard.type(`echo ${word}-$(stty size | tr ' ' x)-\n`);
    await shows(screen(page), new RegExp(`${word}-\\d+x\\d+-`));
    return new RegExp(`${word}-(\\d+)x(\\d+)-`).exec(await screen(page).textContent()).slice(1).map(Number);
  };
  const [rows, columns] = await size('before');
  await page.setViewportSize({ width: 900, height: 500 });
  await page.waitForFunction((n) => document.querySelectorAll('.xterm-rows > *').length < n, rows);
  const [less, narrower] = await size('after');
  assert.ok(less < rows && narrower < columns, `${rows}x${columns} ${less}x${narrower}`);
  // Keys go to a terminal when the page has moved the focus there.
  const focused = () => page.waitForFunction(() => document.activeElement?.matches('.panes:not([hidden]) .xterm-helper-textarea'));
  // A second terminal beside the first, each with a shell of its own.
  await page.keyboard.type('mine=first\n');
  await page.getByRole('button', { name: 'New terminal' }).click();
  await page.getByRole('button', { name: 'Shell 2', exact: true }).waitFor();
  const second = page.locator('.panes:not([hidden]) .xterm-rows').first();
  await shows(second, /[$#]/);
  await focused();
  await page.keyboard.type('echo [${mine-none}]\n');
  await shows(second, '[none]');
  await page.getByRole('button', { name: 'Shell 1', exact: true }).click();
  await focused();
  await page.keyboard.type('echo [$mine]\n');
  await shows(page.locator('.panes:not([hidden]) .xterm-rows').first(), '[first]');
}

/** More output than a page can hold: it comes in windows, and the page goes on answering. */
export async function terminal_takes_a_flood(t) {
  const { page } = t;
  await terminal(t, 'flood');
  await page.keyboard.type('yes abcdefghij | head -c 30000000; echo flood-is-$((6*7))\n');
  await shows(screen(page), 'abcdefghij');
  await page.getByRole('tab', { name: 'Info' }).click();
  await shows(page.getByRole('tabpanel', { name: 'Info' }), 'Use it from a program');
  await page.getByRole('tab', { name: 'Terminal' }).click();
  await shows(screen(page), 'flood-is-42');
  await page.keyboard.type('echo still-$((6*7))\n');
  await shows(screen(page), 'still-42');
  assert.equal(await page.getByText('Reconnecting').count(), 0);
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
  await cell(tab, page, 'from IPython.display import Math\nMath(r"\\frac{a_1}{\\sqrt{2}}")');
  await tab.locator('.formula math mfrac').waitFor();
  await tab.locator('.formula math msqrt').waitFor();
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
  await tab.getByLabel('Start a process').fill('trap "echo got-usr$((2-1))" USR1; printf "\\033[31mred\\033[0m line\\n"; while :; do sleep 1000 & wait; done');
  await tab.getByRole('button', { name: 'Start', exact: true }).click();
  await shows(tab.locator('.log pre'), 'red line');
  await shows(tab.locator('.log .c1'), 'red');
  await tab.getByLabel('Search in the log').fill('lin');
  await shows(tab.locator('mark'), 'lin');
  await tab.getByLabel(/^Signal for/).selectOption('SIGUSR1');
  await shows(tab.locator('.log pre'), 'got-usr1');
  await tab.getByRole('button', { name: 'End' }).click();
  await tab.getByRole('button', { name: 'End' }).waitFor({ state: 'detached' });
  assert.equal((await t.daemon.run('processes', 'pgrep -fx "sleep 1000" | wc -l')).stdout.trim(), '0');
  assert.ok(await page.locator('.state.killed, .state.failed, .state.completed').count());
}

export async function services(t) {
  const { page, daemon } = t;
  const tab = await open(t, 'services', 'Processes');
  await tab.getByLabel('Start a process').fill('echo run-$((6*7)); exec sleep 1001');
  await tab.getByLabel('as a service').check();
  await tab.getByRole('button', { name: 'Start', exact: true }).click();
  await shows(tab.locator('.log pre'), 'run-42');
  await daemon.run('services', 'pkill -fx "sleep 1001"');
  await shows(tab.locator('.label'), 'started again 1 ×');
  await page.getByRole('button', { name: 'Stop', exact: true }).click();
  await answer(page, 'Stop');
  await shows(page.locator('.head .state'), 'stopped');
  await page.getByRole('button', { name: 'Start', exact: true }).first().click();
  await shows(page.locator('.head .state'), 'running');
  await daemon.run('services', 'until pgrep -fx "sleep 1001"; do sleep 0.05; done');
  await tab.getByRole('button', { name: 'End' }).click();
  await tab.getByText('No background processes').or(tab.locator('.state.killed')).first().waitFor();
  assert.equal((await daemon.run('services', 'pgrep -fx "sleep 1001" | wc -l')).stdout.trim(), '0');
}

export async function preview(t) {
  const { page, daemon } = t;
  await daemon.box('preview');
  await daemon.write('preview', '/workspace/index.html', '<h1>my app</h1>');
  await daemon.write('preview', '/workspace/two.html', '<h1>second page</h1>');
  await daemon.start('preview', 'python3 -m http.server 8123 -d /workspace');
  await daemon.run('preview', 'until curl -sf localhost:8123 >/dev/null; do sleep 0.05; done');
  const tab = await open(t, 'preview', 'Preview');
  const field = tab.getByLabel('Port', { exact: true }), fits = () => field.evaluate((e) => e.validity.valid);
  await field.fill('1023');
  assert.equal(await fits(), false);
  await field.fill('8123');
  await tab.getByRole('button', { name: 'Expose' }).click();
  const app = tab.frameLocator('iframe').locator('h1');
  await shows(app, 'my app');
  await tab.getByLabel('Address').fill('two.html');
  await tab.getByLabel('Address').press('Enter');
  await shows(app, 'second page');
  await shows(tab.getByRole('row'), '/two.html');
  await tab.getByRole('button', { name: '/two.html' }).first().click();
  const headers = tab.getByRole('region', { name: 'Headers' });
  await shows(headers.getByRole('row').filter({ hasText: /user-agent/i }), 'Chrom');
  await shows(headers.getByRole('row').filter({ hasText: /content-type/i }), 'text/html');
  await shows(headers, 'ms until the response began');
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

export async function questions_of_the_network(t) {
  const { page, daemon } = t;
  await daemon.box('asks', { network: { mode: 'list', ask: true } });
  const tab = await open(t, 'asks', 'Network');
  const tried = daemon.run('asks', 'curl -sS http://203.0.113.9/');
  await shows(tab.getByRole('alert'), '203.0.113.9:80');
  await tab.getByRole('button', { name: 'Deny' }).click();
  assert.match((await tried).stdout, /denied/);
  await tab.getByRole('alert').waitFor({ state: 'detached' });
  const { own } = await daemon.ask('GET', '/v1/sandboxes/asks/network');
  assert.deepEqual(own.deny, ['203.0.113.9:80']);
  await shows(tab.getByRole('row').filter({ hasText: '203.0.113.9' }).locator('.state'), 'deny');
  await page.getByRole('tab', { name: 'Info' }).click();
}

export async function questions_that_are_allowed(t) {
  const { daemon } = t;
  await daemon.box('allows', { network: { mode: 'list', ask: true } });
  const tab = await open(t, 'allows', 'Network');
  const own = async () => (await daemon.ask('GET', '/v1/sandboxes/allows/network')).own;
  for (const [button, address, rules] of [['Allow once', '203.0.113.10', []], ['Allow', '203.0.113.11', ['203.0.113.11:80']]]) {
    const tried = daemon.run('allows', `curl -sS -m 3 http://${address}/`);
    await shows(tab.getByRole('alert'), `${address}:80`);
    await tab.getByRole('button', { name: button, exact: true }).click();
    await tab.getByRole('alert').waitFor({ state: 'detached' });
    assert.doesNotMatch((await tried).stdout, /denied/);
    assert.deepEqual((await own()).allow ?? [], rules);
    await shows(tab.getByRole('row').filter({ hasText: address }).locator('.state'), 'allow');
  }
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
