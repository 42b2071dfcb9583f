// Files in the console: the editor, directories, uploads by drag and drop, previews, and files too large for an editor.
import assert from 'node:assert/strict';
import { mkdirSync, mkdtempSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import path from 'node:path';
import { answer, open, saved, shows } from './console-daemon.mjs';

export async function files(t) {
  const { page, daemon } = t;
  await daemon.box('files');
  await daemon.run('files', 'mkdir -p /workspace/src && echo "print(1)" > /workspace/src/a.py && echo hi > /workspace/a.txt');
  const tab = await open(t, 'files', 'Files');
  await tab.getByRole('treeitem', { name: 'src' }).click();
  await tab.getByRole('treeitem', { name: 'a.py' }).click();
  await shows(tab.locator('.cm-content'), 'print(1)');
  await daemon.write('files', '/workspace/live.txt', 'live');
  await tab.getByRole('treeitem', { name: 'live.txt' }).waitFor();
  await tab.locator('.cm-content').click();
  await page.keyboard.press('Control+a');
  await page.keyboard.insertText('print(2)\n');
  await tab.getByText('not saved').waitFor({ state: 'attached' });
  await page.keyboard.press('Control+s');
  await tab.getByText('not saved').waitFor({ state: 'detached' });
  assert.equal(await daemon.read('files', '/workspace/src/a.py'), 'print(2)\n');
  await page.keyboard.insertText('# mine\n');
  await daemon.write('files', '/workspace/src/a.py', '# theirs\n');
  await tab.getByText('changed in the box').waitFor();
  await tab.getByRole('button', { name: 'Save' }).click();
  await answer(page, 'Cancel');
  assert.equal(await daemon.read('files', '/workspace/src/a.py'), '# theirs\n');
  await tab.getByRole('button', { name: 'Save' }).click();
  await answer(page, 'Write over it');
  await tab.getByText('not saved').waitFor({ state: 'detached' });
  assert.equal(await daemon.read('files', '/workspace/src/a.py'), 'print(2)\n# mine\n');
  await page.getByLabel('Files to upload').setInputFiles([{ name: 'up load.bin', mimeType: 'application/octet-stream', buffer: Buffer.from([0, 1, 255]) }]);
  await tab.getByRole('treeitem', { name: 'up load.bin' }).click();
  await shows(tab, 'is no text');
  const coming = page.waitForEvent('download');
  await tab.getByRole('button', { name: 'Download', exact: true }).click();
  assert.deepEqual([...await saved(await coming)], [0, 1, 255]);
  await tab.getByRole('button', { name: 'Move' }).click();
  await page.getByLabel('New path').fill('/workspace/moved.bin');
  await answer(page, 'OK');
  await tab.getByRole('treeitem', { name: 'moved.bin' }).click();
  await shows(tab, 'moved.bin is no text');
  await tab.getByRole('button', { name: 'Delete' }).click();
  await answer(page, 'Delete');
  await tab.getByRole('treeitem', { name: 'moved.bin' }).waitFor({ state: 'detached' });
}

/** What is in a tree beside files and directories, and files that go while they are open. */
export async function odd_files(t) {
  const { page, daemon } = t;
  await daemon.box('odd');
  await daemon.run('odd', `cd /workspace && mkfifo pipe && python3 -c 'import socket; socket.socket(socket.AF_UNIX).bind("socket")' && ln -s nowhere broken && ln -s loop loop
    mkdir -p dir/deep && echo below > dir/deep/f && ln -s dir dirlink && echo text > kept.txt && ln -s kept.txt good && ln -s . self`);
  const tab = await open(t, 'odd', 'Files'), item = (name) => tab.getByRole('treeitem', { name, exact: true }), editor = tab.locator('.cm-content');
  for (const [name, why] of [['pipe', 'a pipe, a socket or a device'], ['socket', 'a pipe, a socket or a device'], ['broken', 'a link that leads nowhere'], ['loop', 'a link that leads nowhere']]) {
    await item(name).click();
    await shows(tab.getByRole('heading'), `${name} cannot be shown`);
    await shows(tab.locator('.empty'), why);
    assert.equal(await tab.getByRole('button', { name: 'Download' }).count(), 0);
  }
  await item('good').click();
  await shows(editor, 'text');
  await item('dirlink').click();
  await tab.getByRole('toolbar', { name: 'Actions for /workspace/dirlink' }).waitFor();
  await tab.getByRole('treeitem', { name: /dirlink/ }).getByRole('treeitem', { name: 'deep' }).click();
  await tab.getByRole('treeitem', { name: /dirlink/ }).getByRole('treeitem', { name: 'f', exact: true }).click();
  await shows(editor, 'below');
  await tab.getByRole('treeitem', { name: /dirlink/ }).first().click({ position: { x: 40, y: 8 } });
  await item('dirlink').click(); // closed and open again: the same link
  await tab.getByRole('button', { name: 'Delete' }).click();
  await answer(page, 'Delete');
  await tab.getByRole('treeitem', { name: /dirlink/ }).waitFor({ state: 'detached' });
  assert.equal(await daemon.read('odd', '/workspace/dir/deep/f'), 'below\n'); // the link alone went
  await item('kept.txt').click();
  await shows(editor, 'text');
  await editor.click();
  await page.keyboard.press('Control+Home');
  await page.keyboard.insertText('my ');
  await tab.getByText('not saved').waitFor({ state: 'attached' });
  await daemon.run('odd', 'rm /workspace/kept.txt');
  await tab.getByText('deleted in the box').waitFor();
  await shows(editor, 'my text');
  await tab.getByRole('button', { name: 'Save' }).click();
  await tab.getByText('deleted in the box').waitFor({ state: 'detached' });
  assert.equal(await daemon.read('odd', '/workspace/kept.txt'), 'my text\n');
  await daemon.run('odd', 'rm /workspace/kept.txt'); // saved: it can be put back all the same
  await tab.getByText('deleted in the box').waitFor();
  await tab.getByRole('button', { name: 'Save' }).click();
  await item('kept.txt').waitFor();
}

export async function directories(t) {
  const { page, daemon } = t;
  await daemon.box('dirs');
  await daemon.run('dirs', "mkdir -p '/workspace/my dir/deep' && echo inside > '/workspace/my dir/deep/f'");
  const tab = await open(t, 'dirs', 'Files');
  const all = page.waitForEvent('download');
  await tab.getByRole('button', { name: 'Download as tar' }).click();
  const whole = await all;
  assert.equal(whole.suggestedFilename(), 'workspace.tar');
  assert.ok((await saved(whole)).includes('workspace/my dir/deep/f'));
  await tab.getByRole('treeitem', { name: 'my dir' }).click();
  const part = page.waitForEvent('download');
  await tab.getByRole('button', { name: 'Download as tar' }).click();
  const bytes = await saved(await part);
  assert.ok(bytes.includes('my dir/deep/f') && bytes.includes('inside\n') && !bytes.includes('workspace/my dir'));
  await tab.getByRole('button', { name: 'New directory' }).click();
  await page.getByRole('textbox', { name: 'Path' }).fill('/workspace/my dir/new');
  await answer(page, 'OK');
  await tab.getByRole('treeitem', { name: 'new' }).waitFor();
  await tab.getByRole('button', { name: 'Move' }).click();
  await page.getByLabel('New path').fill('/workspace/renamed');
  await answer(page, 'OK');
  await tab.getByRole('treeitem', { name: 'renamed' }).click();
  await tab.getByRole('button', { name: 'Delete' }).click();
  await answer(page, 'Delete');
  await tab.getByRole('treeitem', { name: 'renamed' }).waitFor({ state: 'detached' });
  assert.equal((await daemon.run('dirs', 'ls /workspace')).stdout, '');
}

/** Drops files of this machine on an element, as a person does. */
async function drop(page, target, files) {
  const box = await target.boundingBox(), cdp = await page.context().newCDPSession(page);
  const at = { x: box.x + box.width / 2, y: box.y + Math.min(10, box.height / 2), data: { items: [], files, dragOperationsMask: 1 } };
  for (const type of ['dragEnter', 'dragOver', 'drop']) await cdp.send('Input.dispatchDragEvent', { type, ...at });
  await cdp.detach();
}

export async function drag_and_drop(t) {
  const { page, daemon } = t, here = mkdtempSync(path.join(tmpdir(), 'atoll-drop-'));
  try {
    mkdirSync(path.join(here, 'project/src'), { recursive: true });
    writeFileSync(path.join(here, 'project/src/main.py'), 'print("dropped")\n');
    writeFileSync(path.join(here, 'project/read me.txt'), 'text');
    writeFileSync(path.join(here, 'single.bin'), Buffer.alloc(300_000, 7));
    await daemon.box('drop');
    await daemon.run('drop', 'mkdir /workspace/into');
    const tab = await open(t, 'drop', 'Files');
    await drop(page, tab.getByRole('treeitem', { name: 'into' }), [path.join(here, 'project'), path.join(here, 'single.bin')]);
    await shows(page.locator('.notices'), '3 files are in /workspace/into');
    assert.equal(await daemon.read('drop', '/workspace/into/project/src/main.py'), 'print("dropped")\n');
    assert.equal((await daemon.run('drop', 'stat -c %s /workspace/into/single.bin')).stdout, '300000\n');
    // Held on its way, the progress can be seen, and cancelled.
    let go;
    const held = new Promise((resolve) => { go = resolve; });
    await page.route('**/api/file?path=*held*', async (route) => { await held; await route.abort().catch(() => {}); });
    t.pardoned.push(/ERR_|held/);
    await page.getByLabel('Files to upload').setInputFiles([{ name: 'held.bin', mimeType: 'x/y', buffer: Buffer.alloc(2048) }]);
    await tab.getByRole('progressbar', { name: 'Upload' }).waitFor();
    await shows(tab, 'Sending held.bin (1 of 1)');
    await shows(tab, '0 B of 2.0 KiB');
    await tab.getByRole('button', { name: 'Cancel' }).click();
    await tab.getByRole('progressbar').waitFor({ state: 'detached' });
    go();
    assert.equal((await daemon.run('drop', 'ls /workspace')).stdout, 'into\n');
  } finally {
    rmSync(here, { recursive: true });
  }
}

export async function previews_of_files(t) {
  const { page, daemon } = t;
  await daemon.box('shows');
  await daemon.run('shows', `cd /workspace && python3 -c "
import matplotlib; matplotlib.use('agg')
import matplotlib.pyplot as p
p.plot([1, 3, 2]); p.savefig('a.png'); p.savefig('b.pdf')" && printf 'name,n\\n"a, b",1\\n' > c.csv && printf '# Title\\n\\n* one\\n' > d.md && printf '<svg xmlns="http://www.w3.org/2000/svg" width="50" height="40"><rect width="50" height="40"/></svg>' > e.svg`);
  const tab = await open(t, 'shows', 'Files'), pick = (name) => tab.getByRole('treeitem', { name }).click();
  const width = (img) => img.evaluate((e) => e.decode().then(() => e.naturalWidth));
  await pick('a.png');
  assert.ok(await width(tab.getByRole('img', { name: 'a.png' })) > 300);
  await pick('c.csv');
  await tab.getByRole('cell', { name: 'a, b' }).waitFor();
  await tab.getByRole('button', { name: 'Edit' }).click();
  await shows(tab.locator('.cm-content'), 'name,n');
  await pick('d.md');
  await tab.getByRole('heading', { name: 'Title' }).waitFor();
  await pick('e.svg');
  assert.equal(await width(tab.getByRole('img', { name: 'e.svg' })), 50);
  await pick('b.pdf');
  const frame = tab.locator('iframe[title="b.pdf"]');
  await frame.waitFor();
  assert.match(await frame.getAttribute('src'), /^blob:/);
}

export async function large_files(t) {
  const { page, daemon } = t;
  await daemon.box('large');
  await daemon.run('large', 'seq -w 1 2000000 > /workspace/lines.txt && head -c 6000000 /dev/urandom > /workspace/noise.bin');
  const tab = await open(t, 'large', 'Files');
  let most = 0;
  page.on('response', (r) => { if (r.url().includes('/api/file')) most = Math.max(most, Number(r.headers()['content-length'] ?? 1e9)); });
  await tab.getByRole('treeitem', { name: 'lines.txt' }).click();
  await shows(tab.locator('pre.part'), '0000001');
  await shows(tab, 'Bytes 0 to 262,144 of 15 MiB');
  await tab.getByRole('button', { name: 'On', exact: true }).click();
  await shows(tab, 'Bytes 262,144 to 524,288');
  await shows(tab.locator('pre.part'), '0040000');
  await tab.getByRole('button', { name: 'End', exact: true }).click();
  await shows(tab.locator('pre.part'), '2000000');
  assert.ok(most <= 262144, `only parts travel, not ${most} bytes`);
  const coming = page.waitForEvent('download');
  await tab.getByRole('button', { name: 'Download', exact: true }).click();
  assert.equal((await saved(await coming)).length, 16_000_000);
  await tab.getByRole('treeitem', { name: 'noise.bin' }).click();
  await shows(tab, 'noise.bin is no text');
}

/** What somebody typed stays, the editor shows what the box has, and line ends are those of the file. */
export async function edits_are_kept(t) {
  const { page, daemon } = t, file = '/workspace/a.txt';
  await daemon.box('edits');
  await daemon.write('edits', file, 'first\n');
  await daemon.write('edits', '/workspace/dos.txt', 'one\r\ntwo\r\n');
  await daemon.write('edits', '/workspace/mixed.txt', 'one\r\ntwo\nthree\rfour\n');
  const tab = await open(t, 'edits', 'Files'), editor = tab.locator('.cm-content'), save = tab.getByRole('button', { name: 'Save' });
  const pick = async (name, text) => { await tab.getByRole('treeitem', { name, exact: true }).click(); await shows(editor, text); };
  const type = async (text) => { await editor.click(); await page.keyboard.press('Control+Home'); await page.keyboard.insertText(text); };
  const saves = async () => { await page.keyboard.press('Control+s'); await tab.getByText('not saved').waitFor({ state: 'detached' }); };
  await pick('a.txt', 'first');
  await type('mine ');
  await tab.getByText('not saved').waitFor({ state: 'attached' });
  await pick('a.txt', 'mine first');
  assert.ok(await save.isEnabled());
  await editor.click();
  await saves();
  assert.equal(await daemon.read('edits', file), 'mine first\n');
  // The box puts back what the editor has shown before: opened again, it is shown.
  await daemon.write('edits', file, 'first\n');
  await tab.getByText('changed in the box').waitFor();
  await pick('a.txt', /^first$/);
  await type('third ');
  await saves();
  assert.equal(await daemon.read('edits', file), 'third first\n');
  await pick('dos.txt', 'one');
  await type('zero');
  await page.keyboard.press('Enter');
  await saves();
  await pick('mixed.txt', 'one');
  await type('zero ');
  await saves();
  assert.equal(await daemon.read('edits', '/workspace/mixed.txt'), 'zero one\r\ntwo\nthree\rfour\n');
  assert.equal(await daemon.read('edits', '/workspace/dos.txt'), 'zero\r\none\r\ntwo\r\n');
}

export async function nothing_is_written_over_unasked(t) {
  const { page, daemon } = t, read = (name) => daemon.read('over', `/workspace/${name}`);
  await daemon.box('over');
  await daemon.run('over', 'cd /workspace && mkdir -p dir/deep && echo a > a.txt && echo b > b.txt && echo deep > dir/deep/c.txt');
  const tab = await open(t, 'over', 'Files'), press = (name) => tab.getByRole('button', { name, exact: true }).click();
  const put = (...names) => page.getByLabel('Files to upload').setInputFiles(names.map((name) => ({ name, mimeType: 'text/plain', buffer: Buffer.from('sent') })));
  await tab.getByRole('treeitem', { name: 'a.txt' }).waitFor();
  for (const [path, end] of [['/workspace/a.txt', 'Cancel'], ['dir/deep/c.txt', 'Write over it']]) {
    await press('New file');
    await page.getByRole('textbox', { name: 'Path' }).fill(path);
    await answer(page, 'OK');
    await shows(page.getByRole('dialog'), 'exists. Write over it?');
    await answer(page, end);
  }
  await daemon.run('over', 'until test ! -s /workspace/dir/deep/c.txt; do sleep 0.05; done');
  assert.equal(await read('a.txt'), 'a\n');
  await press('New file');
  await page.getByRole('textbox', { name: 'Path' }).fill('/workspace/new.txt');
  await answer(page, 'OK');
  await tab.getByRole('treeitem', { name: 'new.txt' }).click();
  await press('Move');
  await page.getByLabel('New path').fill('/workspace/b.txt');
  await answer(page, 'OK');
  await shows(page.getByRole('dialog'), 'b.txt exists. Write over it?');
  await answer(page, 'Cancel');
  assert.equal(await read('b.txt'), 'b\n');
  await put('a.txt', 'b.txt', 'c.txt');
  await shows(page.getByRole('dialog'), 'a.txt and 1 more exist. Write over them?');
  await answer(page, 'Cancel');
  await put('b.txt');
  await answer(page, 'Write over it');
  await shows(page.locator('.notices'), 'b.txt is in /workspace');
  assert.deepEqual([await read('a.txt'), await read('b.txt')], ['a\n', 'sent']);
  // A directory: what is in it counts.
  const here = mkdtempSync(path.join(tmpdir(), 'atoll-over-'));
  try {
    mkdirSync(path.join(here, 'dir/deep'), { recursive: true });
    for (const name of ['new', 'c.txt']) writeFileSync(path.join(here, 'dir/deep', name), 'dropped');
    await drop(page, tab.getByRole('treeitem', { name: 'b.txt' }), [path.join(here, 'dir')]);
    await shows(page.getByRole('dialog'), 'dir/deep/c.txt exists. Write over it?');
    await answer(page, 'Cancel');
    assert.equal((await daemon.run('over', 'ls /workspace/dir/deep')).stdout, 'c.txt\n');
  } finally {
    rmSync(here, { recursive: true });
  }
}
