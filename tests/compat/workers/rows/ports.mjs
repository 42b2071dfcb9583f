import { proxyToSandbox } from '@cloudflare/sandbox';
import { assert, messages, rejects, serve, until } from './util.mjs';

const HOST = 'atoll.test';

/** A sandbox with a server on 8080 that is exposed. */
async function exposed(t, options = {}) {
  const { id, sandbox } = t.box();
  await serve(sandbox, 8080);
  const { url } = await sandbox.exposePort(8080, { hostname: HOST, ...options });
  return { id, sandbox, url };
}

const through = (t, url, init) => proxyToSandbox(new Request(url, { redirect: 'manual', ...init }), t.env);

/** The app on port 3000 is reached by its preview; containerFetch reaches the sandbox's own API, as upstream's. */
async function port3000(t, id, sandbox) {
  await serve(sandbox, 3000);
  const { url } = await sandbox.exposePort(3000, { hostname: HOST, token: 'app' });
  assert.equal(url, `https://3000-${id}-app.${HOST}/`);
  assert.equal((await (await through(t, `${url}some/path`)).json()).url, '/some/path');
  const own = await sandbox.containerFetch('http://localhost/api/ping', 3000);
  assert.equal((await own.json()).message, 'pong');
}

export default {
  async exposePort(t) {
    const { id, sandbox } = t.box();
    await sandbox.exec('true');
    const r = await sandbox.exposePort(8080, { hostname: HOST, name: 'web', token: 'abc_1' });
    assert.deepEqual([r.url, r.port, r.name], [`https://8080-${id}-abc_1.${HOST}/`, 8080, 'web']);
    assert.match((await sandbox.exposePort(8081, { hostname: HOST })).url, /^https:\/\/8081-.*-[a-z0-9_]{16}\./);
    // Upstream's class reserves it; here the agent has a socket of its own, and guides put apps there.
    if (t.own) await port3000(t, id, sandbox);
    else await rejects(sandbox.exposePort(3000, { hostname: HOST }), /port/i);
    await rejects(sandbox.exposePort(8082, { hostname: 'x.workers.dev' }), /CustomDomainRequiredError/);
  },

  async 'tunnels.get, tunnels.list, tunnels.destroy'(t) {
    const { id, sandbox } = t.box({ transport: 'rpc' });
    await serve(sandbox, 8080);
    const { hostname, url } = await sandbox.tunnels.get(8080);
    assert.equal(new URL(url).hostname, hostname);
    assert.equal((await sandbox.tunnels.get(8080)).url, url);
    assert.deepEqual((await sandbox.tunnels.list()).map((tunnel) => [tunnel.port, tunnel.url]), [[8080, url]]);
    assert.deepEqual((await t.tunnels(id)).map((tunnel) => tunnel.url), [url]); // a Worker cannot resolve names of localhost
    await sandbox.tunnels.destroy(8080);
    assert.deepEqual(await sandbox.tunnels.list(), []);
    assert.deepEqual(await t.tunnels(id), []);
  },

  async unexposePort(t) {
    const { sandbox, url } = await exposed(t);
    await sandbox.unexposePort(8080);
    await sandbox.unexposePort(8080);
    const response = await through(t, url);
    assert.equal(response.status, 404);
    assert.equal((await response.json()).code, 'INVALID_TOKEN');
  },

  async 'getExposedPorts, isPortExposed, validatePortToken'(t) {
    const { id, sandbox } = t.box();
    await sandbox.exec('true');
    await sandbox.exposePort(8080, { hostname: HOST, token: 'tok' });
    const [port] = await sandbox.getExposedPorts(HOST);
    assert.deepEqual([port.port, port.status, port.url], [8080, 'active', `https://8080-${id}-tok.${HOST}/`]);
    assert.deepEqual([await sandbox.isPortExposed(8080), await sandbox.isPortExposed(8081)], [true, false]);
    assert.deepEqual([await sandbox.validatePortToken(8080, 'tok'), await sandbox.validatePortToken(8080, 'no')], [true, false]);
  },

  async proxyToSandbox(t) {
    const { id, url } = await exposed(t, { token: 'tok' });
    assert.equal(await through(t, `https://${HOST}/`), null);
    const body = 'x'.repeat(3_000_000);
    const response = await through(t, `${url}some/path?q=1`, { method: 'POST', body, headers: { 'X-Mine': '1', Authorization: 'Basic app' } });
    assert.equal(response.status, 200);
    assert.equal(response.headers.get('X-App'), 'yes');
    const seen = await response.json();
    assert.deepEqual([seen.method, seen.url, seen.length], ['POST', '/some/path?q=1', body.length]);
    assert.equal(seen.headers['x-mine'], '1');
    assert.equal(seen.headers.authorization, 'Basic app');
    assert.equal(seen.headers['x-forwarded-host'], `8080-${id}-tok.${HOST}`);
    assert.equal(seen.headers['x-forwarded-proto'], 'https');
    assert.ok(!JSON.stringify(seen.headers).includes(t.env.ATOLL_TOKEN), "the daemon's token stays outside");
    assert.equal((await through(t, `${url}teapot`)).status, 418);
    const moved = await through(t, `${url}redirect`);
    assert.deepEqual([moved.status, moved.headers.get('Location')], [302, '/elsewhere']);
    assert.equal((await through(t, url.replace('-tok.', '-bad.'))).status, 404);
  },

  async 'proxyToSandbox: streams'(t) {
    const { url } = await exposed(t);
    const response = await through(t, `${url}stream`);
    const reader = response.body.pipeThrough(new TextDecoderStream()).getReader();
    assert.equal((await reader.read()).value, 'data: first\n\n');
    await (await through(t, `${url}go`)).text();
    assert.equal((await reader.read()).value, 'data: second\n\n');
    assert.equal((await reader.read()).done, true);
  },

  async 'proxyToSandbox: WebSocket'(t) {
    const { url } = await exposed(t);
    const response = await through(t, `${url}ws`, { headers: { Upgrade: 'websocket', Connection: 'Upgrade' } });
    assert.equal(response.status, 101);
    const come = messages(response.webSocket);
    response.webSocket.send('grüße');
    assert.equal((await come.next()).data, 'grüße');
    response.webSocket.send(new Uint8Array(5000).fill(7));
    assert.equal((await come.next()).data.byteLength, 5000);
    response.webSocket.close(4001, 'bye');
    assert.equal((await come.next()).closed.code, 4001);
  },

  async 'proxyToSandbox: not after a stop'(t) {
    const { id, sandbox, url } = await exposed(t);
    await sandbox.stop();
    await until('the box to stop', async () => (await t.inspect(id)).state === 'stopped');
    const response = await through(t, url);
    assert.equal(response.status, 410);
    assert.equal((await response.json()).code, 'STALE_PREVIEW_URL');
    assert.equal((await t.inspect(id)).state, 'stopped');
  },

  async wsConnect(t) {
    const { sandbox } = t.box();
    await serve(sandbox, 8080);
    const request = new Request('http://atoll.test/ws', { headers: { Upgrade: 'websocket', Connection: 'Upgrade' } });
    const response = await sandbox.wsConnect(request, 8080);
    assert.equal(response.status, 101);
    const come = messages(response.webSocket);
    response.webSocket.send('hello');
    assert.equal((await come.next()).data, 'hello');
    response.webSocket.close(1000);
    await assert.rejects(sandbox.wsConnect(request, 3000), /Invalid port number/);
  },

  async containerFetch(t) {
    const { sandbox } = t.box();
    await serve(sandbox, 8080);
    const response = await sandbox.containerFetch('http://localhost/a?b=c', { method: 'PUT', body: 'xyz' }, 8080);
    const seen = await response.json();
    assert.deepEqual([seen.method, seen.url, seen.length], ['PUT', '/a?b=c', 3]);
    const none = await sandbox.containerFetch('http://localhost/', {}, 8099);
    assert.equal(none.status, 500);
    assert.match(await none.text(), /not listening/);
  },
};
