// The daemon, as the scenarios of the console use it beside the page: the API with the token, the command line; and the first steps
// of each scenario.
import assert from 'node:assert/strict';
import { execFileSync } from 'node:child_process';
import { readFileSync } from 'node:fs';

export class Daemon {
  constructor(env) {
    this.env = env;
    this.url = env.ATOLL_URL;
  }

  async ask(method, path, body) {
    const answer = await fetch(this.url + path, {
      method, headers: { Authorization: `Bearer ${this.env.ATOLL_TOKEN}`, 'Content-Type': 'application/json' }, body: body && JSON.stringify(body),
    });
    const text = await answer.text();
    assert.ok(answer.ok, `${method} ${path}: ${answer.status} ${text}`);
    return text ? JSON.parse(text) : {};
  }

  box(id, settings = {}) { return this.ask('PUT', `/v1/sandboxes/${id}`, settings); }
  async boxes() { return (await this.ask('GET', '/v1/sandboxes')).sandboxes.map((b) => b.id); }
  run(id, command) { return this.ask('POST', `/v1/sandboxes/${id}/api/execute`, { command }); }
  start(id, command) { return this.ask('POST', `/v1/sandboxes/${id}/api/process/start`, { command }); }
  async read(id, path) { return (await this.ask('POST', `/v1/sandboxes/${id}/api/read`, { path })).content; }
  write(id, path, content) { return this.ask('POST', `/v1/sandboxes/${id}/api/write`, { path, content }); }
  link() { return execFileSync(this.env.ATOLL_CLI, ['console', '--print'], { encoding: 'utf8' }).trim(); }

  kill() {
    const words = readFileSync(this.env.ATOLL_LOCK, 'utf8').split(/\s+/);
    process.kill(Number(words[words.indexOf('atolld') + 1]), 'SIGKILL');
  }
}

export const shows = (locator, text) => locator.filter({ hasText: text }).first().waitFor();
export const row = (page, name) => page.locator('tr', { has: (page.page?.() ?? page).getByRole('rowheader', { name }) });
export const answer = (page, action) => page.getByRole('dialog').getByRole('button', { name: action, exact: true }).click();

export async function saved(download) {
  const parts = [];
  for await (const part of await download.createReadStream()) parts.push(part);
  return Buffer.concat(parts);
}

export async function signIn({ page, daemon }) {
  await page.goto(daemon.link());
  await page.getByRole('heading', { name: 'Boxes' }).waitFor();
}

export async function open(t, id, tab) {
  await t.daemon.box(id);
  await signIn(t);
  await t.page.getByRole('link', { name: id, exact: true }).click();
  await t.page.getByRole('tab', { name: tab, exact: true }).click();
  await t.page.getByRole('tabpanel', { name: tab }).waitFor();
  return t.page.getByRole('tabpanel', { name: tab });
}
