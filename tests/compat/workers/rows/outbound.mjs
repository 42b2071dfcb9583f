// Requests that leave a box and are answered by the Worker. Nothing here needs the internet: the hosts do not exist.
import { assert, until } from './util.mjs';

const curl = (sandbox, url, more = '') => sandbox.exec(`curl -sS -w '\n%{http_code}' ${more} ${url}`);

/** A WebSocket client: prints the status, what the server says first, an echoed text, and whether an echoed 100 KB are the same. */
const WEBSOCKET = `
import os, socket, struct, sys
s = socket.create_connection((sys.argv[1], 80)); s.settimeout(60); f = s.makefile('rb')
s.sendall(f'GET {sys.argv[2]} HTTP/1.1\\r\\nHost: {sys.argv[1]}\\r\\nUpgrade: websocket\\r\\nConnection: Upgrade\\r\\nSec-WebSocket-Version: 13\\r\\nSec-WebSocket-Key: AAAAAAAAAAAAAAAAAAAAAA==\\r\\n\\r\\n'.encode())
print(f.readline().split()[1].decode())
while f.readline() != b'\\r\\n': pass
def send(op, data):
    n = len(data); key = os.urandom(4)
    head = bytes([0x80 | op]) + (bytes([0x80 | n]) if n < 126 else b'\\xfe' + struct.pack('>H', n) if n < 65536 else b'\\xff' + struct.pack('>Q', n))
    s.sendall(head + key + bytes(b ^ key[i % 4] for i, b in enumerate(data)))
def read():
    whole = b''
    while True:
        first, n = f.read(2); n &= 127
        n = struct.unpack('>H', f.read(2))[0] if n == 126 else struct.unpack('>Q', f.read(8))[0] if n == 127 else n
        whole += f.read(n)
        if first & 0x80: return whole
print(read().decode())
send(1, b'hello'); print(read().decode())
data = os.urandom(100000); send(2, data); print('same' if read() == data else 'other', len(data))
send(8, struct.pack('>H', 1000)); print('closed', struct.unpack('>H', read()[:2])[0])
`;

/** [status, body] */
async function ask(sandbox, url, more) {
  const { stdout, stderr, exitCode } = await curl(sandbox, url, more);
  assert.equal(exitCode, 0, `${url}: ${stderr}`);
  const at = stdout.lastIndexOf('\n', stdout.trimEnd().length - 1);
  return [Number(stdout.slice(at)), stdout.slice(0, at)];
}

export default {
  async 'static outboundByHost'(t) {
    const { sandbox } = t.box(undefined, t.env.Intercepted);
    await sandbox.exec('true');
    const [status, body] = await ask(sandbox, 'http://by-host.example/path?q=1', "-X POST -H 'X-One: 1' --data-binary hello");
    assert.equal(status, 201);
    assert.deepEqual(JSON.parse(body), { method: 'POST', url: 'http://by-host.example/path?q=1', one: '1', body: 'hello' });
  },
  async 'static outbound'(t) {
    const { sandbox } = t.box(undefined, t.env.CatchAll);
    await sandbox.exec('true');
    assert.deepEqual(await ask(sandbox, 'http://anything.example/x'), [200, 'caught http://anything.example/x']);
  },
  async interceptHttps(t) {
    const { sandbox } = t.box(undefined, t.env.Intercepted);
    await sandbox.exec('true');
    const [status, body] = await ask(sandbox, 'https://by-host.example/secure', '-X PUT --data-binary hello');
    assert.equal(status, 201);
    assert.equal(JSON.parse(body).url, 'https://by-host.example/secure');
  },
  async setOutboundHandler(t) {
    const { sandbox } = t.box(undefined, t.env.Intercepted);
    await sandbox.exec('true');
    await sandbox.setOutboundHandler('echo', { word: 'first' });
    assert.deepEqual(await ask(sandbox, 'http://some.example/'), [200, 'first some.example']);
    await sandbox.setOutboundHandler('echo', { word: 'second' });
    assert.deepEqual(await ask(sandbox, 'http://some.example/'), [200, 'second some.example']);
  },
  async setOutboundByHost(t) {
    const { sandbox } = t.box(undefined, t.env.Intercepted);
    await sandbox.exec('true');
    await sandbox.setOutboundByHost('one.example', 'echo', { word: 'one' });
    assert.deepEqual(await ask(sandbox, 'http://one.example/'), [200, 'one one.example']);
    await sandbox.setOutboundByHosts({ 'two.example': { method: 'echo', params: { word: 'two' } } });
    assert.deepEqual(await ask(sandbox, 'http://two.example/'), [200, 'two two.example']);
    await sandbox.removeOutboundByHost('two.example');
    assert.equal((await ask(sandbox, 'http://two.example/'))[0], 520);
  },
  async enableInternet(t) {
    const { sandbox } = t.box(undefined, t.env.Intercepted);
    await sandbox.exec('true');
    await sandbox.setOutboundByHost('one.example', 'echo', { word: 'one' });
    // Everything is intercepted now, and nobody answers for this host: 520. What is not HTTP does not leave at all.
    assert.equal((await ask(sandbox, 'http://not-there.example/'))[0], 520);
    const other = await sandbox.exec('timeout 5 bash -c "exec 3<>/dev/tcp/198.51.100.7/22; read -r -u 3 line"');
    assert.notEqual(other.exitCode, 0);
  },
  async setAllowedHosts(t) {
    const { sandbox } = t.box(undefined, t.env.CatchAll);
    await sandbox.exec('true');
    await sandbox.setAllowedHosts(['good.example', '*.fine.example']);
    assert.deepEqual(await ask(sandbox, 'http://good.example/'), [200, 'caught http://good.example/']);
    assert.equal((await ask(sandbox, 'http://a.fine.example/'))[0], 200);
    assert.equal((await ask(sandbox, 'http://other.example/'))[0], 520);
    await sandbox.allowHost('other.example');
    assert.equal((await ask(sandbox, 'http://other.example/'))[0], 200);
    await sandbox.removeAllowedHost('other.example');
    assert.equal((await ask(sandbox, 'http://other.example/'))[0], 520);
  },
  async setDeniedHosts(t) {
    const { sandbox } = t.box(undefined, t.env.CatchAll);
    await sandbox.exec('true');
    await sandbox.setDeniedHosts(['bad.example']);
    assert.equal((await ask(sandbox, 'http://bad.example/'))[0], 520);
    assert.equal((await ask(sandbox, 'http://other.example/'))[0], 200);
    await sandbox.denyHost('other.example');
    assert.equal((await ask(sandbox, 'http://other.example/'))[0], 520);
    await sandbox.removeDeniedHost('other.example');
    assert.equal((await ask(sandbox, 'http://other.example/'))[0], 200);
  },
  async 'outbound: streams, many at once'(t) {
    const { sandbox } = t.box(undefined, t.env.CatchAll);
    await sandbox.exec('true');
    // Bodies of several windows in both directions, and many requests beside each other.
    const { stdout, exitCode, stderr } = await sandbox.exec(
      `head -c 3000000 /dev/urandom > /tmp/big; for i in 1 2 3 4 5 6; do curl -sS -X POST --data-binary @/tmp/big http://back.example/ -o /tmp/back$i & done; wait;
       for i in 1 2 3 4 5 6; do cmp /tmp/big /tmp/back$i; done && echo same`,
    );
    assert.equal(exitCode, 0, stderr);
    assert.equal(stdout.trim(), 'same');
  },
  async 'outbound: a WebSocket is passed on'(t) {
    const { sandbox } = t.box(undefined, t.env.CatchAll);
    await sandbox.writeFile('/tmp/ws.py', WEBSOCKET);
    const { stdout, stderr, exitCode } = await sandbox.exec('python3 /tmp/ws.py socket.example /talk');
    assert.equal(exitCode, 0, stderr);
    assert.deepEqual(stdout.trim().split('\n'), ['101', 'path /talk', 'hello', 'same 100000', 'closed 1000']);
  },
  async 'outbound: set after the start'(t) {
    const { sandbox } = t.box(undefined, t.env.Later);
    await sandbox.exec('true');
    const before = (await sandbox.remembered()).ours.includes('outbound');
    await sandbox.setOutboundByHost('one.example', 'echo', { word: 'one' });
    assert.deepEqual(await ask(sandbox, 'http://one.example/'), [200, 'one one.example']);
    // A later object of this id has to know that the setting is its own to take away.
    assert.deepEqual([before, (await sandbox.remembered()).ours.includes('outbound')], [false, true]);
  },
  async 'outbound: an evicted object holds its hook again'(t) {
    const { id, sandbox } = t.box(undefined, t.env.CatchAll);
    await sandbox.exec('true');
    assert.equal((await ask(sandbox, 'http://a.example/'))[0], 200);
    await sandbox.evict().catch(() => {});
    const again = t.again(id, undefined, t.env.CatchAll);
    await until('the hook', async () => (await ask(again, 'http://a.example/'))[0] === 200);
  },
};
