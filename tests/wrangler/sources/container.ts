// ctx.container without a class around it: /NAME/ACTION.
import { DurableObject } from 'cloudflare:workers';

type Snapshot = { directory?: unknown; whole?: unknown };

export class Sandbox extends DurableObject {
  text = new TextDecoder();

  container(options = {}) {
    const container = this.ctx.container as any;
    if (!container.running) container.start({ enableInternet: false, ...options });
    return container;
  }

  async exec(command: string) {
    const { stdout, stderr, exitCode } = await (await this.container().exec(['sh', '-c', command])).output();
    return { stdout: this.text.decode(stdout), stderr: this.text.decode(stderr), exitCode };
  }

  // What a program answers to its input, and the code of one that is killed.
  async talk(input: string) {
    const cat = await this.container().exec(['cat'], { stdin: 'pipe' });
    const writer = cat.stdin.getWriter();
    await writer.write(new TextEncoder().encode(input));
    await writer.close();
    const said = await new Response(cat.stdout).text();
    const sleeper = await this.container().exec(['sleep', '600']);
    sleeper.kill(15);
    return { said, code: await cat.exitCode, killed: await sleeper.exitCode, pid: sleeper.pid > 0 };
  }

  async snapshot(dir: string): Promise<Snapshot> {
    const container = this.container();
    return { directory: await container.snapshotDirectory({ dir }), whole: await container.snapshotContainer({}) };
  }

  // A new container with a directory, or with all files, of before.
  async again(json: string) {
    const { directory, whole } = JSON.parse(json) as Snapshot;
    const container = this.ctx.container as any;
    const ended = container.monitor().catch(() => {}); // older workerds take the end in there
    await container.destroy();
    await ended;
    container.start({ enableInternet: false, ...(directory ? { directorySnapshots: [{ snapshot: directory }] } : { containerSnapshot: whole }) });
  }
}

export default {
  async fetch(request: Request, env: { Sandbox: DurableObjectNamespace<Sandbox> }): Promise<Response> {
    const [, name, action] = new URL(request.url).pathname.split('/');
    const stub = env.Sandbox.get(env.Sandbox.idFromName(name)) as any;
    try {
      return Response.json({ ok: (await stub[action](await request.text())) ?? null });
    } catch (error) {
      return Response.json({ error: String(error) }, { status: 500 });
    }
  },
};
