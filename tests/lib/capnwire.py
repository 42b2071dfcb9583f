"""The rpc transport of an agent, frame by frame: a client that can do what the npm package never does."""

import json
import socket

from wsclient import TEXT, Closed, WebSocket


def frames(messages):
    """Many short text messages as the bytes of one write. The mask is zero: what is sent counts here, not how."""
    out = bytearray()
    for m in messages:
        data = m.encode()
        assert len(data) < 126, m
        out += bytes([0x80 | TEXT, 0x80 | len(data)]) + b"\0\0\0\0" + data
    return bytes(out)


class Rpc:
    """A session. Results keep the ids that the protocol gives them: 1, 2 …"""

    def __init__(self, agent):
        self.pushed, self.theirs = 0, 0
        sock = socket.create_connection(("127.0.0.1", agent.port), timeout=60)
        self.ws = WebSocket(sock, "/rpc")
        self.kept = []

    def send(self, *frame):
        self.ws.send(json.dumps(frame))

    def push(self, path, *args, of=0):
        """A call that is not pulled; its id."""
        self.send("push", ["pipeline", of, path.split("."), [[a] if isinstance(a, list) else a for a in args]])
        self.pushed += 1
        return self.pushed

    def call(self, path, *args, of=0):
        number = self.push(path, *args, of=of)
        self.send("pull", number)
        return number

    def next(self):
        """A frame. Those that make something of the agent's have its number at their end."""
        frame = json.loads(self.ws.receive())
        if frame[0] in ("push", "stream", "pipe"):
            self.theirs += 1
            frame.append(self.theirs)
        return frame

    def until(self, wanted):
        """The first frame that `wanted` likes; those before it are kept."""
        for i, frame in enumerate(self.kept):
            if wanted(frame):
                return self.kept.pop(i)
        while not wanted(frame := self.next()):
            self.kept.append(frame)
        return frame

    def answer(self, number):
        """(ok, expression) of a result that was pulled."""
        verb, _, value = self.until(lambda f: f[0] in ("resolve", "reject") and f[1] == number)
        return verb == "resolve", value

    def result(self, path, *args, of=0):
        ok, value = self.answer(number := self.call(path, *args, of=of))
        assert ok, value
        self.send("release", number, 1)
        return value

    def refusal(self, path, *args):
        ok, value = self.answer(self.call(path, *args))
        assert not ok, value
        return value

    def stream(self, number):
        """The pipe of a result that is a stream."""
        ok, value = self.answer(number)
        assert ok and value[0] == "readable", value
        return value[1]

    def events(self, pipe):
        """What is written to a pipe, acknowledged, until its end."""
        while True:
            frame = self.until(lambda f: f[0] == "stream" and f[1][1] == pipe)
            self.send("resolve", frame[-1], ["undefined"])
            name, args = frame[1][2][0], frame[1][3]
            if name != "write":
                return
            yield args[0]

    def ended(self):
        """(code, reason) with which the agent closes."""
        try:
            while True:
                self.ws.receive()
        except Closed as e:
            return e.code, e.reason

    def flood(self, messages, batch=2000):
        """Sends as many as the agent takes."""
        some = []
        try:
            for m in messages:
                some.append(m)
                if len(some) == batch:
                    self.ws.sock.sendall(frames(some))
                    some = []
            self.ws.sock.sendall(frames(some))
        except OSError:
            pass  # closed meanwhile

    def close(self):
        self.ws.close()

    def __enter__(self):
        return self

    def __exit__(self, *exc):
        self.close()
