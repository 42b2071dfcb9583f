// The page Host of the console: charts, images and their builds, sessions.
import assert from 'node:assert/strict';
import { answer, row, shows, signIn } from './console-daemon.mjs';

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
  const context = [['Dockerfile', 'FROM default\nCOPY word.txt /word\nRUN echo said-$((6*7)) $(cat /word)\n'], ['word.txt', 'from the context\n']];
  await dialog.getByLabel(/^Dockerfile or other/).setInputFiles(context.map(([name, text]) => ({ name, mimeType: 'text/plain', buffer: Buffer.from(text) })));
  await dialog.getByRole('button', { name: 'Build' }).click();
  await shows(dialog.locator('.output'), 'said-42 from the context');
  await shows(dialog.locator('.output'), 'done in');
  await dialog.getByRole('button', { name: 'Close' }).click();
  await row(page, new RegExp(`^${IMAGE}`)).waitFor();
  await daemon.box('of-image', { image: IMAGE });
  assert.equal((await daemon.run('of-image', 'cat /word')).stdout, 'from the context\n');
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
  await page.getByLabel('Token').waitFor();
  await second.reload();
  await second.getByLabel('Token').waitFor();
  await other.close();
}
