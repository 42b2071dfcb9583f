/* Backups of directories, against a daemon. */
import {
  BackupCreateError,
  BackupExpiredError,
  BackupNotFoundError,
  BackupRestoreError,
  InvalidBackupConfigError,
} from 'atoll-sandbox';
import { expect, test } from 'vitest';
import { BadNetwork } from './support/bad-network.js';
import { box, daemon, failure } from './support/boxes.js';

type Box = ReturnType<typeof box>;

/** Runs a command that must succeed. */
async function sh(sandbox: Box, command: string): Promise<string> {
  const { exitCode, stdout, stderr } = await sandbox.exec(command);
  expect(exitCode, `${command}: ${stdout}${stderr}`).toBe(0);
  return stdout;
}

const dir = '/workspace/a b';
const project = (sandbox: Box) =>
  sh(
    sandbox,
    `mkdir -p '${dir}/src' '${dir}/build' '${dir}/empty'; cd '${dir}'; git init -q; echo build/ >.gitignore; echo one >'src/it is'; ln -s it\\ is src/link
     echo o >build/o; echo l >x.log; head -c 3000000 /dev/urandom >big; chmod 640 big; chmod 711 .; cd /`,
  );
const sum = (sandbox: Box, where = dir) =>
  sh(
    sandbox,
    `cd '${where}' && find . -path ./.git -prune -o -type f -print0 | sort -z | xargs -0 sha256sum; stat -c '%a %n' . big; readlink src/link`,
  );

/** A request that the SDK has no method for. */
async function ask(method: string, path: string, body?: object): Promise<any> {
  const { url, token } = daemon();
  const headers = { Authorization: `Bearer ${token}` };
  const response = await fetch(`${url}/v1/sandboxes${path}`, { method, headers, body: body && JSON.stringify(body) });
  const text = await response.text();
  expect(response.ok, `${method} ${path}: ${text}`).toBe(true);
  return JSON.parse(text);
}

/** No archive, no directory, no sandbox is left. */
async function nothingIsLeft(sandbox: Box): Promise<void> {
  expect(await sh(sandbox, 'ls -A /var/backups; ls -Ad /workspace/.restore-* 2>/dev/null || true')).toBe('');
  const { sandboxes } = await ask('GET', '');
  expect(sandboxes.filter(({ id }: { id: string }) => /^(backup|restore)-/.test(id))).toEqual([]);
}

test.sequential('a directory is kept and put back', async () => {
  const sandbox = box();
  await project(sandbox);
  const before = await sum(sandbox);
  const backup = await sandbox.createBackup({ dir, name: 'with a blank', ttl: 600 });
  expect(backup).toEqual({ id: expect.stringMatching(/^bak-/), dir });
  await sh(sandbox, `cd '${dir}' && rm -r src big && echo later >later && chmod 700 .`);
  const session = await sandbox.createSession({ cwd: dir });
  expect(await session.restoreBackup(backup)).toEqual({ success: true, dir, id: backup.id });
  // The files of the backup and no others; the directory is still the same one.
  expect(await sum(sandbox)).toBe(before);
  expect((await session.exec('ls -A')).stdout).toBe('.git\n.gitignore\nbig\nbuild\nempty\nsrc\nx.log\n');
  await sandbox.restoreBackup({ ...backup, dir: '/workspace/deep/er' });
  expect(await sum(sandbox, '/workspace/deep/er')).toBe(before);
  // It outlives its sandbox, and stays when the box stops.
  await sandbox.destroy();
  const other = box();
  await other.restoreBackup(backup);
  await ask('POST', `/${(await other.info())!.id}/stop`);
  expect(await sum(other)).toBe(before);
  await nothingIsLeft(other);
  await other.storage.deleteBackup(backup.id);
  expect(await failure(other.restoreBackup(backup))).toBeInstanceOf(BackupNotFoundError);
});

test.sequential('excludes, gitignore, compression', async () => {
  const sandbox = box();
  await project(sandbox);
  const backup = await sandbox.createBackup({
    dir,
    excludes: ['*.log', '**/big'],
    gitignore: true,
    compression: { format: 'zstd', threads: 1 },
    localBucket: true,
  });
  expect(backup.localBucket).toBe(true);
  await sandbox.restoreBackup({ ...backup, dir: '/workspace/less' });
  expect(await sh(sandbox, 'ls -A /workspace/less')).toBe('.git\n.gitignore\nempty\nsrc\n');
  await sandbox.storage.deleteBackup(backup.id);
});

test.sequential('what cannot be kept or put back says why and changes nothing', async () => {
  const sandbox = box();
  await project(sandbox);
  const before = await sum(sandbox);
  expect(await failure(sandbox.createBackup({ dir: '/workspace/none' }))).toBeInstanceOf(BackupCreateError);
  for (const wrong of [
    { dir: 'rel' },
    { dir: '/' },
    { dir: '/a/../b' },
    { dir, ttl: 0 },
    { dir, name: 'a\nb' },
    { dir, excludes: [1] },
  ])
    expect(await failure(sandbox.createBackup(wrong as { dir: string }))).toBeInstanceOf(InvalidBackupConfigError);
  expect((await failure(sandbox.createBackup({ dir, compression: { format: 'xz' as 'zstd' } }))).message).toMatch(
    /gzip, lz4 or zstd/,
  );
  expect(await failure(sandbox.restoreBackup({ id: 'bak-0000', dir }))).toBeInstanceOf(BackupNotFoundError);
  expect(await failure(sandbox.restoreBackup({ id: '../x', dir }))).toBeInstanceOf(InvalidBackupConfigError);
  const whole = await sandbox.storage.backup();
  expect((await failure(sandbox.restoreBackup({ id: whole.id, dir }))).message).toMatch(/whole sandbox/);
  const backup = await sandbox.createBackup({ dir });
  expect((await failure(sandbox.restoreBackup({ ...backup, dir: `${dir}/big` }))).message).toMatch(
    /is not a directory/,
  );
  expect(await failure(sandbox.restoreBackup({ ...backup, dir: `${dir}/big` }))).toBeInstanceOf(BackupRestoreError);
  // A disk that is full.
  await sh(sandbox, 'head -c 58M /dev/urandom >/tmp/fill');
  const { id } = (await sandbox.info())!;
  await ask('PUT', `/${id}`, { limits: { disk: 64 << 20 } });
  const full = await failure(sandbox.restoreBackup(backup));
  expect(full.message).toMatch(/Disk quota exceeded|No space left|NO_SPACE/i);
  await ask('PUT', `/${id}`, { limits: { disk: 1 << 30 } });
  expect(await sum(sandbox)).toBe(before);
  await nothingIsLeft(sandbox);
  const short = await sandbox.createBackup({ dir, ttl: 1 });
  await new Promise((done) => setTimeout(done, 1100));
  const over = await failure(sandbox.restoreBackup(short));
  expect(over instanceof BackupExpiredError || over instanceof BackupNotFoundError).toBe(true);
  for (const one of [backup, whole]) await sandbox.storage.deleteBackup(one.id);
});

test.sequential('a backup whose answer is lost is deleted', async () => {
  const network = await BadNetwork.start(() => ({}));
  try {
    const sandbox = box(undefined, { url: network.url, token: daemon().token });
    await project(sandbox);
    const all = async () => (await ask('GET', '/../backups')).backups.map(({ id }: { id: string }) => id);
    const before = await all();
    network.lose = /^POST \S+\/backup-\S+\/backups$/;
    await failure(sandbox.createBackup({ dir }));
    expect(network.lose).toBeUndefined();
    expect((await all()).filter((id: string) => !before.includes(id))).toEqual([]);
    await nothingIsLeft(sandbox);
  } finally {
    await network.close();
  }
});
