/* Calls that Atoll would refuse do not compile. This file is compiled, and never run. */
import { getSandbox, getSecrets } from 'atoll-sandbox';

export async function refused(): Promise<void> {
  const sandbox = getSandbox(undefined, 'x');
  // @ts-expect-error ports are numbers
  await sandbox.exposePort('3000');
  // @ts-expect-error
  await sandbox.unexposePort('3000');
  // @ts-expect-error
  await sandbox.exposePort(3000, { hostName: 'example.com' });
  // @ts-expect-error milliseconds
  await sandbox.exec('x', { timeout: '5s' });
  // @ts-expect-error
  await sandbox.exec('x', { timeoutMs: 5 });
  // @ts-expect-error
  await sandbox.exec(['ls', '-l']);
  // @ts-expect-error
  await sandbox.exec('x', { env: { A: 1 } });
  // @ts-expect-error
  await sandbox.runCode('1', { language: 'ruby' });
  // @ts-expect-error
  await sandbox.createCodeContext({ language: 'ruby' });
  // @ts-expect-error
  await sandbox.writeFile('/f', { a: 1 });
  // @ts-expect-error
  await sandbox.readFile('/f', { encoding: 'latin1' });
  // @ts-expect-error
  await sandbox.gitCheckout('url', { dir: '/x' });
  // @ts-expect-error
  await sandbox.deleteSession(7);
  // @ts-expect-error
  await sandbox.storage.fork('one');
  // @ts-expect-error
  await sandbox.storage.replace({ id: 'x' });
  // @ts-expect-error
  await sandbox.storage.backup({ ttl: '1h' });
  // @ts-expect-error
  await sandbox.mountBucket('b', '/mnt', { secret: 's3' });
  // @ts-expect-error
  await getSecrets().put('s', { value: 'x' });
  // @ts-expect-error
  await getSecrets().put('s', { value: 'x', hosts: 'api.example.com' });
}

export const options = [
  // @ts-expect-error
  getSandbox(undefined, 7),
  // @ts-expect-error
  getSandbox('http://127.0.0.1:8700', 'x'),
  // @ts-expect-error
  getSandbox({ uri: 'x' }, 'x'),
  // @ts-expect-error
  getSandbox(undefined, 'x', { limits: { memory: '1g' } }),
  // @ts-expect-error
  getSandbox(undefined, 'x', { limits: { cpus: 1 } }),
  // @ts-expect-error
  getSandbox(undefined, 'x', { network: { mode: 'closed' } }),
  // @ts-expect-error
  getSandbox(undefined, 'x', { network: { rate: 1 } }),
  // @ts-expect-error
  getSandbox(undefined, 'x', { instance: 'huge' }),
  // @ts-expect-error
  getSandbox(undefined, 'x', { backup: { keep: 3 } }),
  // @ts-expect-error
  getSandbox(undefined, 'x', { backup: '1h' }),
  // @ts-expect-error
  getSandbox(undefined, 'x', { volumes: [{ name: 'v' }] }),
  // @ts-expect-error
  getSandbox(undefined, 'x', { secrets: 'openai' }),
  // @ts-expect-error
  getSandbox(undefined, 'x', { labels: { team: 1 } }),
  // @ts-expect-error
  getSandbox(undefined, 'x', { keepAlive: 'yes' }),
  // @ts-expect-error
  getSandbox(undefined, 'x', { sleepafter: '1m' }),
];

/** Callbacks may return anything, as those of the guides do. */
export async function accepted(): Promise<void> {
  const sandbox = getSandbox(undefined, 'x', {
    backup: { every: '1h', keep: 24 },
    network: { mode: 'list', ask: true },
  });
  const all: string[] = [];
  await sandbox.exec('x', {
    stream: true,
    onStdout: (text) => all.push(text),
    onStderr: async (text) => all.push(text),
  });
  const run = await sandbox.runCode('1', {
    stream: true,
    onOutput: (chunk) => all.push(chunk),
    onResult: async () => 1,
  });
  if (run.error === null) all.push(run.output);
  else all.push(`${run.error}`);
  const port = await sandbox.exposePort(3000);
  Response.json({ previewUrl: port, url: port.url });
}
