import { collectFile, parseSSEStream, streamFile } from '@cloudflare/sandbox';
import { assert, bytes, rejects, run, sh, until } from './util.mjs';

const read = async (stream) => new Uint8Array(await new Response(stream).arrayBuffer());

export default {
  async 'writeFile, readFile'(t) {
    const { sandbox } = t.box();
    const written = await sandbox.writeFile('/workspace/a.txt', 'grüße\n');
    assert.deepEqual([written.success, written.path], [true, '/workspace/a.txt']);
    const file = await sandbox.readFile('/workspace/a.txt');
    assert.deepEqual([file.content, file.path], ['grüße\n', '/workspace/a.txt']);
    await sandbox.writeFile('b.bin', btoa('\x00\xff\x80'), { encoding: 'base64' });
    assert.equal((await sandbox.readFile('/workspace/b.bin', { encoding: 'base64' })).content, btoa('\x00\xff\x80'));
    assert.equal((await run(sandbox, 'stat', '-c', '%s', 'b.bin')).stdout, '3\n');
    await rejects(sandbox.readFile('/none'), /FileNotFoundError|not found|No such file/);
    await rejects(sandbox.readFile('/workspace'), /directory/i);
    await rejects(sandbox.writeFile('/proc/none/x', 'y'), /./);
  },

  async 'writeFile, readFile: streams'(t) {
    const { sandbox } = t.box();
    const block = new Uint8Array(1 << 20).map((_, i) => i * 7);
    let left = 12;
    const stream = new ReadableStream({
      pull(controller) {
        if (left-- > 0) controller.enqueue(block.slice());
        else controller.close();
      },
    });
    const written = await sandbox.writeFile('/workspace/big', stream);
    assert.equal(written.bytesWritten, 12 << 20);
    const file = await sandbox.readFile('/workspace/big', { encoding: 'none' });
    assert.equal(file.size, 12 << 20);
    const back = await read(file.content);
    assert.equal(back.length, 12 << 20);
    assert.deepEqual(back.slice(5 << 20, (5 << 20) + 1000), block.slice(0, 1000));
  },

  async readFileStream(t) {
    const { sandbox } = t.box();
    await sandbox.writeFile('/workspace/t.txt', 'zeile\n'.repeat(20000));
    const { content, metadata } = await collectFile(await sandbox.readFileStream('/workspace/t.txt'));
    assert.deepEqual([content.length, metadata.isBinary], [120000, false]);
    let n = 0;
    for await (const chunk of streamFile(await sandbox.readFileStream('/workspace/t.txt'))) n += chunk.length;
    assert.equal(n, 120000);
    await rejects(collectFile(await sandbox.readFileStream('/none')), /not found|No such file/);
  },

  async 'mkdir, listFiles, exists, deleteFile, renameFile, moveFile'(t) {
    const { sandbox } = t.box();
    await sandbox.mkdir('/workspace/d/e', { recursive: true });
    await rejects(sandbox.mkdir('/workspace/x/y'), /./);
    await sandbox.writeFile('/workspace/d/one', '1');
    await sandbox.writeFile('/workspace/d/.hidden', '2');
    const list = await sandbox.listFiles('/workspace/d', { recursive: true, includeHidden: true });
    assert.deepEqual(list.files.map((f) => f.relativePath).sort(), ['.hidden', 'e', 'one']);
    assert.equal((await sandbox.listFiles('/workspace/d')).count, 2);
    await sandbox.renameFile('/workspace/d/one', '/workspace/d/two');
    await sandbox.moveFile('/workspace/d/two', '/workspace/d/e/three');
    assert.equal((await sandbox.exists('/workspace/d/e/three')).exists, true);
    await sandbox.deleteFile('/workspace/d/e/three');
    assert.equal((await sandbox.exists('/workspace/d/e/three')).exists, false);
    await rejects(sandbox.deleteFile('/none'), /not found|No such file/);
  },

  async watch(t) {
    const { sandbox } = t.box();
    await sandbox.mkdir('/workspace/w');
    const seen = [];
    const events = parseSSEStream(await sandbox.watch('/workspace/w', { include: ['*.txt'] }));
    const reader = (async () => {
      for await (const e of events) {
        seen.push(e);
        if (e.type === 'event') break;
      }
    })();
    await until('watching', () => seen[0]?.type === 'watching');
    await sh(sandbox, 'touch /workspace/w/no.log; echo 1 > /workspace/w/yes.txt');
    await reader;
    assert.match(seen.at(-1).path, /yes\.txt$/);
    await rejects(sandbox.watch('/none'), /./);
  },

  async checkChanges(t) {
    const { sandbox } = t.box();
    const first = await sandbox.checkChanges('/workspace');
    assert.ok(first.version);
    assert.equal((await sandbox.checkChanges('/workspace', { since: first.version })).status, 'unchanged');
    await sandbox.writeFile('/workspace/new', bytes('x').join(''));
    await until('the change', async () => (await sandbox.checkChanges('/workspace', { since: first.version })).status === 'changed');
  },

  async 'createWorkspaceArchive, extractWorkspaceArchive, cleanupWorkspaceArchive'(t) {
    const { sandbox } = t.box();
    await sh(sandbox, 'mkdir -p a/b skip; echo 1 > a/b/c; echo 2 > skip/x');
    const path = await sandbox.createWorkspaceArchive({ root: '/workspace', excludes: ['skip'] });
    await sh(sandbox, 'rm -rf /workspace/a');
    await sandbox.extractWorkspaceArchive({ root: '/workspace', archivePath: path });
    assert.equal((await run(sandbox, 'cat', 'a/b/c')).stdout, '1\n');
    assert.equal((await sandbox.exists(path)).exists, false);
    const other = await sandbox.createWorkspaceArchive();
    assert.match((await run(sandbox, 'tar', 'tf', other)).stdout, /skip\/x/);
    await sandbox.cleanupWorkspaceArchive(other);
    assert.equal((await sandbox.exists(other)).exists, false);
    await rejects(sandbox.cleanupWorkspaceArchive('/etc/passwd'), /argument/);
    await rejects(sandbox.extractWorkspaceArchive({ root: '/workspace', archivePath: '/tmp/sandbox-workspace-../x.tar' }), /argument/);
  },
};
