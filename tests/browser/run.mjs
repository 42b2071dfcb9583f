// Runs one scenario of scenarios.mjs or domain.mjs: node run.mjs NAME. `--list` prints the names of the former; `--serve` starts the browser, prints
// its address and ends with its input.
// ATOLL_URL and ATOLL_TOKEN name the daemon, ATOLL_BOX the box that has the apps, BROWSER the address, SHOTS where
// pictures go.
import { chromium } from 'playwright-core';
import { Box } from './box.mjs';
import * as domain from './domain.mjs';
import * as scenarios from './scenarios.mjs';

async function serve() {
  const args = ['--no-sandbox', '--host-resolver-rules=MAP *.previews.test 127.0.0.1'];
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

const name = process.argv[2];
if (name === '--list') console.log(Object.keys(scenarios).join('\n'));
else if (name === '--serve') await serve();
else await run({ ...scenarios, ...domain }[name]);
process.exit(0);
