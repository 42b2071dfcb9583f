import { createHash } from 'node:crypto';
import { collectFile, getSandbox, type LogEvent, parseSSEStream } from 'atoll-sandbox';
import { afterEach, describe, expect, test } from 'vitest';
import { BadNetwork } from './support/bad-network.js';
import { box, daemon, eventsOf, failure, textOf, until } from './support/boxes.js';

const { token } = daemon();
let networks: BadNetwork[] = [];
afterEach(async () => {
  await Promise.all(networks.map((one) => one.close()));
  networks = [];
});
async function through(fate: Parameters<typeof BadNetwork.start>[0], id: string) {
  const network = await BadNetwork.start(fate);
  networks.push(network);
  return { network, sandbox: getSandbox({ url: network.url, token }, id) };
}
const numbers = (n: number) => Array.from({ length: n }, (_, i) => `${i + 1}\n`).join('');

describe('a stream of logs over a network that breaks', () => {
  test('has every byte once, wherever the connections were cut', async () => {
    const home = box();
    const p = await home.startProcess('seq 1 30000; echo grüße >&2; (exit 5)');
    await p.waitForExit();
    // A little more from each connection: cuts fall inside heads, frames, characters.
    const { network, sandbox } = await through((n) => (n < 25 ? { cutAfter: 300 + n * 1777 } : {}), home.id);
    const events = await eventsOf(sandbox.streamProcessLogs(p.id));
    expect(textOf(events, 'stdout')).toBe(numbers(30000));
    expect(textOf(events, 'stderr')).toBe('grüße\n');
    expect(events.filter((event) => event.type === 'process_info')).toHaveLength(1);
    expect(events.at(-1)).toMatchObject({ type: 'exit', exitCode: 5 });
    expect(network.connections).toBeGreaterThan(5);
  });

  test('goes on while the process runs', async () => {
    const home = box();
    const { network, sandbox } = await through(() => ({}), home.id);
    const p = await sandbox.startProcess(
      'for i in 1 2 3 4 5 6; do echo tick $i; until [ -e /tmp/$i ]; do sleep 0.02; done; done',
    );
    let seen = '';
    for await (const event of parseSSEStream<LogEvent>(await sandbox.streamProcessLogs(p.id))) {
      if (event.type !== 'stdout') continue;
      seen += event.data;
      const ticks = seen.match(/tick \d/g)!.length;
      network.cut();
      await home.writeFile(`/tmp/${ticks}`, '');
    }
    expect(seen).toBe([1, 2, 3, 4, 5, 6].map((i) => `tick ${i}\n`).join(''));
    expect(network.connections).toBeGreaterThan(3);
  });

  test('serves waitForExit, waitForLog and callbacks', async () => {
    const home = box();
    const { network, sandbox } = await through(() => ({}), home.id);
    let printed = '';
    let code: number | null | undefined;
    const p = await sandbox.startProcess('echo one; until [ -e /tmp/go ]; do sleep 0.02; done; echo two; exit 3', {
      onOutput: (_stream, data) => void (printed += data),
      onExit: (exit) => void (code = exit),
    });
    await p.waitForLog('one');
    const two = p.waitForLog(/t(w)o/);
    const exit = p.waitForExit();
    await until('all to follow', () => network.connections >= 3);
    network.cut();
    await home.writeFile('/tmp/go', '');
    expect((await two).match?.[1]).toBe('w');
    expect(await exit).toEqual({ exitCode: 3 });
    await until('onExit', () => code !== undefined);
    expect([printed, code]).toEqual(['one\ntwo\n', 3]);
  });

  test('does not bring a destroyed sandbox back', async () => {
    for (const destroyer of [(id: string) => getSandbox(undefined, id).destroy(), undefined]) {
      const sandbox = box();
      let called = false;
      let told: unknown;
      const p = await sandbox.startProcess('echo up; sleep 600', {
        onOutput: () => void (called = true),
        onError: (error) => void (told = error),
      });
      const reader = (await sandbox.streamProcessLogs(p.id)).getReader();
      await reader.read();
      await until('both to follow', () => called);
      await (destroyer?.(sandbox.id) ?? sandbox.destroy());
      const rest = async () => {
        while (!(await reader.read()).done);
      };
      const gone = { name: 'OperationInterruptedError', reason: 'sandbox_lifetime_changed' };
      expect(await failure(rest())).toMatchObject(gone);
      await until('onError', () => told !== undefined);
      expect(told).toMatchObject(gone);
      expect(await sandbox.info()).toBeNull();
    }
  });

  test('an unknown process is told at once', async () => {
    expect(await failure(box().streamProcessLogs('none'))).toMatchObject({ code: 'PROCESS_NOT_FOUND' });
  });
});

describe('an exec stream', () => {
  test('has every byte once over a network that breaks, and runs once', async () => {
    const home = box();
    const { network, sandbox } = await through((n) => (n < 20 ? { cutAfter: 700 + n * 2777 } : {}), home.id);
    const events = await eventsOf(
      sandbox.execStream('echo x >> /workspace/count; echo grüße >&2; seq 1 30000; (exit 6)'),
    );
    expect(textOf(events, 'stdout')).toBe(numbers(30000));
    expect(textOf(events, 'stderr')).toBe('grüße\n');
    expect(events.filter((event) => event.type === 'start')).toHaveLength(1);
    expect(events.at(-1)).toMatchObject({ type: 'complete', exitCode: 6 });
    expect(network.connections).toBeGreaterThan(5);
    expect(network.requests.filter((line) => line.startsWith('POST'))).toHaveLength(1);
    expect((await home.readFile('/workspace/count')).content).toBe('x\n');
  });

  test('through exec: nothing of it shows', async () => {
    const home = box();
    const { sandbox } = await through((n) => (n < 6 ? { cutAfter: 3000 } : {}), home.id);
    let heard = '';
    const result = await sandbox.exec('seq 1 5000; exit 2', {
      stream: true,
      onOutput: (_stream, data) => void (heard += data),
    });
    expect([result.stdout, heard, result.exitCode]).toEqual([numbers(5000), numbers(5000), 2]);
  });

  test('whose answer was lost before it began is an error, and not run again', async () => {
    const home = box();
    await home.exec('true');
    const { network, sandbox } = await through((n) => (n === 1 ? { cutAfter: 0 } : {}), home.id);
    const outcome = await sandbox
      .exec('echo x >> /workspace/count', { stream: true, onOutput: () => {} })
      .catch((error) => error);
    expect(outcome).toMatchObject({ name: 'RPCTransportError' });
    expect(network.requests.filter((line) => line.startsWith('POST'))).toHaveLength(1);
  });

  test('is read no faster than its reader, and the command waits', async () => {
    const sandbox = box();
    const reader = (
      await sandbox.execStream(
        'yes | tee /dev/stderr 2>/dev/null | while read -r l; do echo $l; echo . >> /tmp/n; done',
      )
    ).getReader();
    await reader.read();
    const lines = async () => Number((await sandbox.exec('wc -l < /tmp/n 2>/dev/null || echo 0')).stdout);
    // Nobody is told that a writer has been stopped: it is when what it wrote stays the same for a while.
    const seen: number[] = [];
    await until('the command to stand still', async () => {
      seen.push(await lines());
      await new Promise((done) => setTimeout(done, 100));
      const last = seen.slice(-5);
      return last.length === 5 && new Set(last).size === 1 && last[0]! > 0;
    });
    await reader.cancel();
    await until('the command to end', async () => (await sandbox.exec('pgrep -xc yes')).stdout === '0\n');
  });

  test('ends with its signal, and so does the command', async () => {
    const sandbox = box();
    const stop = new AbortController();
    const events: any[] = [];
    const error = await failure(
      (async () => {
        const stream = await sandbox.execStream('echo on; sleep 600', { signal: stop.signal });
        for await (const event of parseSSEStream<any>(stream)) {
          events.push(event);
          if (event.type === 'stdout') stop.abort();
        }
      })(),
    );
    expect(error.name).toBe('AbortError');
    expect(textOf(events, 'stdout')).toBe('on\n');
    await until('sleep to end', async () => (await sandbox.exec('pgrep -xc sleep')).stdout === '0\n');
    expect((await failure(sandbox.execStream('true', { signal: AbortSignal.abort() }))).name).toBe('AbortError');
    expect((await failure(sandbox.exec('true', { signal: AbortSignal.abort() }))).message).toBe(
      'Operation was aborted',
    );
  });

  test('through exec: output while it runs, errors, an abort', async () => {
    const sandbox = box();
    let told: Error | undefined;
    const stop = new AbortController();
    const error = await failure(
      sandbox.exec('echo a; sleep 600', {
        stream: true,
        signal: stop.signal,
        onOutput: () => stop.abort(),
        onError: (e) => void (told = e),
      }),
    );
    expect(error.name).toBe('AbortError');
    expect(told).toBe(error);
  });
});

describe('files', () => {
  test('30 MB in and out, as streams', async () => {
    const sandbox = box();
    const chunk = new Uint8Array(1 << 20).map((_, i) => (i * 7) ^ (i >> 8));
    const hash = createHash('sha256');
    let left = 30;
    const source = new ReadableStream<Uint8Array>({
      pull(controller) {
        if (left-- === 0) return controller.close();
        hash.update(chunk);
        controller.enqueue(chunk);
      },
    });
    expect((await sandbox.writeFile('/workspace/big.bin', source)).success).toBe(true);
    const sum = hash.digest('hex');
    expect((await sandbox.exec('sha256sum < big.bin')).stdout).toBe(`${sum}  -\n`);
    const { content, size } = await sandbox.readFile('/workspace/big.bin', { encoding: 'none' });
    const back = createHash('sha256');
    for await (const piece of content as any) back.update(piece);
    expect([size, back.digest('hex')]).toEqual([30 << 20, sum]);
    const whole = await collectFile(await sandbox.readFileStream('/workspace/big.bin'));
    expect(createHash('sha256').update(whole.content).digest('hex')).toBe(sum);
  });

  test('a source that fails leaves the old content', async () => {
    const sandbox = box();
    await sandbox.writeFile('/workspace/f', 'old');
    const broken = new ReadableStream<Uint8Array>({
      pull(controller) {
        controller.enqueue(new Uint8Array(1000));
        controller.error(new Error('no more'));
      },
    });
    await failure(sandbox.writeFile('/workspace/f', broken));
    expect((await sandbox.readFile('/workspace/f')).content).toBe('old');
  });

  test('an empty file, a name with everything in it', async () => {
    const sandbox = box();
    const name = '/workspace/ä b&c=?#%\'"';
    await sandbox.writeFile(name, new Response('').body ?? new ReadableStream({ start: (c) => c.close() }));
    const empty = await sandbox.readFile(name, { encoding: 'none' });
    expect([empty.size, await new Response(empty.content).text()]).toEqual([0, '']);
  });
});
