// Scenarios with the official client of the Model Context Protocol. `run.mjs --list` names them; `run.mjs NAME http|stdio` runs one.
import assert from 'node:assert/strict';
import { Client } from '@modelcontextprotocol/sdk/client/index.js';
import { StdioClientTransport } from '@modelcontextprotocol/sdk/client/stdio.js';
import { StreamableHTTPClientTransport } from '@modelcontextprotocol/sdk/client/streamableHttp.js';

const { ATOLL_URL, ATOLL_TOKEN, ATOLL_BIN } = process.env;
const headers = { Authorization: `Bearer ${ATOLL_TOKEN}` };

function transport(kind, sandbox) {
  if (kind === 'stdio') return new StdioClientTransport({ command: `${ATOLL_BIN}/atoll`, args: ['mcp', ...(sandbox ? ['--sandbox', sandbox] : [])], env: { ATOLL_URL, ATOLL_TOKEN } });
  return new StreamableHTTPClientTransport(new URL(`${ATOLL_URL}/mcp${sandbox ? `?sandbox=${sandbox}` : ''}`), { requestInit: { headers } });
}

async function connect(kind, sandbox) {
  const client = new Client({ name: 'test', version: '1' });
  const way = transport(kind, sandbox);
  await client.connect(way);
  client.call = (name, args = {}, options = undefined) => client.callTool({ name, arguments: args }, undefined, options);
  client.text = async (name, args, options) => textOf(await client.call(name, args, options));
  client.leave = async () => {
    if (kind === 'http') await way.terminateSession();
    await client.close();
  };
  return client;
}

const textOf = (result) => result.content.filter((c) => c.type === 'text').map((c) => c.text).join('');

async function boxes() {
  const reply = await fetch(`${ATOLL_URL}/v1/sandboxes`, { headers });
  return (await reply.json()).sandboxes.map((b) => b.id);
}

async function gone(id) {
  for (let i = 0; i < 600 && (await boxes()).includes(id); i++) await new Promise((r) => setTimeout(r, 50));
  assert(!(await boxes()).includes(id), `${id} is still there`);
}

const ownBox = async (c) => (await c.text('run_command', { command: 'echo $HOSTNAME' })).split('\n')[0];

export const scenarios = {
  async greets(c) {
    assert.equal(c.getServerVersion().name, 'atoll');
    assert.match(c.getInstructions(), /sandbox/);
    const { tools } = await c.listTools();
    for (const name of ['run_command', 'run_code', 'read_file', 'write_file', 'edit_file', 'list_files', 'search_files', 'start_process', 'process_output', 'expose_port', 'fork_sandbox', 'snapshot_sandbox', 'destroy_sandbox', 'request_network']) {
      const tool = tools.find((t) => t.name === name);
      assert(tool, name);
      assert.equal(tool.inputSchema.type, 'object');
      assert(tool.description.length > 10 && tool.annotations);
    }
    assert.deepEqual(tools.find((t) => t.name === 'run_code').inputSchema.required, ['code']);
    await c.ping();
  },

  async commands(c) {
    const r = await c.call('run_command', { command: 'echo out; echo err >&2; exit 3' });
    assert.equal(r.isError, false);
    assert.match(textOf(r), /out\n/);
    assert.match(textOf(r), /err\n/);
    assert.match(textOf(r), /exit code 3/);
    assert.match(await c.text('run_command', { command: 'cd /tmp; X=5; pwd' }), /^\/tmp\n/);
    assert.match(await c.text('run_command', { command: 'echo [$X] in $PWD' }), /^\[\] in \/workspace\n/);
    assert.match(await c.text('run_command', { command: 'pwd', cwd: '/etc' }), /^\/etc\n/);
    assert.match(await c.text('run_command', { command: 'echo begun; sleep 60', timeout: 1 }), /begun\n.*timeout/s);
  },

  async code(c) {
    assert.match(await c.text('run_code', { code: 'x = 41\nprint("said")\nx + 1' }), /said\n42/);
    const chart = await c.call('run_code', { code: 'import matplotlib.pyplot as plt\nplt.plot([x, 2])\nplt.show()' });
    const image = chart.content.find((p) => p.type === 'image');
    assert.equal(image.mimeType, 'image/png');
    assert.equal(Buffer.from(image.data, 'base64').subarray(1, 4).toString(), 'PNG');
    const table = await c.call('run_code', { code: 'import pandas as pd\npd.DataFrame({"price": [7]})' });
    assert.match(textOf(table), /price\n0\s+7/);
    assert.match(table.content.find((p) => p.type === 'resource').resource.text, /<table/);
    const failed = await c.call('run_code', { code: '1/0' });
    assert.equal(failed.isError, true);
    assert.match(textOf(failed), /ZeroDivisionError/);
    assert.match(await c.text('run_code', { code: 'const a: number = 21; a * 2', language: 'typescript' }), /42/);
    assert.match(textOf(await c.call('run_code', { code: '1', language: 'cobol' })), /language/);
  },

  async files(c) {
    await c.call('write_file', { path: '/workspace/new/dir/a.txt', content: "one\ntwo's\nthree\n" });
    assert.equal(await c.text('read_file', { path: '/workspace/new/dir/a.txt' }), "one\ntwo's\nthree\n");
    assert.equal(await c.text('read_file', { path: '/workspace/new/dir/a.txt', offset: 2, limit: 1 }), "two's\n");
    await c.call('edit_file', { path: '/workspace/new/dir/a.txt', old_text: "two's", new_text: '2' });
    assert.equal(await c.text('read_file', { path: '/workspace/new/dir/a.txt' }), 'one\n2\nthree\n');
    assert.equal((await c.call('edit_file', { path: '/workspace/new/dir/a.txt', old_text: 'e', new_text: 'E' })).isError, true);
    await c.call('edit_file', { path: '/workspace/new/dir/a.txt', old_text: 'e', new_text: 'E', replace_all: true });
    assert.equal(await c.text('read_file', { path: '/workspace/new/dir/a.txt' }), 'onE\n2\nthrEE\n');
    assert.match(await c.text('list_files', { recursive: true }), /new\/dir\/a\.txt {2}12/);
    assert.match(await c.text('search_files', { pattern: '^thr', glob: '*.txt' }), /a\.txt:3:thrEE/);
    assert.match(await c.text('search_files', { pattern: "it's; touch /tmp/injected #" }), /no line matches/);
    assert.match(await c.text('run_command', { command: 'ls /tmp/injected' }), /No such file/);
    const missing = await c.call('read_file', { path: '/nope' });
    assert.equal(missing.isError, true);
    assert.match(textOf(missing), /\/nope/);
  },

  async processes(c) {
    const started = JSON.parse(await c.text('start_process', { command: 'echo first; sleep 0.3; echo second; sleep 60', processId: 'job' }));
    assert.equal(started.processId, 'job');
    assert.match(await c.text('process_output', { process: 'job', follow_seconds: 60, until: 'second' }), /first\nsecond\n.*still runs/s);
    assert.match(await c.text('list_processes'), /"id":"job".*running/);
    await c.call('stop_process', { process: 'job' });
    assert.match(await c.text('process_output', { process: 'job', follow_seconds: 60 }), /ended/);
    assert.equal((await c.call('process_output', { process: 'none' })).isError, true);
    const port = JSON.parse(await c.text('expose_port', { port: 8080 }));
    assert.match(port.url, /^http:\/\/8080-/);
    assert.match(await c.text('unexpose_port', { port: 8080 }), /done/);
  },

  async long_output(c) {
    const shown = await c.text('run_command', { command: 'seq 1 100000' });
    assert(shown.length < 40000, `${shown.length} characters`);
    assert(shown.startsWith('1\n2\n') && shown.includes('\n100000\n'));
    const [, number, offset] = /read_output \{"output": (\d+), "offset": (\d+)\}/.exec(shown);
    let whole = shown.slice(0, shown.indexOf('\n[…'));
    for (let at = Number(offset), more = true; more;) {
      const r = await c.call('read_output', { output: Number(number), offset: at });
      whole += r.content[0].text;
      const [, , end, size] = /bytes (\d+) to (\d+) of (\d+)/.exec(r.content[1].text);
      at = Number(end);
      more = at < Number(size);
    }
    assert.equal(whole, Array.from({ length: 100000 }, (_, i) => `${i + 1}\n`).join(''));
    assert.equal((await c.call('read_output', { output: 999 })).isError, true);
  },

  async progress_and_cancel(c) {
    const heard = [];
    // Ends after two messages have been heard.
    const command = 'for i in 1 2; do until [ -e /tmp/heard$i ]; do echo step $i; sleep 0.05; done; done';
    const writes = [];
    const onprogress = (p) => writes.push(c.call('write_file', { path: `/tmp/heard${heard.push(p)}`, content: '' }));
    assert.match(textOf(await c.call('run_command', { command }, { onprogress })), /exit code 0/);
    await Promise.all(writes);
    assert(heard.length >= 2 && heard[0].message.startsWith('step'), JSON.stringify(heard));
    assert(heard.every((p, i) => i === 0 || p.progress > heard[i - 1].progress));
    const stop = new AbortController();
    const running = c.call('run_command', { command: 'echo begun; sleep 777' }, { signal: stop.signal, onprogress: () => stop.abort() });
    await assert.rejects(running);
    const ended = "for i in $(seq 600); do pgrep -f '[s]leep 777' >/dev/null || exit 0; sleep 0.1; done; exit 9";
    assert.match(await c.text('run_command', { command: ended }), /exit code 0/);
  },

  async resources(c) {
    assert.equal((await c.listResourceTemplates()).resourceTemplates.length, 2);
    assert.deepEqual((await c.listResources()).resources, []);
    await c.call('write_file', { path: '/workspace/a b.txt', content: 'text' });
    const [file] = (await c.listResources()).resources;
    assert.equal(file.name, 'a b.txt');
    assert.equal((await c.readResource({ uri: file.uri })).contents[0].text, 'text');
    await c.call('start_process', { command: 'echo logged', processId: 'p' });
    await c.text('process_output', { process: 'p', follow_seconds: 30 });
    const box = await ownBox(c);
    assert.equal((await c.readResource({ uri: `atoll://${box}/processes/p/log` })).contents[0].text, 'logged\n');
    // The list has the logs of what runs, before the files.
    const command = 'echo ready; exec sleep 600';
    await c.call('start_process', { command, processId: 'web' });
    const [log, ...others] = (await c.listResources()).resources;
    const uri = `atoll://${box}/processes/web/log`;
    assert.deepEqual(log, { uri, name: 'web', title: `Log of ${command}`, mimeType: 'text/plain' });
    assert.deepEqual(others, [file]);
    let printed = '';
    for (const end = Date.now() + 60_000; printed !== 'ready\n'; await new Promise((done) => setTimeout(done, 50))) {
      assert(Date.now() < end, `the log has ${JSON.stringify(printed)}`);
      printed = (await c.readResource({ uri: log.uri })).contents[0].text;
    }
    await assert.rejects(c.readResource({ uri: `atoll://${box}/files/nope` }), /nope/);
    await assert.rejects(c.readResource({ uri: 'atoll://no-such-box/files/etc/passwd' }), /no-such-box/);
    await assert.rejects(c.readResource({ uri: 'file:///etc/passwd' }), /atoll/);
    assert(!(await boxes()).includes('no-such-box'));
  },

  async a_box_for_each_client(c, kind) {
    const other = await connect(kind);
    const mine = await ownBox(c);
    const theirs = await ownBox(other);
    assert.notEqual(mine, theirs);
    assert((await boxes()).includes(theirs));
    await other.leave();
    await gone(theirs);
    assert((await boxes()).includes(mine));
  },

  async a_named_box_is_kept(_, kind) {
    const named = await connect(kind, 'mcp-kept');
    assert.equal(await ownBox(named), 'mcp-kept');
    await named.leave();
    assert((await boxes()).includes('mcp-kept'));
    const again = await connect(kind);
    assert.match(await again.text('destroy_sandbox', { sandbox: 'mcp-kept' }), /done/);
    assert.match(await again.text('create_sandbox', { sandbox: 'mcp-made', env: { A: 'b' } }), /running/);
    assert.match(await again.text('run_command', { sandbox: 'mcp-made', command: 'echo $A' }), /^b\n/);
    assert.match(await again.text('destroy_sandbox', { sandbox: 'mcp-made' }), /done/);
    await again.leave();
  },

  async limits_say_what_to_do(c) {
    await c.call('create_sandbox', { sandbox: 'mcp-full' });
    for (let port = 2000; port < 2064; port++) assert.equal((await c.call('expose_port', { sandbox: 'mcp-full', port })).isError, false);
    const many = await c.call('expose_port', { sandbox: 'mcp-full', port: 2064 });
    assert.equal(many.isError, true);
    assert.match(textOf(many), /64 exposed ports.*free what is not needed/s);
    const limits = JSON.stringify({ limits: { disk: 32 << 20 } });
    assert.equal((await fetch(`${ATOLL_URL}/v1/sandboxes/mcp-full`, { method: 'PUT', headers, body: limits })).status, 200);
    await c.call('run_command', { sandbox: 'mcp-full', command: 'head -c 60M /dev/urandom >fill' });
    const full = await c.call('write_file', { sandbox: 'mcp-full', path: 'x', content: 'x'.repeat(1 << 20) });
    assert.equal(full.isError, true);
    assert.match(textOf(full), /delete files/);
    await c.call('destroy_sandbox', { sandbox: 'mcp-full' });
  },

  async wrong_calls(c) {
    assert.equal((await c.call('run_command')).isError, true);
    assert.equal((await c.call('run_command', { command: 5 })).isError, true);
    assert.equal((await c.call('run_command', { command: 'true', sandbox: '../x' })).isError, true);
    assert.equal((await c.call('stop_process')).isError, true);
    await assert.rejects(c.call('no_such_tool'), (e) => e.code === -32602);
  },
};

const [name, kind] = process.argv.slice(2);
if (name === '--list') {
  console.log(Object.keys(scenarios).join(' '));
} else {
  const client = await connect(kind);
  await scenarios[name](client, kind);
  await client.leave();
}
