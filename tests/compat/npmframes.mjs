// node npmframes.mjs BYTES PIECE: a server that answers every call with a stream of frames that were made beforehand: the
// highest rate at which a client of the npm package can take bytes. Prints its port.
import { WebSocketServer } from 'ws';

const WINDOW = 4 << 20; // bytes that are not acknowledged, as ours
const [total, size] = process.argv.slice(2).map(Number);
const pieces = Math.ceil(total / size);
const bytes = Buffer.alloc(size, 65).toString('base64');

const send = (socket, frame) => socket.send(frame, { binary: false });
const frame = (value) => Buffer.from(JSON.stringify(value)); // `ws` would encode a string again for each message

/** Writes to a pipe of the client and closes it. Returns what to call for each acknowledgement. */
function stream(socket, pipe) {
  const write = frame(['stream', ['pipeline', pipe, ['write'], [['bytes', bytes]]]]);
  let sent = 0;
  let acknowledged = 0;
  const more = () => {
    for (; sent < pieces && (sent - acknowledged) * size < WINDOW; sent++) send(socket, write);
    if (sent !== pieces) return;
    send(socket, frame(['stream', ['pipeline', pipe, ['close'], []]]));
    sent++;
  };
  more();
  return () => {
    acknowledged++;
    more();
  };
}

const server = new WebSocketServer({ port: 0, host: '127.0.0.1' });
server.on('connection', (socket) => {
  let next = 1; // id of what we send next: a pipe, its writes, its close
  let acknowledge;
  socket.on('message', (text) => {
    const [verb, id] = JSON.parse(text);
    if (verb === 'resolve') acknowledge();
    if (verb !== 'pull') return;
    send(socket, frame(['pipe']));
    send(socket, frame(['resolve', id, ['readable', next]]));
    acknowledge = stream(socket, next);
    next += pieces + 2;
  });
});
server.on('listening', () => console.log(server.address().port));
