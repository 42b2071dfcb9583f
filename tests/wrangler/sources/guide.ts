// The first Worker of the guides: /run runs a program, /file writes and reads a file.
import { getSandbox, type Sandbox } from '@cloudflare/sandbox';

export { Sandbox } from '@cloudflare/sandbox';

type Env = { Sandbox: DurableObjectNamespace<Sandbox> };

export default {
  async fetch(request: Request, env: Env): Promise<Response> {
    const sandbox = getSandbox(env.Sandbox, 'my-sandbox');
    const { pathname } = new URL(request.url);
    if (pathname === '/run') {
      const { stdout, exitCode, success } = await sandbox.exec('python3 -c "print(2 + 2)"');
      return Response.json({ output: stdout, exitCode, success });
    }
    if (pathname === '/file') {
      await sandbox.writeFile('/workspace/hello.txt', 'Hello, Sandbox!');
      return Response.json({ content: (await sandbox.readFile('/workspace/hello.txt')).content });
    }
    return new Response('Try /run or /file');
  },
};
