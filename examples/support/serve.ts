import { createServer } from 'node:http';
import { Readable } from 'node:stream';
import { pipeline } from 'node:stream/promises';
import type { ReadableStream as WebStream } from 'node:stream/web';
import { failed } from './failed.ts';

/** Serves a handler of web requests on $PORT of this machine, and prints its URL. A client that goes away cancels its response. */
export function serve(handler: (request: Request) => Promise<Response>): void {
  const server = createServer(async (incoming, outgoing) => {
    const body = ['GET', 'HEAD'].includes(incoming.method!) ? undefined : (Readable.toWeb(incoming) as ReadableStream);
    const headers = new Headers(incoming.headers as Record<string, string>);
    const init = { method: incoming.method, headers, body, duplex: 'half' } as RequestInit;
    const response = await handler(new Request(`http://${incoming.headers.host}${incoming.url}`, init)).catch(failed);
    outgoing.writeHead(response.status, Object.fromEntries(response.headers));
    if (response.body) await pipeline(Readable.fromWeb(response.body as WebStream), outgoing).catch(() => {});
    else outgoing.end();
  });
  server.listen(Number(process.env.PORT ?? 8080), '127.0.0.1', () => {
    console.log(`serving on http://127.0.0.1:${(server.address() as { port: number }).port}`);
  });
}
