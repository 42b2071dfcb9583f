// The notebook beyond its cells and outputs, which are in console.mjs: what runs can be stopped, and what others wrote is kept.
import assert from 'node:assert/strict';
import { answer, open, shows } from './console-daemon.mjs';

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

/** What is in the box is written over, and what is only on the page is left, after a question alone. */
export async function notebook_asks_before_something_is_lost(t) {
  const { page, daemon } = t, file = '/workspace/notebook.ipynb';
  const book = (code) => JSON.stringify({ nbformat: 4, nbformat_minor: 5, metadata: {}, cells: [{ id: 'aa', cell_type: 'code', metadata: {}, execution_count: null, outputs: [], source: code }] });
  await daemon.box('careful');
  await daemon.write('careful', file, book('theirs = 1'));
  await daemon.write('careful', '/workspace/five.ipynb', '{"cells": 5}');
  await daemon.write('careful', '/workspace/words.ipynb', 'no JSON');
  const tab = await open(t, 'careful', 'Notebook'), cells = tab.locator('.cm-content'), press = (name) => tab.getByRole('button', { name, exact: true }).click();
  const says = (text) => shows(page.getByRole('dialog'), text), name = tab.getByLabel('Path of the notebook');
  const leaves = () => page.evaluate(() => dispatchEvent(new Event('beforeunload', { cancelable: true })));
  await cells.waitFor();
  assert.equal(await leaves(), true);
  await cells.click();
  await page.keyboard.insertText('mine = 1');
  await shows(cells, 'mine = 1');
  await page.waitForFunction(() => !dispatchEvent(new Event('beforeunload', { cancelable: true })));
  await press('Save');
  await says('notebook.ipynb exists. Write over it?');
  await answer(page, 'Cancel');
  assert.equal(await daemon.read('careful', file), book('theirs = 1'));
  for (const other of ['five', 'words']) {
    await name.fill(`/workspace/${other}.ipynb`);
    await press('Open');
    await answer(page, 'Open it');
    await shows(page.locator('.notices'), `/workspace/${other}.ipynb is not a notebook`);
  }
  await shows(cells, 'mine = 1');
  await name.fill(file);
  await press('Open');
  await answer(page, 'Open it');
  await shows(cells, 'theirs = 1');
  await page.waitForFunction(() => dispatchEvent(new Event('beforeunload', { cancelable: true })));
  // Nothing is lost: nothing is asked.
  await daemon.write('careful', file, book('theirs = 2'));
  await press('Open');
  await shows(cells, 'theirs = 2');
  await cells.click();
  await page.keyboard.press('Control+End');
  await page.keyboard.insertText('0');
  await press('Save');
  await shows(page.locator('.notices'), 'is saved');
  assert.equal(JSON.parse(await daemon.read('careful', file)).cells[0].source.join(''), 'theirs = 20');
  await page.waitForFunction(() => dispatchEvent(new Event('beforeunload', { cancelable: true })));
  await daemon.write('careful', file, book('theirs = 3'));
  await press('Save');
  await says('was changed in the box since it was opened. Write over it?');
  await answer(page, 'Write over it');
  await page.getByRole('dialog').waitFor({ state: 'detached' });
  await daemon.run('careful', `until grep -q 'theirs = 20' ${file}; do sleep 0.05; done`);
}

/** However much a cell prints, the page keeps a bounded part of it, says so, and answers meanwhile. */
export async function notebook_takes_a_flood(t) {
  const { page } = t, LINES = 60000, TEXT_KEPT = 200_000, OUTPUTS_KEPT = 500;
  const tab = await open(t, 'flood-book', 'Notebook'), article = tab.getByRole('article'), said = 'The first part of the output was left out.';
  const size = (cell) => cell.locator('.outputs').evaluate((o) => ({ nodes: o.querySelectorAll('*').length, text: o.textContent.length }));
  await tab.locator('.cm-content').click();
  await page.keyboard.insertText(`import sys\nfor i in range(${LINES}): print(i, flush=True)\nprint("err", file=sys.stderr)\nprint("end")`);
  await page.keyboard.press('Shift+Enter');
  await shows(article.nth(0).locator('.count'), '[1]');
  const [numbers, end] = await article.nth(0).locator('.outputs pre.stdout').allTextContents();
  assert.equal(numbers, `${[...Array(LINES).keys()].join('\n')}\n`.slice(-TEXT_KEPT));
  assert.equal(await article.nth(0).locator('.outputs pre.stderr').textContent(), 'err\n');
  assert.equal(end, 'end\n');
  await shows(article.nth(0).locator('.outputs'), said);
  assert.ok((await size(article.nth(0))).nodes < 10);
  // Outputs that do not join: results, and two streams in turn.
  await put(tab, page, 1, 'python', 'from IPython.display import display, HTML\nfor i in range(1000): display({"n": i})\nfor i in range(1000): print(i, file=[sys.stdout, sys.stderr][i % 2], flush=True)');
  await page.keyboard.press('Shift+Enter');
  await shows(article.nth(1).locator('.count'), '[2]');
  await shows(article.nth(1).locator('.outputs'), said);
  await shows(article.nth(1).locator('.outputs pre').last(), '999');
  assert.ok(await article.nth(1).locator('.outputs pre').count() <= OUTPUTS_KEPT);
  // One that never ends: while it runs, keys and clicks count.
  await put(tab, page, 2, 'python', 'while True: print("x" * 200, flush=True)');
  await page.keyboard.press('Control+Enter');
  await shows(article.nth(2).locator('.outputs'), said);
  await page.keyboard.press('Control+k');
  await page.getByRole('dialog').getByRole('combobox').fill('flood-book');
  await shows(page.getByRole('option'), 'flood-book');
  await page.keyboard.press('Escape');
  await page.getByRole('dialog').waitFor({ state: 'detached' });
  await shows(article.nth(2).locator('.count'), '[*]');
  const now = await size(article.nth(2));
  assert.ok(now.text < TEXT_KEPT + 1000 && now.nodes < 10, JSON.stringify(now));
  await article.nth(2).getByRole('button', { name: 'Interrupt' }).click();
  await shows(article.nth(2).locator('.traceback'), 'Interrupted');
}
