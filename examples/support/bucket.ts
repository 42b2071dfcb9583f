import type { ISandbox } from '@cloudflare/sandbox';

/** A bucket of S3 or of a server like it. */
export interface BucketEnv {
  /** Its name; empty: none. */
  BUCKET?: string;
  /** `https://s3.eu-central-1.amazonaws.com`, as the sandbox reaches it. */
  BUCKET_ENDPOINT?: string;
  BUCKET_KEY?: string;
  BUCKET_SECRET?: string;
}
type Box = Pick<ISandbox, 'exec' | 'mkdir' | 'writeFile'>;

/** Makes a directory, and mounts the bucket there unless it is mounted: s3fs runs in the sandbox, which allows FUSE. */
export async function workingDirectory(sandbox: Box, path: string, env: BucketEnv): Promise<void> {
  await sandbox.mkdir(path, { recursive: true });
  if (!env.BUCKET || (await sandbox.exec(`mountpoint -q ${path}`)).success) return;
  await sandbox.writeFile('/root/.passwd-s3fs', `${env.BUCKET_KEY}:${env.BUCKET_SECRET}\n`);
  const options = `url=${env.BUCKET_ENDPOINT},use_path_request_style,enable_noobj_cache`;
  const mounted = await sandbox.exec(
    `chmod 600 /root/.passwd-s3fs && s3fs ${env.BUCKET} ${path} -o ${options} && ls ${path}`,
  );
  if (!mounted.success) throw new Error(`the bucket cannot be mounted: ${mounted.stderr}`);
}
