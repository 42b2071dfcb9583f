"""A client that asks without pause, in a process of its own: `python3 pound.py HOST PORT COUNT SPEC`.

It holds COUNT connections. SPEC is JSON: `head`, sent once on each (hexadecimal), and `rest`, sent again and again behind it,
`times` at once.
What comes back is read and thrown away; a connection that ends is opened anew. Prints a line when all have been opened."""

import contextlib
import json
import selectors
import socket
import sys


class Pound:
    def __init__(self, address, head, rest):
        self.address, self.head, self.rest = address, head, rest
        self.selector = selectors.DefaultSelector()

    def open(self):
        s = socket.socket()
        s.setblocking(False)
        with contextlib.suppress(BlockingIOError):
            s.connect(self.address)
        self.selector.register(s, selectors.EVENT_READ | selectors.EVENT_WRITE, [self.head, 0])

    def write(self, key):
        data, at = key.data
        if at == len(data):
            data, at = self.rest, 0
        if not data:
            self.selector.modify(key.fileobj, selectors.EVENT_READ, key.data)
        else:
            key.data[:] = data, at + key.fileobj.send(data[at : at + 65536])

    def serve(self, key, events):
        try:
            if events & selectors.EVENT_WRITE:
                self.write(key)
            if events & selectors.EVENT_READ and not key.fileobj.recv(1 << 20):
                raise OSError("ended")
        except BlockingIOError:
            pass
        except OSError:
            self.selector.unregister(key.fileobj)
            key.fileobj.close()
            self.open()

    def run(self, count):
        for _ in range(count):
            self.open()
        print("open", flush=True)
        while True:
            for key, events in self.selector.select():
                self.serve(key, events)


if __name__ == "__main__":
    spec = json.loads(sys.argv[4])
    Pound((sys.argv[1], int(sys.argv[2])), bytes.fromhex(spec["head"]), bytes.fromhex(spec["rest"]) * spec["times"]).run(int(sys.argv[3]))
