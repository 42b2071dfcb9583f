// The page Host of the console: charts, images and their builds, sessions.
import assert from 'node:assert/strict';
import { answer, open, row, shows, signIn } from './console-daemon.mjs';

const IMAGE = `console-${process.pid}`; // the images of a machine are shared by all daemons that tests start

export async function host(t) {
  const { page, daemon } = t;
  await daemon.box('on-host');
  await signIn(t);
  await page.getByRole('link', { name: 'Host', exact: true }).click();
  await page.getByRole('heading', { name: 'Host' }).waitFor();
  await page.locator('.uplot').nth(3).waitFor();
  await shows(page.locator('.totals'), (await daemon.ask('GET', '/v1/health')).version);
  await shows(page.locator('.events'), 'created');
  await row(page, /^default/).waitFor();
  // The system's setting changes while the page is open: charts and the editor, too.
  await page.locator('.uplot').evaluateAll((all) => all.forEach((e) => { e.dataset.before = 1; }));
  await page.emulateMedia({ colorScheme: 'dark' });
  await page.locator('.uplot[data-before]').first().waitFor({ state: 'detached' });
  await page.locator('.uplot').nth(3).waitFor();
  const tab = await open(t, 'on-host', 'Notebook'), paper = () => tab.locator('.cm-editor').evaluate((e) => getComputedStyle(e).backgroundColor);
  await tab.locator('.cm-content').waitFor();
  const dark = await paper();
  await page.emulateMedia({ colorScheme: 'light' });
  await page.waitForFunction((before) => getComputedStyle(document.querySelector('.cm-editor')).backgroundColor !== before, dark);
}

export async function image_build(t) {
  const { page, daemon } = t;
  await signIn(t);
  await page.getByRole('link', { name: 'Host', exact: true }).click();
  await page.getByRole('button', { name: 'Build an image' }).click();
  const dialog = page.getByRole('dialog');
  await dialog.getByLabel('Name').fill(IMAGE);
  await dialog.getByLabel(/^Dockerfile or other/).setInputFiles([{ name: 'my.dockerfile', mimeType: 'text/plain', buffer: Buffer.from('FROM default\nRNU true\n') }]);
  t.pardoned.push(/400.*images\/build/);
  await dialog.getByRole('button', { name: 'Build' }).click();
  await shows(dialog.locator('.output'), 'did you mean RUN?');
  // The cache of builds belongs to the machine: a word of its own makes this build run.
  const word = `word-${Date.now()}`;
  const context = [['Dockerfile', 'FROM default\nCOPY word.txt /word\nRUN echo said-$((6*7)) $(cat /word)\n'], ['word.txt', `${word}\n`]];
  await dialog.getByLabel(/^Dockerfile or other/).setInputFiles(context.map(([name, text]) => ({ name, mimeType: 'text/plain', buffer: Buffer.from(text) })));
  await dialog.getByRole('button', { name: 'Build' }).click();
  await shows(dialog.locator('.output'), `said-42 ${word}`);
  await shows(dialog.locator('.output'), 'done in');
  await dialog.getByRole('button', { name: 'Close' }).click();
  await row(page, new RegExp(`^${IMAGE}`)).waitFor();
  await daemon.box('of-image', { image: IMAGE });
  assert.equal((await daemon.run('of-image', 'cat /word')).stdout, `${word}\n`);
  await daemon.ask('DELETE', '/v1/sandboxes/of-image');
  await row(page, new RegExp(`^${IMAGE}`)).getByRole('button', { name: 'Remove' }).click();
  await answer(page, 'Remove');
  await row(page, new RegExp(`^${IMAGE}`)).waitFor({ state: 'detached' });
}

export async function sign_out_everywhere(t) {
  const { page, pardoned } = t;
  await signIn(t);
  const other = await page.context().browser().newContext(), second = await other.newPage();
  await second.goto(t.daemon.link());
  await second.getByRole('heading', { name: 'Boxes' }).waitFor();
  await page.getByRole('link', { name: 'Host', exact: true }).click();
  pardoned.push(/401/);
  await page.getByRole('button', { name: 'Sign out everywhere' }).click();
  await answer(page, 'Sign out');
  await page.getByLabel('Token').waitFor();
  await second.reload();
  await second.getByLabel('Token').waitFor();
  await other.close();
}

export async function tokens(t) {
  const { page, daemon, pardoned } = t, name = `robot-${process.pid}`;
  const may = async (token) => (await fetch(`${daemon.url}/v1/sandboxes`, { headers: { Authorization: `Bearer ${token}` } })).status;
  await page.context().grantPermissions(['clipboard-read', 'clipboard-write']);
  await signIn(t);
  await page.getByRole('link', { name: 'Host', exact: true }).click();
  await page.getByRole('button', { name: 'New token' }).click();
  const dialog = page.getByRole('dialog');
  pardoned.push(/400.*tokens/, /409.*tokens/);
  await dialog.getByLabel('Name').fill('<img src=x onerror=alert(1)>');
  await dialog.getByRole('button', { name: 'Make' }).click();
  await shows(dialog.getByRole('alert'), /letters, digits/);
  await dialog.getByLabel('Name').fill(name);
  await dialog.getByLabel('Valid for').fill('30d');
  await dialog.getByRole('button', { name: 'Make' }).click();
  const value = await dialog.getByLabel('Value').textContent();
  assert.match(value, /^atoll_[0-9a-f]{64}$/);
  await dialog.getByRole('button', { name: 'Copy' }).click();
  await shows(dialog.getByRole('status'), 'Copied.');
  assert.equal(await page.evaluate(() => navigator.clipboard.readText()), value);
  await dialog.getByRole('button', { name: 'Close' }).click();
  const line = row(page.getByRole('region', { name: 'Tokens' }), name);
  await shows(line, /never.*in 30 d/);
  assert.ok(!(await page.content()).includes(value)); // it is shown once
  assert.equal(await may(value), 200);
  await page.getByRole('button', { name: 'New token' }).click();
  await dialog.getByLabel('Name').fill(name);
  await dialog.getByRole('button', { name: 'Make' }).click();
  await shows(dialog.getByRole('alert'), 'already');
  await page.keyboard.press('Escape'); // of the dialog, not of the page
  await dialog.waitFor({ state: 'detached' });
  await line.getByRole('button', { name: `Revoke ${name}` }).click();
  await answer(page, 'Cancel');
  assert.equal(await may(value), 200);
  await line.getByRole('button', { name: `Revoke ${name}` }).click();
  await answer(page, 'Revoke');
  await line.waitFor({ state: 'detached' });
  assert.equal(await may(value), 401);
}

export async function sessions_and_audit(t) {
  const { page, daemon, pardoned } = t, name = `audited-${process.pid}`;
  await daemon.ask('DELETE', '/v1/console/sessions'); // of other scenarios
  await signIn(t);
  const other = await page.context().browser().newContext({ userAgent: 'Lynx/2.9 (text)' }), second = await other.newPage();
  await second.goto(daemon.link());
  await second.getByRole('heading', { name: 'Boxes' }).waitFor();
  await page.getByRole('link', { name: 'Host', exact: true }).click();
  const sessions = page.getByRole('region', { name: 'Sessions' }), theirs = row(sessions, 'Lynx/2.9 (text)');
  await shows(row(sessions, /this one/), 'Chrome on Linux');
  assert.equal((await daemon.ask('GET', '/v1/console/sessions')).sessions.length, 2);
  await theirs.getByRole('button', { name: /^End/ }).click();
  await answer(page, 'End');
  await theirs.waitFor({ state: 'detached' });
  await second.reload();
  await second.getByLabel('Token').waitFor();
  await other.close();
  await daemon.box(name);
  const audit = page.getByRole('region', { name: 'Audit' });
  await shows(audit.getByRole('row').filter({ hasText: name }), /token.*PUT \/v1\/sandboxes\/\{id\}.*201/);
  await shows(audit.getByRole('row'), /console.*DELETE \/v1\/console\/sessions\/\{session\}.*200/);
  await page.getByLabel('Filter the audit').fill(name);
  await audit.getByRole('row').filter({ hasText: 'session' }).first().waitFor({ state: 'detached' });
  assert.equal(await audit.getByRole('row').count(), 2);
  assert.ok(!pardoned.length);
}

export async function checks_of_the_host(t) {
  const { page, daemon } = t;
  await signIn(t);
  await page.getByRole('link', { name: 'Host', exact: true }).click();
  await page.getByRole('button', { name: 'Look at this host' }).click();
  const doctor = page.getByRole('region', { name: 'Doctor' });
  await shows(doctor.getByRole('row'), /user namespaces/i);
  assert.ok(await doctor.getByText('ok', { exact: true }).count() > 5);
  await page.getByRole('button', { name: 'Run the self-test' }).click();
  await shows(page.getByRole('status'), /1\d passed, 0 failed/);
  assert.ok(await page.getByRole('region', { name: 'Self-test' }).getByText('ok', { exact: true }).count() > 10);
  assert.deepEqual((await daemon.boxes()).filter((id) => id.startsWith('selftest')), []);
}
