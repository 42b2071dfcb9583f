import type * as s from '../types/snapshots.js';
import type { Box } from './box.js';

const idOf = (one: string | s.Snapshot | s.BoxBackup): string => (typeof one === 'string' ? one : one.id);

/** Snapshots of a sandbox, and sandboxes made from it. */
export class StorageOf implements s.SandboxStorage {
  readonly #box: Box;

  constructor(box: Box) {
    this.#box = box;
  }

  snapshot(name?: string): Promise<s.Snapshot> {
    return this.#box.json('POST', '/snapshots', name === undefined ? {} : { name });
  }

  async snapshots(): Promise<s.Snapshot[]> {
    return (await this.#box.json<{ snapshots: s.Snapshot[] }>('GET', '/snapshots')).snapshots;
  }

  async deleteSnapshot(snapshot: string | s.Snapshot): Promise<void> {
    await this.#box.json('DELETE', `/snapshots/${encodeURIComponent(idOf(snapshot))}`);
  }

  async restore(snapshot: string | s.Snapshot): Promise<void> {
    await this.#box.json('POST', '/restore', { snapshot: idOf(snapshot) });
  }

  backup(options: s.BoxBackupOptions = {}): Promise<s.BoxBackup> {
    return this.#box.json('POST', '/backups', options);
  }

  async backups(): Promise<s.BoxBackup[]> {
    return (await this.#box.json<{ backups: s.BoxBackup[] }>('GET', '/backups')).backups;
  }

  async backupUsage(): Promise<s.BackupUsage> {
    return (await this.#box.json<{ usage: s.BackupUsage }>('GET', '/backups')).usage;
  }

  async deleteBackup(backup: string | s.BoxBackup): Promise<void> {
    await this.#box.json('DELETE', `/v1/backups/${encodeURIComponent(idOf(backup))}`);
  }

  async restoreFrom(backup: string | s.BoxBackup): Promise<void> {
    await this.#box.json('POST', '/restore', { backup: idOf(backup) });
  }

  diff(since: string | s.Snapshot): Promise<s.SnapshotDiff> {
    return this.#box.json('GET', `/diff?from=${encodeURIComponent(idOf(since))}`);
  }

  async fork(wanted: number | string[]): Promise<string[]> {
    const body = typeof wanted === 'number' ? { count: wanted } : { ids: wanted };
    const made = await this.#box.json<{ sandboxes: { id: string }[] }>('POST', '/fork', body);
    return made.sandboxes.map((one) => one.id);
  }

  async replace(from: s.FilesFrom): Promise<void> {
    await this.#box.json('POST', '/replace', { from });
  }

  createVolume(name: string, options: { size?: number } = {}): Promise<s.Volume> {
    return this.#box.json('POST', `/v1/volumes/${encodeURIComponent(name)}`, options);
  }

  async volumes(): Promise<s.Volume[]> {
    return (await this.#box.json<{ volumes: s.Volume[] }>('GET', '/v1/volumes')).volumes;
  }

  async deleteVolume(name: string): Promise<void> {
    await this.#box.json('DELETE', `/v1/volumes/${encodeURIComponent(name)}`);
  }

  async createFrom(from: s.FilesFrom): Promise<void> {
    await this.#box.json('PUT', '', { from });
  }
}
