// node npmstream.mjs BYTES PIECE: a server of the npm package itself, which streams bytes from memory: how fast a client
// of capnweb in Node can be at all. Prints its port.
import { newWebSocketRpcSession, RpcTarget } from 'capnweb';
import WebSocket, { WebSocketServer } from 'ws';

globalThis.WebSocket = WebSocket; // which the package expects, and Node 20 has not
const [total, size] = process.argv.slice(2).map(Number);
const piece = new Uint8Array(size).fill(65);

class Main extends RpcTarget {
  read() {
    let sent = 0;
    return new ReadableStream({
      pull(controller) {
        if (sent >= total) return controller.close();
        controller.enqueue(piece);
        sent += size;
      },
    });
  }
}

const server = new WebSocketServer({ port: 0, host: '127.0.0.1' });
server.on('connection', (socket) => newWebSocketRpcSession(socket, new Main()));
server.on('listening', () => console.log(server.address().port));
