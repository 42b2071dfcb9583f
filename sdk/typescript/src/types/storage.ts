/* Buckets, backups of directories, and tunnels. */

export type BucketProvider = 'r2' | 's3' | 'gcs';
export interface BucketCredentials {
  accessKeyId: string;
  secretAccessKey: string;
}
export interface RemoteMountBucketOptions {
  endpoint: string;
  provider?: BucketProvider;
  credentials?: BucketCredentials;
  readOnly?: boolean;
  s3fsOptions?: string[];
  prefix?: string;
  credentialProxy?: boolean;
}
export interface LocalMountBucketOptions {
  localBucket: true;
  prefix?: string;
  readOnly?: boolean;
}
export interface R2BindingMountBucketOptions {
  endpoint?: never;
  prefix?: string;
  readOnly?: boolean;
  s3fsOptions?: string[];
}
/** Atoll's own: the keys are a secret of the daemon (`aws`), and no key is in the sandbox. */
export interface SecretMountBucketOptions {
  endpoint: string;
  secret: string;
  prefix?: string;
  readOnly?: boolean;
}
export type MountBucketOptions =
  | SecretMountBucketOptions
  | RemoteMountBucketOptions
  | LocalMountBucketOptions
  | R2BindingMountBucketOptions;

export interface BackupCompressionOptions {
  format?: 'gzip' | 'lz4' | 'zstd';
  threads?: number;
}
export interface BackupOptions {
  dir: string;
  name?: string;
  ttl?: number;
  gitignore?: boolean;
  excludes?: string[];
  localBucket?: boolean;
  compression?: BackupCompressionOptions;
  multipart?: boolean;
}
export interface DirectoryBackup {
  readonly id: string;
  readonly dir: string;
  readonly localBucket?: boolean;
}
export interface RestoreBackupResult {
  success: boolean;
  dir: string;
  id: string;
}

export interface QuickTunnelInfo {
  id: string;
  port: number;
  url: string;
  hostname: string;
  createdAt: string;
  name?: never;
}
export interface NamedTunnelInfo {
  id: string;
  port: number;
  url: string;
  hostname: string;
  createdAt: string;
  name: string;
}
export type TunnelInfo = QuickTunnelInfo | NamedTunnelInfo;
export interface TunnelOptions {
  name?: string;
}
export interface TunnelsHandler {
  get(port: number, options?: TunnelOptions): Promise<TunnelInfo>;
  list(): Promise<TunnelInfo[]>;
  destroy(portOrInfo: number | TunnelInfo): Promise<void>;
}
