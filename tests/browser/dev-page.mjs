// node dev-page.mjs URL: uses the page of examples/dev-environment as a person does. Prints what it sees.
import assert from 'node:assert/strict';
import { chromium } from 'playwright-core';

const browser = await chromium.launch({ executablePath: process.env.CHROMIUM, args: ['--no-sandbox'] });
try {
  const page = await browser.newPage();
  page.setDefaultTimeout(100_000);
  page.on('pageerror', (error) => console.log(`error of the page: ${error}`));
  await page.goto(process.argv[2]);
  await page.waitForFunction(() => document.getElementById('status').value === '/terminal done');
  assert.deepEqual(await page.locator('#file option').allTextContents(), ['package.json', 'server.js']);

  await page.click('#install');
  await page.waitForFunction(() => document.getElementById('status').value === '/install done');
  await page.click('#start');
  const preview = page.frameLocator('#preview');
  await preview.getByText('Hello from the sandbox').waitFor();
  console.log('preview: Hello from the sandbox');

  const source = await page.inputValue('#editor');
  await page.fill('#editor', source.replace('Hello from the sandbox', 'Changed in the page'));
  await page.click('#save');
  await preview.getByText('Changed in the page').waitFor();
  console.log('preview: Changed in the page');

  await page.click('#terminal');
  await page.keyboard.type('echo $((6 * 7)) in $PWD\n');
  await page.waitForFunction(() => /42 in \/workspace/.test(document.querySelector('.xterm-rows').textContent.replace(/\u00a0/g, ' ')));
  console.log('terminal: 42 in /workspace');
} catch (error) {
  for (const page of browser.contexts()[0].pages()) console.log(await page.locator('body').innerText());
  throw error;
} finally {
  await browser.close();
}
