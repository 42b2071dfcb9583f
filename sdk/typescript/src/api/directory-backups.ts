/*
 * Backups of one directory. The archive (squashfs) is made in the sandbox. A second sandbox, the keeper, gets the archive and nothing else, and the
 * daemon makes a backup of the keeper: so an archive has what every backup of Atoll has, its place in a directory or a bucket, its checksum that is
 * verified before anything is restored, and its end. The keeper lives for the call only.
 */
import { errorResponse } from '../errors/base.js';
import { BackupExpiredError, BackupRestoreError, InvalidBackupConfigError } from '../errors/other-errors.js';
import type { ExecResult } from '../types/commands.js';
import type { BoxBackup } from '../types/snapshots.js';
import type * as s from '../types/storage.js';
import type { Box } from './box.js';
import { noSession } from './commands.js';

/** The sandbox of a backup has this name, and the archive the same id. */
const keeperName = (id: string) => `backup-${id}`;
const keeperPattern = /^backup-([0-9a-f-]{36})$/;
const archiveOf = (id: string) => `/var/backups/${id}.sqsh`;
const fileOf = (path: string) => `/api/file?${new URLSearchParams({ path, sessionId: noSession })}`;
const nameMax = 256;
const ttlDefault = 259_200;
const quoted = (text: string) => `'${text.replaceAll("'", "'\\''")}'`;

/**
 * $1 directory, $2 archive. Everything is unpacked beside the directory first, so an archive that cannot be read and a disk that is full change nothing.
 * Then the old entries go and the new ones come by renames; the directory itself stays the same, for the shells that are in it.
 */
const RESTORE = `
dir=$1
command -v unsquashfs >/dev/null || { echo 'unsquashfs is not in this image' >&2; exit 127; }
[ ! -e "$dir" ] || [ -d "$dir" ] || { echo "$dir is not a directory" >&2; exit 1; }
mkdir -p -- "$(dirname -- "$dir")" && new=$(mktemp -d -- "$(dirname -- "$dir")/.restore-XXXXXX") || exit 1
trap 'rm -rf -- "$new"' EXIT
unsquashfs -no-progress -d "$new/files" "$2" >/dev/null || exit 1
mkdir -p -- "$dir" && mkdir -- "$new/old" || exit 1
if ! find "$dir" -mindepth 1 -maxdepth 1 -exec mv -t "$new/old" -- {} +; then
  find "$new/old" -mindepth 1 -maxdepth 1 -exec mv -t "$dir" -- {} +
  exit 1
fi
find "$new/files" -mindepth 1 -maxdepth 1 -exec mv -t "$dir" -- {} + &&
  chown --reference="$new/files" -- "$dir" && chmod --reference="$new/files" -- "$dir"
`;

function invalid(reason: string): InvalidBackupConfigError {
  return new InvalidBackupConfigError(errorResponse('INVALID_BACKUP_CONFIG', reason, { reason }, 400));
}

function checkDir(dir: unknown): void {
  if (typeof dir !== 'string' || !/^\/+[^/]/.test(dir) || /[\0\n]/.test(dir) || dir.split('/').includes('..'))
    throw invalid("dir must be an absolute path without '..', and not the root directory");
}

function check(options: s.BackupOptions): void {
  checkDir(options.dir);
  const { name, ttl = ttlDefault, excludes = [] } = options;
  // biome-ignore lint/suspicious/noControlCharactersInRegex: these are meant
  if (name !== undefined && (typeof name !== 'string' || name.length > nameMax || /[\x00-\x1f\x7f]/.test(name)))
    throw invalid(`name must be a string of at most ${nameMax} characters, without control characters`);
  if (typeof ttl !== 'number' || !(ttl > 0)) throw invalid('ttl must be a positive number of seconds');
  if (!Array.isArray(excludes) || !excludes.every((one) => typeof one === 'string'))
    throw invalid('excludes must be an array of strings');
}

export class DirectoryBackups {
  readonly #box: Box;

  constructor(box: Box) {
    this.#box = box;
  }

  async create(options: s.BackupOptions, sessionId: string): Promise<s.DirectoryBackup> {
    check(options);
    const { dir, name, gitignore, excludes, compression, localBucket, ttl = ttlDefault } = options;
    const id = crypto.randomUUID();
    const archivePath = archiveOf(id);
    const keeper = `/v1/sandboxes/${keeperName(id)}`;
    try {
      await this.#box.json('POST', '/api/backup/create', {
        dir,
        archivePath,
        gitignore,
        excludes,
        compression,
        sessionId,
      });
      await this.#box.json('PUT', keeper, { labels: { 'atoll.backup': 'directory' }, network: { mode: 'off' } });
      await this.#copy(this.#box.base, archivePath, keeper, archivePath);
      const wish = { ttl: Math.ceil(ttl), ...(name ? { name } : {}) };
      const backup = await this.#box.json<BoxBackup>('POST', `${keeper}/backups`, wish);
      return { id: backup.id, dir, ...(localBucket && { localBucket: true }) };
    } catch (error) {
      await this.#forget(keeper).catch(() => {});
      throw error;
    } finally {
      await Promise.allSettled([this.#destroy(keeper), this.#run(this.#box.base, `rm -f ${archivePath}`)]);
    }
  }

  async restore(backup: s.DirectoryBackup): Promise<s.RestoreBackupResult> {
    const { id, dir } = backup;
    checkDir(dir);
    if (typeof id !== 'string' || !/^[a-z0-9][a-z0-9-]{0,62}$/.test(id)) throw invalid('id must be the id of a backup');
    const archive = archiveOf(await this.#archiveIn(id));
    const keeper = `/v1/sandboxes/restore-${crypto.randomUUID()}`;
    const place = archiveOf(crypto.randomUUID());
    try {
      await this.#box.json('PUT', keeper, { from: { backup: id } });
      await this.#copy(keeper, archive, this.#box.base, place);
      const script = `bash -c ${quoted(RESTORE)} restore ${quoted(dir)} ${place}`;
      const done = await this.#run(this.#box.base, script);
      if (done.exitCode !== 0) throw restoreError(backup, done);
      return { success: true, dir, id };
    } finally {
      await Promise.allSettled([this.#destroy(keeper), this.#run(this.#box.base, `rm -f ${place}`)]);
    }
  }

  /** The id of the archive that a backup keeps. */
  async #archiveIn(id: string): Promise<string> {
    const known = await this.#box.json<BoxBackup>('GET', `/v1/backups/${id}`);
    const archive = keeperPattern.exec(known.sandbox)?.[1];
    if (!archive) throw invalid(`${id} is a backup of a whole sandbox: use storage.restoreFrom()`);
    if (known.expiresAt && Date.parse(known.expiresAt) <= Date.now()) {
      const message = `Backup ${id} has expired. Create a new backup.`;
      const context = { backupId: id, expiredAt: known.expiresAt };
      throw new BackupExpiredError(errorResponse('BACKUP_EXPIRED', message, context, 400));
    }
    return archive;
  }

  /** From one sandbox to another, through this client; what has arrived is compared with what was sent. */
  async #copy(from: string, path: string, to: string, target: string): Promise<void> {
    const source = await this.#box.send('GET', from + fileOf(path));
    await this.#run(to, 'mkdir -p /var/backups');
    const sent = await this.#box.send('PUT', to + fileOf(target), source.body ?? '');
    await sent.body?.cancel();
    const sums = await Promise.all([this.#run(from, `sha256sum <${path}`), this.#run(to, `sha256sum <${target}`)]);
    if (sums[0].exitCode !== 0 || sums[0].stdout !== sums[1].stdout)
      throw new Error(`the archive ${path} did not arrive whole: ${sums[1].stderr || 'its checksum is another one'}`);
  }

  /** Deletes the backup whose id did not arrive: it may be made, or in the making. */
  async #forget(keeper: string): Promise<void> {
    const { backups } = await this.#box.json<{ backups: BoxBackup[] }>('GET', `${keeper}/backups`);
    for (const { id } of backups) await (await this.#box.send('DELETE', `/v1/backups/${id}`)).body?.cancel();
  }

  #run(sandbox: string, command: string): Promise<ExecResult> {
    return this.#box.json('POST', `${sandbox}/api/execute`, { command, sessionId: noSession, cwd: '/' });
  }

  async #destroy(sandbox: string): Promise<void> {
    await (await this.#box.send('DELETE', sandbox)).body?.cancel();
  }
}

function restoreError({ id, dir }: s.DirectoryBackup, { stderr, exitCode }: ExecResult): BackupRestoreError {
  const lines = stderr.split('\n').filter((line) => line.trim());
  const full = lines.find((line) => /No space left on device|Disk quota exceeded/.test(line));
  const message = `Failed to restore ${dir}: ${full ?? lines.at(-1) ?? `exit code ${exitCode}`}`;
  const context = { dir, backupId: id, stderr, exitCode };
  return new BackupRestoreError(errorResponse('BACKUP_RESTORE_FAILED', message, context, 500));
}
