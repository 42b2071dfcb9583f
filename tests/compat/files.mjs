// files, watches, git: through the unmodified client.
import { assert, events, eventsUntil, rejects } from './client.mjs';

const S = 'sandbox-default';

export async function write_and_read_text(box) {
  const w = await box.files.writeFile('/workspace/a/b/c.txt', 'grüße\n', S);
  assert.equal(w.success, true);
  assert.equal(w.path, '/workspace/a/b/c.txt');
  const r = await box.files.readFile('/workspace/a/b/c.txt', S);
  assert.equal(r.content, 'grüße\n');
  assert.equal(r.encoding, 'utf-8');
  assert.equal(r.isBinary, false);
  assert.equal(r.mimeType.split(';')[0], 'text/plain');
  assert.equal(r.size, Buffer.byteLength('grüße\n'));
}

export async function write_and_read_binary(box) {
  const bytes = Buffer.from(Array.from({ length: 256 }, (_, i) => i));
  await box.files.writeFile('/workspace/x.png', bytes.toString('base64'), S, { encoding: 'base64' });
  const r = await box.files.readFile('/workspace/x.png', S);
  assert.equal(r.encoding, 'base64');
  assert.equal(r.isBinary, true);
  assert.equal(r.mimeType, 'image/png');
  assert.deepEqual(Buffer.from(r.content, 'base64'), bytes);
  const error = await rejects(
    box.files.writeFile('/workspace/y', '!!!', S, { encoding: 'base64' }), 'VALIDATION_FAILED', 400);
  assert.ok(error);
}

export async function relative_paths_follow_the_session(box) {
  await box.commands.execute('mkdir -p /workspace/sub && cd /workspace/sub', S);
  await box.files.writeFile('rel.txt', 'x', S);
  assert.equal((await box.files.exists('/workspace/sub/rel.txt', S)).exists, true);
}

export async function odd_names(box) {
  for (const name of ['sp ace', "qu'o\"te", 'new\nline', 'ünï', '-dash', 'x'.repeat(255), '$HOME', '*']) {
    await box.files.writeFile(`/workspace/odd/${name}`, name, S);
    assert.equal((await box.files.readFile(`/workspace/odd/${name}`, S, { encoding: 'utf-8' })).content, name);
  }
  const list = await box.files.listFiles('/workspace/odd', S, {});
  assert.equal(list.count, 8);
}

export async function file_errors_have_upstreams_codes(box) {
  await rejects(box.files.readFile('/workspace/none', S), 'FILE_NOT_FOUND', 404);
  await rejects(box.files.readFile('/workspace', S), 'IS_DIRECTORY', 400);
  await rejects(box.files.deleteFile('/workspace', S), 'IS_DIRECTORY', 400);
  await rejects(box.files.deleteFile('/workspace/none', S), 'FILE_NOT_FOUND', 404);
  await rejects(box.files.listFiles('/workspace/none', S), 'FILE_NOT_FOUND', 404);
  await box.files.writeFile('/workspace/f', '1', S);
  await rejects(box.files.listFiles('/workspace/f', S), 'NOT_DIRECTORY', 400);
  await rejects(box.files.readFile('/workspace/' + 'y'.repeat(256), S), 'NAME_TOO_LONG', 400);
  await rejects(box.files.readFile('', S), 'VALIDATION_FAILED', 400);
}

export async function special_files_do_not_block(box) {
  await box.commands.execute('mkfifo /workspace/fifo; ln -s loop /workspace/loop', S);
  for (const path of ['/workspace/fifo', '/dev/zero', '/workspace/loop'])
    await assert.rejects(box.files.readFile(path, S), path);
}

export async function too_large_is_413(box) {
  await box.commands.execute('truncate -s 40M /workspace/big.txt', S);
  const error = await rejects(box.files.readFile('/workspace/big.txt', S), 'FILE_TOO_LARGE', 413);
  assert.equal(error.context.maxSize, 33554432);
}

export async function read_stream(box) {
  const content = 'ä'.repeat(100000);
  await box.files.writeFile('/workspace/s.txt', content, S);
  const all = await events(box.files.readFileStream('/workspace/s.txt', S));
  assert.equal(all[0].type, 'metadata');
  assert.equal(all[0].size, 200000);
  assert.equal(all.filter((e) => e.type === 'chunk').map((e) => e.data).join(''), content);
  assert.equal(all.at(-1).type, 'complete');
  assert.equal(all.at(-1).bytesRead, 200000);
  const missing = await events(box.files.readFileStream('/workspace/none', S));
  assert.equal(missing.at(-1).type, 'error');
}

export async function directories_rename_move_delete(box) {
  const m = await box.files.mkdir('/workspace/d/e', S, { recursive: true });
  assert.equal(m.recursive, true);
  await rejects(box.files.mkdir('/workspace/d/e', S), 'FILESYSTEM_ERROR', 500).catch(async () =>
    rejects(box.files.mkdir('/workspace/d/e', S), 'FILE_EXISTS', 409));
  await box.files.writeFile('/workspace/d/1', 'one', S);
  const r = await box.files.renameFile('/workspace/d/1', '/workspace/d/2', S);
  assert.equal(r.newPath, '/workspace/d/2');
  await box.files.moveFile('/workspace/d/2', '/dev/shm/2', S);
  assert.equal((await box.files.exists('/workspace/d/2', S)).exists, false);
  assert.equal((await box.files.readFile('/dev/shm/2', S, { encoding: 'utf-8' })).content, 'one');
  await box.files.deleteFile('/dev/shm/2', S);
  assert.equal((await box.files.exists('/dev/shm/2', S)).exists, false);
}

export async function list_files_has_every_field(box) {
  await box.commands.execute(
    'mkdir -p l/sub && cd l && echo hi > f && chmod 640 f && ln -s f link && touch .hidden sub/deep && mkfifo p', S);
  const list = await box.files.listFiles('/workspace/l', S, {});
  const by = Object.fromEntries(list.files.map((f) => [f.name, f]));
  assert.deepEqual(Object.keys(by).sort(), ['f', 'link', 'p', 'sub']);
  assert.equal(by.f.type, 'file');
  assert.equal(by.f.size, 3);
  assert.equal(by.f.mode, 'rw-r-----');
  assert.deepEqual(by.f.permissions, { readable: true, writable: true, executable: false });
  assert.equal(by.f.absolutePath, '/workspace/l/f');
  assert.equal(by.f.relativePath, 'f');
  assert.match(by.f.modifiedAt, /^\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d\.\d{3}Z$/);
  assert.equal(by.link.type, 'symlink');
  assert.equal(by.sub.type, 'directory');
  assert.equal(by.p.type, 'other');
  const deep = await box.files.listFiles('/workspace/l', S, { recursive: true, includeHidden: true });
  const names = deep.files.map((f) => f.relativePath).sort();
  assert.deepEqual(names, ['.hidden', 'f', 'link', 'p', 'sub', 'sub/deep']);
  assert.equal(deep.count, 6);
}

export async function watch_reports_changes(box) {
  await box.files.mkdir('/workspace/w', S);
  const stream = box.watch.watch({ path: '/workspace/w', recursive: true });
  const reading = eventsUntil(stream, (e) => e.type === 'event' && e.path.endsWith('/new/inner'));
  await stream;
  await box.commands.execute('cd /workspace/w && mkdir new && until [ -e new ]; do :; done; echo 1 > new/inner', S);
  const all = await reading;
  assert.equal(all[0].type, 'watching');
  assert.ok(all.some((e) => e.type === 'event' && e.eventType === 'create' && e.path === '/workspace/w/new' && e.isDirectory));
  await rejects(box.watch.checkChanges({ path: '/etc' }), 'PERMISSION_DENIED', 403);
}

export async function check_changes(box) {
  await box.files.mkdir('/workspace/c', S);
  const first = await box.watch.checkChanges({ path: '/workspace/c' });
  assert.equal(first.status, 'unchanged');
  await box.files.writeFile('/workspace/c/f', '1', S);
  const second = await box.watch.checkChanges({ path: '/workspace/c', since: first.version });
  assert.equal(second.status, 'changed');
  const third = await box.watch.checkChanges({ path: '/workspace/c', since: second.version });
  assert.equal(third.status, 'unchanged');
  const odd = await box.watch.checkChanges({ path: '/workspace/c', since: 'watch-99-1:5' });
  assert.equal(odd.status, 'resync');
}

const REPO = `set -e; export GIT_AUTHOR_NAME=a GIT_AUTHOR_EMAIL=a@b GIT_COMMITTER_NAME=a GIT_COMMITTER_EMAIL=a@b
mkdir -p /srv/git && cd /srv/git && git init -q --bare -b main demo.git && git clone -q demo.git /tmp/w 2>/dev/null
cd /tmp/w && git checkout -q -b main && echo 1 > README && git add . && git commit -qm one && git push -q origin main
git checkout -q -b dev && echo 2 > DEV && git add . && git commit -qm two && git push -q origin dev`;

export async function git_checkout_over_the_git_protocol(box) {
  const made = await box.commands.execute(REPO, '__DISABLE_SESSION__');
  assert.equal(made.exitCode, 0, made.stderr);
  const p = await box.processes.startProcess(
    'git daemon --base-path=/srv/git --export-all --listen=127.0.0.1 --port=9418 --reuseaddr', S);
  await events(box.ports.watchPort({ port: 9418, mode: 'tcp', processId: p.processId, interval: 100 }));
  const r = await box.git.checkout('git://127.0.0.1/demo.git', S, { branch: 'dev', depth: 1 });
  assert.equal(r.branch, 'dev');
  assert.equal(r.targetDir, '/workspace/demo');
  assert.equal((await box.files.exists('/workspace/demo/DEV', S)).exists, true);
  const plain = await box.git.checkout('git://127.0.0.1/demo.git', S, { targetDir: '/workspace/other' });
  assert.equal(plain.branch, 'main');
  await rejects(box.git.checkout('git://127.0.0.1/none.git', S), 'GIT_REPOSITORY_NOT_FOUND', 404);
  await rejects(
    box.git.checkout('git://127.0.0.1/demo.git', S, { branch: 'nope', targetDir: '/workspace/n' }),
    'GIT_BRANCH_NOT_FOUND', 404);
  const secret = await box.git
    .checkout('http://user:s3cret@127.0.0.1:1/x.git', S)
    .catch((e) => JSON.stringify(e.toJSON?.() ?? { m: e.message }));
  assert.doesNotMatch(String(secret), /s3cret/);
}
