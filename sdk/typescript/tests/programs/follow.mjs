// follow.mjs ID: starts a process in a sandbox and prints its log to its end. tests/sdk kills the daemon meanwhile.
import process from 'node:process';
import { getSandbox, parseSSEStream } from '../../dist/index.js';

const sandbox = getSandbox(undefined, process.argv.at(-1));
const command = 'echo begin; until [ -e /tmp/go ]; do sleep 0.05; done; seq 1 5000; exit 9';
const { id } = await sandbox.startProcess(command);
for await (const event of parseSSEStream(await sandbox.streamProcessLogs(id))) {
  if (event.type === 'stdout') process.stdout.write(event.data);
  if (event.type === 'exit') process.stdout.write(`exit ${event.exitCode}\n`);
}
