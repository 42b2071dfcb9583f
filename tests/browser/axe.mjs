// The console without barriers, as far as a program can tell: axe-core on each view, in both colour schemes.
import assert from 'node:assert/strict';
import { readFileSync } from 'node:fs';
import { createRequire } from 'node:module';

const source = readFileSync(createRequire(import.meta.url).resolve('axe-core/axe.min.js'), 'utf8');

async function check(page, where) {
  const { violations } = await page.evaluate(async () => {
    const { violations } = await globalThis.axe.run(document, { runOnly: ['wcag2a', 'wcag2aa', 'wcag21a', 'wcag21aa'] });
    return { violations: violations.map((v) => ({ rule: v.id, help: v.help, at: v.nodes.map((n) => `${n.target} ${n.failureSummary}`) })) };
  });
  return violations.map((v) => ({ where, ...v }));
}

async function views({ page, daemon, shot }, scheme) {
  await page.emulateMedia({ colorScheme: scheme });
  await page.goto(daemon.link());
  const found = [], title = page.getByRole('heading', { name: 'Boxes' });
  await title.waitFor();
  await page.evaluate(source);
  await daemon.box('demo', { labels: { team: 'blue' } });
  await daemon.run('demo', 'echo "# Title" > /workspace/README.md; echo "def f(x):\n    return \'text\' # note" > /workspace/a.py');
  await daemon.start('demo', "printf '\\033[31mred \\033[32mgreen \\033[33myellow \\033[34mblue\\033[0m\\n'; exec python3 -m http.server 8300 -d /workspace");
  await daemon.run('demo', 'until curl -sf localhost:8300 >/dev/null; do sleep 0.05; done');
  const look = async (name) => { await shot(`${name}-${scheme}`); found.push(...await check(page, name)); };
  await page.getByRole('row').filter({ hasText: 'demo' }).filter({ hasText: 'iB' }).waitFor();
  await page.getByLabel('Choose demo').check();
  await look('list');
  await page.getByLabel('Choose demo').uncheck();
  await page.getByRole('button', { name: 'New box' }).click();
  await page.getByRole('dialog').waitFor();
  await look('new-box');
  await page.keyboard.press('Escape');
  await page.getByRole('link', { name: 'demo', exact: true }).click();
  const prepare = {
    Terminal: async (p) => {
      await p.locator('.xterm-rows').filter({ hasText: /[$#]/ }).waitFor();
      await page.keyboard.type('ls --color -la / | head -12; python3 --version\n');
      await p.locator('.xterm-rows').filter({ hasText: /Python 3/ }).waitFor();
    },
    Files: async (p) => { await p.getByRole('treeitem', { name: 'a.py' }).click(); await p.locator('.cm-content').filter({ hasText: 'return' }).waitFor(); },
    Notebook: async (p) => {
      await p.locator('.cm-content').click();
      await page.keyboard.insertText('import pandas as pd, matplotlib.pyplot as plt\nplt.figure(figsize=(5, 2)); plt.plot([1, 3, 2, 5]); plt.show()\npd.DataFrame({"city": ["Oslo", "Rome"], "people": [709037, 2748109]})');
      await page.keyboard.press('Shift+Enter');
      await p.frameLocator('iframe.html').getByText('Oslo').waitFor();
    },
    Processes: async (p) => { await p.getByRole('button', { name: 'Log' }).click(); await p.locator('.log pre').filter({ hasText: 'green' }).waitFor(); },
    Preview: async (p) => { await p.getByLabel('Port', { exact: true }).fill('8300'); await p.getByRole('button', { name: 'Expose' }).click(); await p.frameLocator('iframe').getByText('README.md').waitFor(); },
    Network: async (p) => { await daemon.run('demo', 'curl -s -m 5 http://203.0.113.7/; true'); await p.getByRole('row').filter({ hasText: '203.0.113.7' }).first().waitFor(); },
    Snapshots: async (p) => { await p.getByRole('button', { name: 'Make a snapshot' }).click(); await p.getByRole('button', { name: 'Diff' }).waitFor(); },
    Info: async (p) => { await p.locator('.uplot').nth(1).waitFor(); },
  };
  await page.getByRole('tab', { name: 'Info' }).waitFor();
  for (const tab of await page.getByRole('tab').allInnerTexts()) {
    await page.getByRole('tab', { name: tab, exact: true }).click();
    await prepare[tab](page.getByRole('tabpanel', { name: tab }));
    await look(tab.toLowerCase());
  }
  await page.keyboard.press('Control+k');
  await page.getByRole('combobox', { name: 'Command' }).waitFor();
  await look('palette');
  await page.keyboard.press('Escape');
  await page.getByRole('link', { name: 'Host', exact: true }).click();
  await page.locator('.chart strong').first().waitFor();
  await look('host');
  await page.setViewportSize({ width: 380, height: 700 });
  await page.getByRole('link', { name: 'Boxes' }).click();
  await page.getByRole('heading', { name: 'Boxes' }).waitFor();
  await look('phone');
  assert.ok(await page.evaluate(() => document.documentElement.scrollWidth <= innerWidth), 'nothing is wider than a phone');
  await page.getByRole('button', { name: 'Sign out' }).click();
  await page.getByLabel('Token').waitFor();
  await page.evaluate(source);
  await look('sign-in');
  await daemon.ask('DELETE', '/v1/sandboxes/demo');
  assert.deepEqual(found, []);
}

export const no_barriers_in_light = (t) => views(t, 'light');
export const no_barriers_in_dark = (t) => views(t, 'dark');
