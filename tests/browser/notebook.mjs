// The notebook beyond its cells and outputs, which are in console.mjs: what runs can be stopped, and what others wrote is kept.
import assert from 'node:assert/strict';
import { open, shows } from './console-daemon.mjs';

async function put(tab, page, at, language, code) {
  await tab.getByLabel('Language').nth(at).selectOption(language);
  await tab.locator(`.cm-content[data-language=${language}]`).first().waitFor();
  await tab.locator('.cm-content').nth(at).click();
  await page.keyboard.insertText(code);
}

export async function notebook_is_controlled(t) {
  const { page } = t;
  const tab = await open(t, 'control', 'Notebook'), cells = tab.locator('.cm-content'), article = tab.getByRole('article');
  await cells.waitFor();
  await put(tab, page, 0, 'typescript', 'const n: number = 40; console.log("ts", n + 2)');
  await page.keyboard.press('Shift+Enter');
  await shows(tab.locator('.outputs pre'), 'ts 42');
  await put(tab, page, 1, 'python', 'from IPython.display import JSON\nJSON({"deep": {"er": [1, 2]}})');
  await page.keyboard.press('Shift+Enter');
  await shows(tab.locator('.outputs details summary'), 'deep');
  await put(tab, page, 2, 'python', 'import time\nprint("began", flush=True)\ntime.sleep(1000)');
  await page.keyboard.press('Shift+Enter');
  await shows(article.nth(2).locator('.outputs pre'), 'began');
  await put(tab, page, 3, 'python', 'print("last", 6*7)');
  await article.nth(2).getByRole('button', { name: 'Interrupt' }).click();
  await shows(article.nth(2).locator('.traceback'), 'Interrupted');
  // All of them, in order, up to one that is interrupted.
  await tab.getByRole('button', { name: 'Run all' }).click();
  await shows(article.nth(2).locator('.outputs pre'), 'began');
  await tab.getByRole('button', { name: 'Interrupt' }).first().click();
  await shows(article.nth(2).locator('.traceback'), 'Interrupted');
  assert.equal(await article.nth(3).locator('.outputs').count(), 0);
  await article.nth(3).getByRole('button', { name: 'Move up' }).click();
  await shows(article.nth(2).locator('.cm-content'), 'last');
  await article.nth(2).getByRole('button', { name: 'Run', exact: true }).click();
  await shows(article.nth(2).locator('.outputs pre'), 'last 42');
  await tab.getByRole('button', { name: 'Restart' }).click();
  await tab.locator('.outputs').first().waitFor({ state: 'detached' });
  await article.nth(2).getByRole('button', { name: 'Run', exact: true }).click();
  await shows(article.nth(2).locator('.outputs pre'), 'last 42');
  await shows(article.nth(2).locator('.count'), '[1]');
}

/** A notebook of another program: text cells, metadata and outputs that the console cannot show survive being opened and saved. */
export async function notebook_of_others(t) {
  const { page, daemon } = t;
  const book = {
    nbformat: 4, nbformat_minor: 5, metadata: { kernelspec: { name: 'python3', display_name: 'Python 3', language: 'python' }, author: 'somebody' },
    cells: [
      { id: 'aa', cell_type: 'markdown', metadata: { tags: ['intro'] }, source: ['# A title\n', 'and text'] },
      { id: 'bb', cell_type: 'raw', metadata: { format: 'text/x-rst' }, source: ['as it is'] },
      { id: 'cc', cell_type: 'code', metadata: { collapsed: true }, execution_count: 3, source: ['x = 6\n', 'print(x * 7)'], outputs: [
        { output_type: 'stream', name: 'stdout', text: ['42\n'] },
        { output_type: 'execute_result', execution_count: 3, metadata: { kept: 1 }, data: { 'application/vnd.other+json': { a: 1 }, 'text/plain': ['shown as text'] } }] },
    ],
  };
  await daemon.box('others');
  await daemon.write('others', '/workspace/theirs.ipynb', JSON.stringify(book));
  const tab = await open(t, 'others', 'Notebook');
  await tab.locator('.cm-content').waitFor();
  await tab.getByLabel('Path of the notebook').fill('/workspace/theirs.ipynb');
  await tab.getByRole('button', { name: 'Open' }).click();
  await tab.locator('.outputs').getByRole('heading', { name: 'A title' }).waitFor();
  await shows(tab.locator('.outputs pre'), 'shown as text');
  await tab.locator('.cm-content').first().click();
  await page.keyboard.press('Control+End');
  await page.keyboard.insertText(', more of it');
  await page.keyboard.press('Control+Enter');
  await shows(tab.locator('.outputs'), 'more of it');
  await tab.getByRole('button', { name: 'Save' }).click();
  await shows(page.locator('.notices'), 'is saved');
  const now = JSON.parse(await daemon.read('others', '/workspace/theirs.ipynb'));
  book.cells[0].source[1] += ', more of it';
  book.cells[2].metadata.language = 'python';
  assert.deepEqual(now, book);
}
