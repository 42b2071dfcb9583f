#!/usr/bin/env node
/* `npx atoll-sandbox dev worker.ts`: serves a program that is shaped like a Worker, in Node and without workerd.
 *
 * `Program` loads the program and loads it again when one of its files changes; hooks.ts runs in the thread where Node
 * resolves modules, and answers imports of `@cloudflare/sandbox` with this package; `serve` hands requests to the
 * program. This file reads the arguments and ends everything. */
import { existsSync } from 'node:fs';
import { dirname, join, resolve } from 'node:path';
import { parseArgs } from 'node:util';
import { Program } from './program.js';
import { serve } from './serve.js';

const usage = `Usage: atoll-sandbox dev [options] worker.ts

Serves a program with \`export default { async fetch(request, env, ctx) { … } }\` in Node. Imports of
@cloudflare/sandbox are answered by atoll-sandbox. The program is loaded again when one of its files changes.

  --port N      port to listen on; 0 is any that is free (default 8787)
  --host NAME   address to listen on (default 127.0.0.1)
  --env FILE    variables of \`env\`: NAME=value lines, or JSON (default .dev.vars or .env beside the program)
  --help        this text

ATOLL_URL and ATOLL_TOKEN, in FILE or in the environment, say which Atoll; else it is that of this machine.
`;

/** An error of the arguments: the text is all that the user needs. */
class UsageError extends Error {}

function readArguments(args: string[]) {
  const options = {
    port: { type: 'string' },
    host: { type: 'string' },
    env: { type: 'string' },
    help: { type: 'boolean' },
  } as const;
  let parsed: ReturnType<typeof parseArgs<{ options: typeof options; allowPositionals: true }>>;
  try {
    parsed = parseArgs({ args, options, allowPositionals: true });
  } catch (error) {
    throw new UsageError((error as Error).message);
  }
  const { values, positionals } = parsed;
  if (values.help) return undefined;
  const [verb, program, ...more] = positionals;
  if (verb !== 'dev') throw new UsageError(verb ? `there is no command '${verb}'` : 'a command is missing');
  if (!program || more.length) throw new UsageError('dev takes one program');
  if (!existsSync(program)) throw new UsageError(`there is no file ${program}`);
  const port = Number(values.port ?? 8787);
  if (!Number.isInteger(port) || port < 0 || port > 65535) throw new UsageError(`'${values.port}' is no port`);
  const entry = resolve(program);
  if (values.env !== undefined && !existsSync(values.env)) throw new UsageError(`there is no file ${values.env}`);
  const beside = ['.dev.vars', '.env'].map((name) => join(dirname(entry), name)).find((path) => existsSync(path));
  return { entry, port, host: values.host ?? '127.0.0.1', envFile: values.env ? resolve(values.env) : beside };
}

async function main(): Promise<void> {
  const chosen = readArguments(process.argv.slice(2));
  if (!chosen) return void process.stdout.write(usage);
  process.setSourceMapsEnabled(true);
  const program = new Program(chosen.entry, chosen.envFile);
  await program.load();
  const server = await serve(program, chosen.port, chosen.host);
  console.log(`Ready on ${server.url}`);
  program.watch();
  let stopping = false;
  const stop = async () => {
    if (stopping) process.exit(130);
    stopping = true;
    program.close();
    server.close();
    await program.settled();
    process.exit(0);
  };
  process.on('SIGINT', stop);
  process.on('SIGTERM', stop);
}

main().catch((error) => {
  const known = error instanceof UsageError;
  console.error(known ? `atoll-sandbox: ${error.message}\n\n${usage}` : `atoll-sandbox: ${error?.stack ?? error}`);
  process.exit(known ? 2 : 1);
});
