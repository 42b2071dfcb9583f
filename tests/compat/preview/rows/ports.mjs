import { proxyToSandbox } from '@cloudflare/sandbox';
import { assert, messages, rejects, serve, upgrade } from './util.mjs';

export default {
  async 'exposePort, getExposedPorts, isPortExposed, validatePortToken, unexposePort'(t) {
    const { sandbox } = t.box();
    await serve(sandbox, 8080);
    const exposed = await sandbox.exposePort(8080, { hostname: 'atoll.test', name: 'web', token: 'mine' });
    assert.match(exposed.url, /^https?:\/\/8080-.*-mine\.atoll\.test/);
    assert.equal(await sandbox.isPortExposed(8080), true);
    assert.equal(await sandbox.validatePortToken(8080, 'mine'), true);
    assert.equal(await sandbox.validatePortToken(8080, 'other'), false);
    assert.deepEqual((await sandbox.getExposedPorts('atoll.test')).map((p) => p.port), [8080]);
    const response = await proxyToSandbox(new Request(`${exposed.url}hello?x=1`.replace(/([^/])hello/, '$1/hello')), t.env);
    assert.equal(response.status, 200);
    assert.deepEqual(await response.json(), { method: 'GET', url: '/hello?x=1' });
    await sandbox.unexposePort(8080);
    assert.equal(await sandbox.isPortExposed(8080), false);
    const gone = await proxyToSandbox(new Request(exposed.url), t.env);
    assert.ok(gone.status >= 400);
    await rejects(sandbox.exposePort(80, { hostname: 'atoll.test' }), /port/i);
  },

  async containerFetch(t) {
    const { sandbox } = t.box();
    await serve(sandbox, 8080);
    const response = await sandbox.containerFetch('http://any/path?q=2', { method: 'POST', body: 'x' }, 8080);
    assert.deepEqual([response.status, response.headers.get('X-App')], [200, 'yes']);
    assert.deepEqual(await response.json(), { method: 'POST', url: '/path?q=2' });
  },

  async wsConnect(t) {
    const { sandbox } = t.box();
    await serve(sandbox, 8080);
    const response = await sandbox.wsConnect(upgrade('http://any/socket'), 8080);
    assert.equal(response.status, 101);
    assert.equal((await messages(response.webSocket).next()).data, 'hello /socket');
    await rejects(sandbox.wsConnect(upgrade(), 3000), /port/i);
  },

  async 'tunnels.get, tunnels.list, tunnels.destroy'(t) {
    const { sandbox } = t.box();
    await serve(sandbox, 8080);
    const tunnel = await sandbox.tunnels.get(8080);
    assert.equal(tunnel.port, 8080);
    assert.ok(tunnel.url.includes(tunnel.hostname));
    assert.deepEqual(await sandbox.tunnels.get(8080), tunnel); // the same again
    assert.deepEqual((await sandbox.tunnels.list()).map((x) => x.id), [tunnel.id]);
    const listed = await (await t.atoll('GET', `${t.opened[0]}/tunnels`)).json();
    assert.equal(listed.tunnels.length, 1);
    await sandbox.tunnels.destroy(8080);
    assert.deepEqual(await sandbox.tunnels.list(), []);
    assert.deepEqual((await (await t.atoll('GET', `${t.opened[0]}/tunnels`)).json()).tunnels, []);
  },
};
