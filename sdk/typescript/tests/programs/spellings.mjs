// The spellings of guides that use parts of the runtime: prints what they give, in any runtime. `spellings.mjs ID`
import { getSandbox } from 'atoll-sandbox';

const sandbox = getSandbox(undefined, process.argv[2]);
const session = await sandbox.createSession({ id: 's', cwd: '/tmp' });
console.log((await sandbox.exec('pwd', { session: JSON.parse(JSON.stringify(session)) })).stdout.trim());

let out = '';
let err = '';
await sandbox.exec('echo one; echo two >&2', {
  stream: true,
  onStdout: (text) => (out += text),
  onStderr: (text) => (err += text),
});
console.log(out.trim(), err.trim());

await sandbox.writeFile('/workspace/f', 'grüße');
const file = await sandbox.readFile('/workspace/f');
console.log(`${file}`, String(file), await new Response(file).text());

const mine = new Error('of the caller');
let pulls = 0;
const broken = new ReadableStream({
  pull: (controller) => (pulls++ ? controller.error(mine) : controller.enqueue(new Uint8Array(100_000))),
});
const told = await sandbox.writeFile('/workspace/g', broken).catch((error) => error);
console.log(told === mine, (await sandbox.writeFile('/workspace/g', { a: 1 }).catch((error) => error)).name);

const began = Date.now();
const nobody = getSandbox({ url: 'http://127.0.0.1:2', token: 'x' }, 'nobody');
console.log((await nobody.exec('true').catch((error) => error)).name, Date.now() - began < 2000);

const context = await sandbox.createCodeContext({ language: 'javascript' });
const run = await sandbox.runCode('nope', { context: context.id });
console.log(run.success, `${run.error}`);
await sandbox.deleteCodeContext(context);
console.log(JSON.stringify(await sandbox.readdir('/workspace')), await sandbox.isProcessRunning('none'));
