/** A bucket of S3 or of a server like it. */
export interface BucketEnv {
  /** Its name; empty: none. */
  BUCKET?: string;
  /** `https://s3.eu-central-1.amazonaws.com`, as the sandbox reaches it. */
  BUCKET_ENDPOINT?: string;
  /** Default `us-east-1`. */
  BUCKET_REGION?: string;
  BUCKET_KEY?: string;
  BUCKET_SECRET?: string;
}
/** As much of a sandbox as both packages have. */
interface Box {
  exec(command: string): Promise<{ success: boolean }>;
  mkdir(path: string, options: { recursive: boolean }): Promise<unknown>;
}

/** Makes a directory; with a bucket, `mount` mounts it there unless it is mounted. */
export async function workingDirectory(
  sandbox: Box,
  path: string,
  env: BucketEnv,
  mount: (bucket: string, endpoint: string) => Promise<unknown>,
): Promise<void> {
  if (!env.BUCKET) await sandbox.mkdir(path, { recursive: true });
  else if (!(await sandbox.exec(`mountpoint -q ${path}`)).success) await mount(env.BUCKET, env.BUCKET_ENDPOINT ?? '');
}
