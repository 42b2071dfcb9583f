import { createServer } from 'node:http';
import { Readable } from 'node:stream';

/** Serves a handler of web requests on a port of this machine, in any runtime that has node:http. */
export async function serve(
  handler: (request: Request) => Promise<Response>,
  port = 0,
): Promise<{ url: string; close: () => void }> {
  const server = createServer(async (incoming, outgoing) => {
    const body = ['GET', 'HEAD'].includes(incoming.method!) ? undefined : (Readable.toWeb(incoming) as ReadableStream);
    const headers = new Headers(incoming.headers as Record<string, string>);
    const init = { method: incoming.method, headers, body, duplex: 'half' } as RequestInit;
    const response = await handler(new Request(`http://${incoming.headers.host}${incoming.url}`, init)).catch(
      (error: Error) => Response.json({ error: error.message }, { status: 500 }),
    );
    outgoing.writeHead(response.status, Object.fromEntries(response.headers));
    for await (const chunk of response.body ?? []) outgoing.write(chunk);
    outgoing.end();
  });
  await new Promise<void>((done) => server.listen(port, '127.0.0.1', done));
  const { port: chosen } = server.address() as { port: number };
  return { url: `http://127.0.0.1:${chosen}`, close: () => server.close() };
}
