/* Buckets that are mounted in a sandbox with s3fs. */
import { InvalidMountConfigError, MissingCredentialsError, S3FSMountError } from '../errors/plain-errors.js';
import type { ExecResult } from '../types/commands.js';
import type * as s from '../types/storage.js';
import type { Box } from './box.js';
import { noSession } from './commands.js';

const quoted = (text: string) => `'${text.replaceAll("'", "'\\''")}'`;

/** s3fs gets this long to say yes or no. */
const mountMs = 60_000;

/** Options of s3fs that are given by the other arguments. */
const ours = new Set(['passwd_file', 'url', 'ro']);

/**
 * $1 bucket, $2 path, $3 key file, $4 options. s3fs looks for the bucket after it has mounted, and as a daemon it would tell nobody: it runs in the
 * foreground of a process of its own, and the first question to the mount waits for its answer.
 */
const MOUNT = `
command -v s3fs >/dev/null || { echo 's3fs is not in this image' >&2; exit 127; }
! mountpoint -q "$2" || { echo "$2 is a mount point already" >&2; exit 1; }
made=; [ -d "$2" ] || { mkdir -p "$2" || exit; made=1; }
log=$(mktemp) || exit
setsid s3fs "$1" "$2" -f -o "passwd_file=$3" -o "$4" </dev/null >"$log" 2>&1 &
pid=$!
until mountpoint -q "$2"; do kill -0 $pid 2>/dev/null || break; sleep 0.02; done
if stat "$2/." >/dev/null 2>&1 && kill -0 $pid 2>/dev/null && mountpoint -q "$2"; then rm -f "$log"; exit 0; fi
for _ in $(seq 500); do kill -0 $pid 2>/dev/null || break; sleep 0.02; done
kill $pid 2>/dev/null; wait $pid
grep -v '\\[INF\\]' "$log" | sed 's/^[0-9TZ:.-]* \\[[A-Z]*\\] *//; s/^[a-z0-9_.]*:[A-Za-z0-9_]*([0-9]*): //' | tail -n 3 >&2
rm -f "$log"
[ -z "$made" ] || rmdir "$2"
exit 1
`;

interface Remote extends s.RemoteMountBucketOptions {
  secret?: string;
}

function endpointOf(options: { endpoint?: string }): URL {
  try {
    const url = new URL(options.endpoint ?? '');
    if (url.protocol === 'https:' || url.protocol === 'http:') return url;
  } catch {
    // Reported below.
  }
  throw new InvalidMountConfigError(
    `Invalid endpoint URL: "${options.endpoint}". Outside of a Worker a bucket needs the https:// address of its store: there are no bindings.`,
  );
}

function providerOf(url: URL, options: Remote): s.BucketProvider | undefined {
  if (options.provider) return options.provider;
  if (url.hostname.endsWith('.r2.cloudflarestorage.com')) return 'r2';
  if (url.hostname.endsWith('.amazonaws.com')) return 's3';
  return url.hostname === 'storage.googleapis.com' ? 'gcs' : undefined;
}

function regionOf(url: URL, provider: s.BucketProvider | undefined): string {
  if (provider === 'r2' || provider === 'gcs') return 'auto';
  return /^s3[.-]([a-z0-9-]+)\.amazonaws\.com$/.exec(url.hostname)?.[1] ?? 'us-east-1';
}

/** A name for what belongs to one mount of one sandbox, so that any client finds it again. */
async function tagOf(box: Box, path: string): Promise<string> {
  const bytes = new TextEncoder().encode(`${box.id}\n${path}`);
  const digest = new Uint8Array(await crypto.subtle.digest('SHA-256', bytes));
  return Array.from(digest.subarray(0, 12), (byte) => byte.toString(16).padStart(2, '0')).join('');
}

function checked(bucket: string, path: string, options: Remote): URL {
  if (!/^[a-z0-9][a-z0-9.-]{1,61}[a-z0-9]$/.test(bucket))
    throw new InvalidMountConfigError(`Invalid bucket name: "${bucket}".`);
  if (!/^\/[^\0\n]*$/.test(path))
    throw new InvalidMountConfigError(`Mount path must be absolute (start with /): "${path}"`);
  if (options.prefix !== undefined && !options.prefix.startsWith('/'))
    throw new InvalidMountConfigError(`Prefix must start with '/': "${options.prefix}"`);
  const wrong = options.s3fsOptions?.find((one) => ours.has(one.split('=')[0]!) || /[,\0\n]/.test(one));
  if (wrong !== undefined) throw new InvalidMountConfigError(`s3fs option "${wrong}" cannot be given here`);
  return endpointOf(options);
}

export class Buckets {
  readonly #box: Box;

  constructor(box: Box) {
    this.#box = box;
  }

  async mount(bucket: string, path: string, given: s.MountBucketOptions): Promise<void> {
    const options = given as Remote;
    if (options.secret !== undefined) return this.#signed(bucket, path, options.secret, options);
    const url = checked(bucket, path, options);
    if (!options.credentials?.accessKeyId || !options.credentials.secretAccessKey)
      throw new MissingCredentialsError('Give credentials { accessKeyId, secretAccessKey }, or the name of a secret.');
    if (options.credentialProxy) return this.#withSecret(bucket, path, url, options);
    return this.#withKeys(bucket, path, url, options);
  }

  async unmount(path: string): Promise<void> {
    try {
      await this.#box.json('DELETE', `/mounts?path=${encodeURIComponent(path)}`);
    } catch (error) {
      if ((error as { httpStatus?: number }).httpStatus !== 404) throw error;
      return this.#unmountOwn(path);
    }
    await this.#forget(path);
  }

  /** Keys that the daemon has: the sandbox has a placeholder, and the gate signs. */
  async #signed(bucket: string, path: string, secret: string, { endpoint, prefix, readOnly }: Remote): Promise<void> {
    await this.#box.json('POST', '/mounts', { bucket, path, endpoint, prefix, readOnly, secret });
  }

  async #withSecret(bucket: string, path: string, url: URL, options: Remote): Promise<void> {
    if (url.protocol !== 'https:') throw new InvalidMountConfigError('credentialProxy needs an https:// endpoint');
    if (options.s3fsOptions?.length) throw new InvalidMountConfigError('credentialProxy takes no s3fsOptions');
    const name = `bucket-${await tagOf(this.#box, path)}`;
    const { accessKeyId, secretAccessKey } = options.credentials!;
    const aws = { accessKeyId, region: regionOf(url, providerOf(url, options)), service: 's3' };
    await this.#box.json('PUT', `/v1/secrets/${name}`, { value: secretAccessKey, hosts: [url.host], aws });
    try {
      await this.#signed(bucket, path, name, { ...options, endpoint: url.origin });
    } catch (error) {
      await this.#forget(path).catch(() => {});
      await this.#box.json('DELETE', `/v1/secrets/${name}`).catch(() => {});
      throw error;
    }
  }

  /** Takes the secret of a mount away, if it has one of its own: from the sandbox, whose list would name what is not there, then from the daemon. */
  async #forget(path: string): Promise<void> {
    const name = `bucket-${await tagOf(this.#box, path)}`;
    const { secrets = [] } = await this.#box.json<{ secrets?: string[] }>('GET', '');
    if (!secrets.includes(name)) return;
    await this.#box.json('PUT', '', { secrets: secrets.filter((one) => one !== name) });
    await this.#box.json('DELETE', `/v1/secrets/${name}`);
  }

  /** As upstream: the keys lie in a file of the sandbox, for root alone, as long as the bucket is mounted. */
  async #withKeys(bucket: string, path: string, url: URL, options: Remote): Promise<void> {
    const { accessKeyId, secretAccessKey } = options.credentials!;
    const keys = `/tmp/.passwd-s3fs-${await tagOf(this.#box, path)}`;
    const style = providerOf(url, options) ? [] : ['use_path_request_style'];
    const more = providerOf(url, options) === 'r2' ? ['nomixupload'] : style;
    const flags = [
      `url=${url.origin}`,
      ...more,
      'allow_other',
      ...(options.readOnly ? ['ro'] : []),
      ...(options.s3fsOptions ?? []),
    ];
    const source = options.prefix ? `${bucket}:${options.prefix}` : bucket;
    const taken = await this.#run(`umask 077; set -C; : >${keys}`);
    if (taken.exitCode !== 0)
      throw new InvalidMountConfigError(`Mount path "${path}" is already in use. Unmount it first.`);
    const content = `${bucket}:${accessKeyId}:${secretAccessKey}`;
    const words = [source, path, keys, flags.join(',')].map(quoted).join(' ');
    try {
      await this.#box.json('POST', '/api/write', { path: keys, content, sessionId: noSession });
      const done = await this.#run(`chmod 600 ${keys} && bash -c ${quoted(MOUNT)} mount ${words}`);
      if (done.exitCode !== 0)
        throw new S3FSMountError(`S3FS mount failed: ${done.stderr.trim() || 's3fs gave no reason in time'}`);
    } catch (error) {
      await this.#run(`rm -f ${keys}`).catch(() => {});
      throw error;
    }
  }

  async #unmountOwn(path: string): Promise<void> {
    const keys = `/tmp/.passwd-s3fs-${await tagOf(this.#box, path)}`;
    if ((await this.#run(`findmnt -t fuse.s3fs -M ${quoted(path)} >/dev/null`)).exitCode !== 0)
      throw new InvalidMountConfigError(`No active mount found at path: ${path}`);
    const done = await this.#run(
      `fusermount3 -u ${quoted(path)} && rm -f ${keys}; rc=$?; rmdir ${quoted(path)} 2>/dev/null; exit $rc`,
    );
    if (done.exitCode !== 0) throw new S3FSMountError(`Unmounting ${path} failed: ${done.stderr.trim()}`);
  }

  #run(command: string): Promise<ExecResult> {
    return this.#box.json('POST', '/api/execute', { command, sessionId: noSession, cwd: '/', timeoutMs: mountMs });
  }
}
