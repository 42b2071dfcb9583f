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

const APP = `"""Counts the people of some cities."""
import csv
from pathlib import Path


def people(path: Path) -> int:
    with path.open() as file:
        return sum(int(row["people"]) for row in csv.DictReader(file))  # all of them


if __name__ == "__main__":
    print(people(Path("data/cities.csv")))
`;
const PAGE = '<!doctype html><style>body{font:18px system-ui;margin:60px;color:#123}h1{color:#0b6e69}</style><h1>It works</h1><p>An app in a box.</p>';

/** More boxes for the list, in several states: one is busy, one sleeps, one is stopped. */
async function others(daemon) {
  for (const [id, team] of [['agent-7', 'blue'], ['ci-runner', 'green'], ['nightly', 'green'], ['scratch', 'red']]) await daemon.box(id, { labels: { team } });
  await daemon.start('agent-7', 'while :; do :; done');
  await daemon.run('scratch', 'head -c 30000000 /dev/urandom > /workspace/data.bin');
  await daemon.ask('POST', '/v1/sandboxes/nightly/sleep');
  await daemon.ask('POST', '/v1/sandboxes/ci-runner/stop');
}

async function views({ page, daemon, shot }, scheme) {
  await page.emulateMedia({ colorScheme: scheme });
  await page.goto(daemon.link());
  const found = [], title = page.getByRole('heading', { name: 'Boxes' });
  await title.waitFor();
  await page.evaluate(source);
  await daemon.ask('POST', '/v1/volumes/cache', { size: 1 << 30 });
  await daemon.ask('PUT', '/v1/secrets/bucket-keys', { value: 'x'.repeat(40), hosts: ['s3.example.org'], aws: { accessKeyId: 'AKIATEST', region: 'us-east-1', service: 's3' } });
  for (const [name, ttl] of [['ci', '30d'], ['laptop-of-ada', undefined]]) await daemon.ask('POST', '/v1/tokens', { name, ttl });
  await daemon.box('demo', { labels: { team: 'blue' }, volumes: [{ name: 'cache', path: '/cache' }] });
  await others(daemon);
  await daemon.run('demo', 'mkdir -p /workspace/data && printf "city,people\\nOslo,709037\\nRome,2748109\\n" > /workspace/data/cities.csv && echo "# A demo" > /workspace/README.md');
  await daemon.write('demo', '/workspace/app.py', APP);
  await daemon.write('demo', '/workspace/index.html', PAGE);
  await daemon.start('demo', "printf '\\033[31mred \\033[32mgreen \\033[33myellow \\033[34mblue\\033[0m\\n'; exec python3 -u -m http.server 8300 -d /workspace");
  await daemon.run('demo', 'until curl -sf localhost:8300 >/dev/null; do sleep 0.05; done');
  const look = async (name) => { await shot(`${name}-${scheme}`); found.push(...await check(page, name)); };
  await page.getByRole('row').filter({ hasText: 'demo' }).filter({ hasText: 'iB' }).waitFor();
  await page.waitForFunction(() => document.querySelector('[aria-label="CPU of agent-7"] polyline')?.getAttribute('points').split(' ').length > 3);
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
    Files: async (p) => {
      await p.getByRole('treeitem', { name: 'data' }).click();
      await p.getByRole('treeitem', { name: 'cities.csv' }).click();
      await p.getByRole('cell', { name: 'Oslo' }).waitFor();
      await look('files-table');
      await p.getByRole('treeitem', { name: 'app.py' }).click();
      await p.locator('.cm-content').filter({ hasText: 'return' }).waitFor();
    },
    Notebook: async (p) => {
      await p.locator('.cm-content').click();
      await page.keyboard.insertText('import pandas as pd, matplotlib.pyplot as plt\nplt.figure(figsize=(5, 2)); plt.plot([1, 3, 2, 5]); plt.show()\npd.DataFrame({"city": ["Oslo", "Rome"], "people": [709037, 2748109]})');
      await page.keyboard.press('Shift+Enter');
      await p.frameLocator('iframe.html').getByText('Oslo').waitFor();
      await p.locator('.cm-content').last().click();
      await page.keyboard.insertText('from IPython.display import Math\nMath(r"\\int_0^\\infty e^{-x^2}\\,dx = \\frac{\\sqrt{\\pi}}{2}")');
      await page.keyboard.press('Control+Enter');
      await p.locator('.formula math msqrt').waitFor();
    },
    Processes: async (p) => { await p.getByRole('button', { name: 'Log' }).click(); await p.locator('.log pre').filter({ hasText: 'green' }).waitFor(); },
    Preview: async (p) => { await p.getByLabel('Port', { exact: true }).fill('8300'); await p.getByRole('button', { name: 'Expose' }).click(); await p.frameLocator('iframe').getByText('It works').waitFor(); await p.getByRole('button', { name: '/', exact: true }).last().click(); await p.getByRole('region', { name: 'Headers' }).waitFor(); },
    Network: async (p) => { await daemon.run('demo', 'curl -s -m 5 http://203.0.113.7/; true'); await p.getByRole('row').filter({ hasText: '203.0.113.7' }).first().waitFor(); },
    Snapshots: async (p) => {
      await p.getByRole('button', { name: 'Back up now' }).click();
      await p.getByRole('region', { name: 'List of backups' }).locator('.state').filter({ hasText: 'ready' }).waitFor();
      await p.getByRole('button', { name: 'Unmount' }).or(p.getByLabel('Place in the box')).first().waitFor();
      await p.getByRole('region', { name: 'List of volumes' }).waitFor();
      await p.getByRole('heading', { name: 'Backups' }).evaluate((e) => e.closest('section').scrollIntoView());
      await look('storage');
      await p.getByRole('button', { name: 'Make a snapshot' }).click();
      await p.getByRole('button', { name: 'Diff' }).waitFor();
      await p.evaluate((e) => { e.scrollTop = 0; });
    },
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
  await page.waitForFunction(() => Number(document.querySelector('.chart')?.dataset.points) > 3);
  await page.getByRole('region', { name: 'Images' }).getByRole('rowheader').first().waitFor();
  await look('host');
  await page.getByRole('button', { name: 'Look at this host' }).click();
  await page.getByRole('region', { name: 'Doctor' }).waitFor();
  await page.getByRole('button', { name: 'Run the self-test' }).click();
  await page.getByRole('status').filter({ hasText: 'passed' }).waitFor();
  await page.getByRole('heading', { name: 'Tokens' }).evaluate((e) => e.closest('section').scrollIntoView());
  await look('access');
  await page.getByRole('button', { name: 'New token' }).click();
  await page.getByRole('dialog').getByLabel('Name').fill('one-more');
  await look('new-token');
  await page.getByRole('dialog').getByRole('button', { name: 'Make' }).click();
  await page.getByRole('dialog').getByLabel('Value').waitFor();
  await look('token');
  await page.keyboard.press('Escape');
  await page.getByRole('dialog').waitFor({ state: 'detached' });
  await page.getByRole('heading', { name: 'Checks' }).evaluate((e) => e.closest('section').scrollIntoView());
  await look('checks');
  await page.getByRole('button', { name: 'Build an image' }).click();
  await page.getByRole('dialog').waitFor();
  await look('build');
  await page.keyboard.press('Escape');
  await page.setViewportSize({ width: 380, height: 700 });
  await page.getByRole('link', { name: 'Boxes' }).click();
  await page.getByRole('heading', { name: 'Boxes' }).waitFor();
  const fits = async (what) => assert.ok(await page.evaluate(() => document.documentElement.scrollWidth <= innerWidth), `${what} is not wider than a phone`);
  await look('phone');
  await fits('the list');
  await page.getByRole('link', { name: 'Host', exact: true }).click();
  await page.getByRole('region', { name: 'Audit' }).waitFor();
  await look('phone-host');
  await fits('Host');
  await page.getByRole('link', { name: 'Boxes' }).click();
  await page.getByRole('heading', { name: 'Boxes' }).waitFor();
  await page.getByRole('link', { name: 'demo', exact: true }).click();
  for (const tab of await page.getByRole('tab').allInnerTexts()) {
    await page.getByRole('tab', { name: tab, exact: true }).click();
    await page.getByRole('tabpanel', { name: tab }).waitFor();
    await look(`phone-${tab.toLowerCase()}`);
    await fits(tab);
  }
  await page.getByRole('button', { name: 'Sign out' }).click();
  await page.getByLabel('Token').waitFor();
  await page.evaluate(source);
  await look('sign-in');
  for (const id of await daemon.boxes()) await daemon.ask('DELETE', `/v1/sandboxes/${id}`);
  for (const { id } of (await daemon.ask('GET', '/v1/backups')).backups) await daemon.ask('DELETE', `/v1/backups/${id}`);
  for (const { name } of (await daemon.ask('GET', '/v1/tokens')).tokens) await daemon.ask('DELETE', `/v1/tokens/${name}`);
  await daemon.ask('DELETE', '/v1/volumes/cache');
  await daemon.ask('DELETE', '/v1/secrets/bucket-keys');
  assert.deepEqual(found, []);
}

export const no_barriers_in_light = (t) => views(t, 'light');
export const no_barriers_in_dark = (t) => views(t, 'dark');
