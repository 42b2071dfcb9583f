/** The files of a sandbox at one moment. */
export interface Snapshot {
  id: string;
  sandbox: string;
  name: string | null;
  /** Bytes that the sandbox used then. */
  size: number;
  image: string;
  createdAt: string;
}

/** Paths that changed since a snapshot. */
export interface SnapshotDiff {
  added: string[];
  changed: string[];
  deleted: string[];
  /** There are more changes than can be listed. */
  truncated: boolean;
}

/** A copy of a whole sandbox that outlives it. */
export interface BoxBackup {
  id: string;
  sandbox: string;
  name: string | null;
  state: 'making' | 'ready' | 'failed';
  /** The backup that it builds on; null: it is whole. */
  parent: string | null;
  image: string;
  /** Bytes that it takes where backups are kept. */
  size: number;
  /** Bytes of changed files; while it is made, those read so far. */
  bytes: number;
  scheduled: boolean;
  createdAt: string;
  expiresAt: string | null;
  error?: string;
}

/** What backups take where they are kept. Hidden ones were deleted while others build on them. */
export interface BackupUsage {
  bytes: number;
  hidden: number;
  hiddenBytes: number;
  /** What the backups of one sandbox may take; missing: any number. */
  allowed?: number;
}

export interface BoxBackupOptions {
  name?: string;
  /** Seconds until it is deleted. */
  ttl?: number;
}

/** Where files come from: a snapshot or a backup of any sandbox, or another sandbox at this moment. */
export type FilesFrom = { snapshot: string } | { sandbox: string } | { backup: string };

/** A directory with a size of its own that outlives sandboxes and that several share. */
export interface Volume {
  name: string;
  /** Bytes that it may hold. */
  size: number;
  /** Bytes that it holds; not in lists. */
  used?: number;
  /** Sandboxes that name it. */
  users: number;
  /** The ids of at most 100 of them; not in lists. */
  usedBy?: string[];
  createdAt: string;
}

/** Snapshots of a sandbox, and sandboxes made from it; volumes of the daemon. */
export interface SandboxStorage {
  /** Keeps the files of this moment. A running sandbox is frozen for some milliseconds; nothing in it ends. */
  snapshot(name?: string): Promise<Snapshot>;
  snapshots(): Promise<Snapshot[]>;
  deleteSnapshot(snapshot: string | Snapshot): Promise<void>;
  /** Copies the whole sandbox to where it outlives it, while it runs. */
  backup(options?: BoxBackupOptions): Promise<BoxBackup>;
  /** The backups of this id, oldest first, also those of an earlier sandbox. */
  backups(): Promise<BoxBackup[]>;
  /** What the backups of this id take, with hidden ones. */
  backupUsage(): Promise<BackupUsage>;
  deleteBackup(backup: string | BoxBackup): Promise<void>;
  /** Puts the files of a backup of any sandbox back. Processes end; the next call starts the sandbox. */
  restoreFrom(backup: string | BoxBackup): Promise<void>;
  /** Puts the files of a snapshot back. Processes end; the next call starts the sandbox. */
  restore(snapshot: string | Snapshot): Promise<void>;
  diff(since: string | Snapshot): Promise<SnapshotDiff>;
  /** Makes sandboxes with the files and settings of this one; resolves to their ids. */
  fork(wanted: number | string[]): Promise<string[]>;
  /** Makes the files of another sandbox, or of a snapshot, the files of this one. Processes end. */
  replace(from: FilesFrom): Promise<void>;
  /** Makes a volume of the daemon, or changes its size (bytes; 8 GiB by default). The option `volumes` of `getSandbox` gives it to a sandbox. */
  createVolume(name: string, options?: { size?: number }): Promise<Volume>;
  volumes(): Promise<Volume[]>;
  /** Deletes a volume that no sandbox names. */
  deleteVolume(name: string): Promise<void>;
  /** Makes this sandbox, which must not exist, from another one or from a snapshot. */
  createFrom(from: FilesFrom): Promise<void>;
}
