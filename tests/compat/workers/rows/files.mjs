import { collectFile, streamFile } from '@cloudflare/sandbox';
import { assert, eventsUntil, rejects } from './util.mjs';

export default {
  async writeFile(t) {
    const { sandbox } = t.box();
    const r = await sandbox.writeFile('/workspace/deep/er/f.txt', 'grüße\n');
    assert.deepEqual([r.success, r.path], [true, '/workspace/deep/er/f.txt']);
    await sandbox.writeFile('/workspace/b.bin', btoa('\x00\xff\x7f'), { encoding: 'base64' });
    assert.equal((await sandbox.exec('cat deep/er/f.txt; od -An -tx1 b.bin')).stdout, 'grüße\n 00 ff 7f\n');
  },

  async readFile(t) {
    const { sandbox } = t.box();
    const content = 'ä'.repeat(1_000_000);
    await sandbox.writeFile('/workspace/big.txt', content);
    const r = await sandbox.readFile('/workspace/big.txt');
    assert.equal(r.content, content);
    assert.deepEqual([r.encoding, r.isBinary, r.mimeType, r.size], ['utf-8', false, 'text/plain', 2_000_000]);
    await sandbox.exec("printf '\\000\\377' > /workspace/b.bin");
    const b = await sandbox.readFile('/workspace/b.bin', { encoding: 'base64' });
    assert.deepEqual([b.content, b.encoding], ['AP8=', 'base64']);
  },

  async 'readFileStream, streamFile, collectFile'(t) {
    const { sandbox } = t.box();
    await sandbox.exec('head -c 300000 /dev/zero | tr "\\0" x > /workspace/x.txt; head -c 200000 /dev/urandom > /workspace/r.bin');
    const { content, metadata } = await collectFile(await sandbox.readFileStream('/workspace/x.txt'));
    assert.equal(content, 'x'.repeat(300000));
    assert.equal(metadata.size, 300000);
    const sum = (await sandbox.exec('sha256sum r.bin')).stdout.split(' ')[0];
    const chunks = [];
    for await (const chunk of streamFile(await sandbox.readFileStream('/workspace/r.bin'))) chunks.push(chunk);
    assert.ok(chunks.length > 1);
    const digest = await crypto.subtle.digest('SHA-256', await new Blob(chunks).arrayBuffer());
    assert.equal(Buffer.from(digest).toString('hex'), sum);
  },

  async mkdir(t) {
    const { sandbox } = t.box();
    const r = await sandbox.mkdir('/workspace/a/b', { recursive: true });
    assert.deepEqual([r.success, r.recursive], [true, true]);
    await rejects(sandbox.mkdir('/workspace/x/y'), /FileNotFoundError|FileSystemError/);
  },

  async deleteFile(t) {
    const { sandbox } = t.box();
    await sandbox.writeFile('/workspace/f', '');
    assert.equal((await sandbox.deleteFile('/workspace/f')).success, true);
    await rejects(sandbox.deleteFile('/workspace/f'), /FileNotFoundError/);
    await rejects(sandbox.deleteFile('/workspace'), /FileSystemError/);
  },

  async renameFile(t) {
    const { sandbox } = t.box();
    await sandbox.writeFile('/workspace/a', '1');
    const r = await sandbox.renameFile('/workspace/a', '/workspace/b');
    assert.deepEqual([r.success, r.newPath], [true, '/workspace/b']);
    assert.equal((await sandbox.readFile('/workspace/b')).content, '1');
  },

  async moveFile(t) {
    const { sandbox } = t.box();
    await sandbox.writeFile('/workspace/a', '1');
    await sandbox.mkdir('/workspace/d');
    assert.equal((await sandbox.moveFile('/workspace/a', '/workspace/d/a')).success, true);
    assert.equal((await sandbox.readFile('/workspace/d/a')).content, '1');
  },

  async listFiles(t) {
    const { sandbox } = t.box();
    await sandbox.exec('mkdir -p d/e; echo hi > d/e/f; touch d/.hidden; chmod 755 d/e/f; ln -s f d/e/l');
    const names = async (o) => (await sandbox.listFiles('/workspace/d', o)).files.map((f) => f.relativePath).sort();
    assert.deepEqual(await names(), ['e']);
    assert.deepEqual(await names({ recursive: true, includeHidden: true }), ['.hidden', 'e', 'e/f', 'e/l']);
    const { files, count } = await sandbox.listFiles('/workspace/d/e');
    assert.equal(count, 2);
    const f = files.find((one) => one.name === 'f');
    assert.deepEqual([f.type, f.size, f.mode, f.permissions.executable], ['file', 3, 'rwxr-xr-x', true]);
    assert.ok(Date.parse(f.modifiedAt) > 0);
    assert.equal(files.find((one) => one.name === 'l').type, 'symlink');
  },

  async exists(t) {
    const { sandbox } = t.box();
    assert.equal((await sandbox.exists('/etc/passwd')).exists, true);
    assert.equal((await sandbox.exists('/nope')).exists, false);
  },

  async watch(t) {
    const { sandbox } = t.box();
    const stream = await sandbox.watch('/workspace', { include: ['*.txt'] });
    await sandbox.exec('touch no.bin yes.txt; rm yes.txt');
    const all = await eventsUntil(stream, (e) => e.type === 'event' && e.eventType === 'delete');
    assert.equal(all[0].type, 'watching');
    assert.ok(all.filter((e) => e.type === 'event').every((e) => e.path === '/workspace/yes.txt'));
  },

  async checkChanges(t) {
    const { sandbox } = t.box();
    const first = await sandbox.checkChanges('/workspace');
    assert.equal((await sandbox.checkChanges('/workspace', { since: first.version })).status, 'unchanged');
    await sandbox.writeFile('/workspace/f', '');
    assert.equal((await sandbox.checkChanges('/workspace', { since: first.version })).status, 'changed');
  },
};
