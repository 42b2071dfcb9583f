// A remote R2 binding, as `"remote": true` in a wrangler.jsonc makes one: the same bucket that presigned URLs name. There is no Cloudflare here,
// so its methods are requests to the S3 server of the test.
import { AwsClient } from 'aws4fetch';

/** A signed request; null when there is no such object. */
export async function s3(env, method, url, body) {
  const client = new AwsClient({ accessKeyId: env.R2_ACCESS_KEY_ID, secretAccessKey: env.R2_SECRET_ACCESS_KEY, service: 's3', retries: 0 });
  const response = await client.fetch(url, { method, body });
  if (response.ok) return response;
  await response.body?.cancel();
  if (response.status === 404) return null;
  throw new Error(`${method} ${url}: HTTP ${response.status}`);
}

export function remoteBucket(env) {
  const ask = (method, key, body) => s3(env, method, `${env.BACKUP_BUCKET_ENDPOINT}/${env.BACKUP_BUCKET_NAME}/${key}`, body);
  return {
    async head(key) {
      const response = await ask('HEAD', key);
      return response && { key, size: Number(response.headers.get('Content-Length')) };
    },
    get: (key) => ask('GET', key),
    put: (key, body) => ask('PUT', key, body),
    delete: (key) => ask('DELETE', key),
    list: () => {
      throw new Error('the test lists nothing');
    },
  };
}
