/*
 * A development environment in a web page: files, packages, an app on port 3000 with a live preview, and a terminal.
 *
 *   GET  /files              names              GET | PUT /files/{path}   content
 *   POST /install {"packages": ["express"]}     POST /start   (again) → {"url"}, the preview
 *   POST /terminal           → {"url"}, a WebSocket that opens one terminal once, within a minute
 */
import type { ISandbox } from '@cloudflare/sandbox';

export const ID = 'dev-environment';
export const PORT = 3000;
const APP = '/workspace/app';
const COMMAND = 'node server.js';
const FILE_MAX = 1_000_000; // characters
const INSTALL_SECONDS = 300;
const START_SECONDS = 60;

const FILES = {
  'package.json': '{ "name": "app", "type": "module" }\n',
  'server.js': `import express from 'express';

const app = express();
app.get('/', (request, response) => response.send('<h1>Hello from the sandbox</h1>'));
app.listen(${PORT}, () => console.log('listening'));
`,
};

type Box = Pick<
  ISandbox,
  'exec' | 'exists' | 'listFiles' | 'listProcesses' | 'readFile' | 'startProcess' | 'writeFile'
>;
export interface Environment {
  sandbox: Box;
  /** The URL of the app. */
  preview(): Promise<string>;
  /** A WebSocket URL with a ticket: a page cannot send the daemon's token, and must not have it. */
  terminal(): Promise<string>;
  /** Another registry than npm's own. */
  registry?: string;
}

async function prepare(sandbox: Box): Promise<void> {
  if ((await sandbox.exists(`${APP}/package.json`)).exists) return;
  for (const [name, content] of Object.entries(FILES)) await sandbox.writeFile(`${APP}/${name}`, content);
}

async function list(sandbox: Box): Promise<Response> {
  const { files } = await sandbox.listFiles(APP, { recursive: true });
  const names = files.filter(({ type }) => type === 'file').map(({ relativePath }) => relativePath);
  return Response.json({ files: names.filter((name) => !name.startsWith('node_modules/')).sort() });
}

async function install({ sandbox, registry }: Environment, packages: unknown): Promise<Response> {
  const named = Array.isArray(packages) && packages.every((name) => /^(@[\w.-]+\/)?[\w.-]+(@[\w.^~-]+)?$/.test(name));
  if (!named) return Response.json({ error: 'packages is a list of names' }, { status: 400 });
  const command = `npm install --no-audit --no-fund ${registry ? `--registry=${registry}` : ''} ${packages.join(' ')}`;
  const { success, stdout, stderr } = await sandbox.exec(command, { cwd: APP, timeout: INSTALL_SECONDS * 1000 });
  return Response.json({ success, output: stdout + stderr }, { status: success ? 200 : 422 });
}

/** Starts the app with the files of this moment; the one that ran before ends first. */
async function start({ sandbox, preview }: Environment): Promise<Response> {
  for (const process of await sandbox.listProcesses()) {
    if (process.command !== COMMAND || process.status !== 'running') continue;
    await process.kill();
    await process.waitForExit(START_SECONDS * 1000);
  }
  const app = await sandbox.startProcess(COMMAND, { cwd: APP });
  await app.waitForPort(PORT, { timeout: START_SECONDS * 1000 });
  return Response.json({ url: await preview() });
}

async function file(sandbox: Box, request: Request, path: string): Promise<Response> {
  if (request.method === 'GET') return new Response((await sandbox.readFile(`${APP}/${path}`)).content);
  const content = await request.text();
  if (content.length > FILE_MAX) return Response.json({ error: 'the file is too large' }, { status: 413 });
  await sandbox.writeFile(`${APP}/${path}`, content);
  return new Response(null, { status: 204 });
}

/** The API of the page; undefined for other paths. */
export async function devEnvironment(environment: Environment, request: Request): Promise<Response | undefined> {
  const { sandbox } = environment;
  const { pathname } = new URL(request.url);
  const path = decodeURIComponent(/^\/files\/(.+)$/.exec(pathname)?.[1] ?? '');
  await prepare(sandbox);
  if (path && !path.split('/').includes('..') && ['GET', 'PUT'].includes(request.method))
    return file(sandbox, request, path);
  const body = request.method === 'POST' ? ((await request.json().catch(() => ({}))) as { packages?: unknown }) : {};
  switch (`${request.method} ${pathname}`) {
    case 'GET /files':
      return list(sandbox);
    case 'POST /install':
      return install(environment, body.packages);
    case 'POST /start':
      return start(environment);
    case 'POST /terminal':
      return Response.json({ url: await environment.terminal() });
  }
  return undefined;
}

/** The URL of a terminal with a ticket of `POST /v1/tickets`. */
export function terminalUrl(daemon: string, ticket: string): string {
  return `${daemon.replace(/^http/, 'ws')}/v1/sandboxes/${ID}/ws/pty?sessionId=page&cols=100&rows=24&ticket=${ticket}`;
}
