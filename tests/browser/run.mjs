// Runs one scenario of scenarios.mjs or domain.mjs: node run.mjs NAME. `--list` prints the names of the former, `--list console`
// those of the console (console.mjs, files.mjs, host.mjs, notebook.mjs, storage.mjs, attacks.mjs, axe.mjs); `--serve` starts the browser, prints its address and ends with its input.
// ATOLL_URL and ATOLL_TOKEN name the daemon, ATOLL_BOX the box that has the apps, BROWSER the address, SHOTS where
// pictures go.
import assert from 'node:assert/strict';
import { chromium } from 'playwright-core';
import * as attacks from './attacks.mjs';
import * as axe from './axe.mjs';
import { Box } from './box.mjs';
import { Daemon } from './console-daemon.mjs';
import * as views from './console.mjs';
import * as domain from './domain.mjs';
import * as files from './files.mjs';
import * as host from './host.mjs';
import * as notebook from './notebook.mjs';
import * as scenarios from './scenarios.mjs';
import * as storage from './storage.mjs';

async function serve() {
  const args = ['--no-sandbox', '--host-resolver-rules=MAP *.previews.test 127.0.0.1, MAP rebound.test 127.0.0.1'];
  const server = await chromium.launchServer({ executablePath: process.env.CHROMIUM, args, host: '127.0.0.1' });
  console.log(server.wsEndpoint());
  process.stdin.resume();
  await new Promise((resolve) => process.stdin.on('end', resolve));
  await server.close();
}

async function run(scenario) {
  const browser = await chromium.connect(process.env.BROWSER);
  const context = await browser.newContext();
  context.setDefaultTimeout(60_000);
  const page = await context.newPage();
  const said = [];
  page.on('console', (message) => message.type() === 'error' && said.push(message.text()));
  page.on('pageerror', (error) => said.push(String(error)));
  try {
    await scenario({
      box: new Box(process.env), page, said, shot: (as) => page.screenshot({ path: `${process.env.SHOTS}/${as}.png` }),
    });
  } finally {
    await browser.close();
  }
}

/** A scenario of the console: it fails also when the page complains or one of its requests fails. */
async function runConsole(scenario) {
  const browser = await chromium.connect(process.env.BROWSER);
  const context = await browser.newContext({ viewport: { width: 1280, height: 800 } });
  context.setDefaultTimeout(60_000);
  const said = [], pardoned = [];
  context.on('console', (message) => ['error', 'warning'].includes(message.type()) && said.push(`${message.text()} ${message.location().url}`));
  context.on('weberror', (error) => said.push(String(error.error())));
  context.on('response', (answer) => answer.status() >= 400 && said.push(`${answer.status()} ${answer.url()}`));
  const page = await context.newPage();
  const shot = (as) => page.screenshot({ path: `${process.env.SHOTS}/${as}.png` });
  try {
    await scenario({ page, pardoned, shot, daemon: new Daemon(process.env) });
    assert.deepEqual(said.filter((line) => !pardoned.some((p) => p.test(line))), [], 'the page complains of nothing');
  } catch (error) {
    await shot('failed');
    error.message += `\nthe page said: ${said.join('\n')}`;
    throw error;
  } finally {
    await browser.close();
  }
}

const name = process.argv[2], ofConsole = { ...views, ...files, ...host, ...notebook, ...storage, ...attacks, ...axe };
if (name === '--list') console.log(Object.keys(process.argv[3] === 'console' ? ofConsole : scenarios).join('\n'));
else if (name === '--serve') await serve();
else if (name in ofConsole) await runConsole(ofConsole[name]);
else await run({ ...scenarios, ...domain }[name]);
process.exit(0);
