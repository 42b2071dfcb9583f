/** The daemon's own API, for a Worker: upstream's class does not have all of it. */
export interface AtollEnv {
  ATOLL_URL: string;
  ATOLL_TOKEN: string;
}

export async function atoll<T>(env: AtollEnv, method: string, path: string, body?: object): Promise<T> {
  const response = await fetch(`${env.ATOLL_URL}/v1${path}`, {
    method,
    headers: { authorization: `Bearer ${env.ATOLL_TOKEN}` },
    body: body && JSON.stringify(body),
  });
  if (!response.ok) throw new Error(`${method} ${path}: ${await response.text()}`);
  return response.json() as Promise<T>;
}
