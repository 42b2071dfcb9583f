// Connects with the settings of one server, as a client has them in its configuration (JSON in the first argument), and runs a command.
import { Client } from '@modelcontextprotocol/sdk/client/index.js';
import { StdioClientTransport } from '@modelcontextprotocol/sdk/client/stdio.js';
import { StreamableHTTPClientTransport } from '@modelcontextprotocol/sdk/client/streamableHttp.js';

const { command, args, url, headers } = JSON.parse(process.argv[2]);
const way = url ? new StreamableHTTPClientTransport(new URL(url), { requestInit: { headers } }) : new StdioClientTransport({ command, args, env: process.env });
const client = new Client({ name: 'test', version: '1' });
await client.connect(way);
const { content } = await client.callTool({ name: 'run_command', arguments: { command: 'echo $((6 * 7))' } });
console.log(content[0].text.trim());
if (url) await way.terminateSession();
await client.close();
