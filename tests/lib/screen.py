"""A viewer of a box's terminal: it keeps the bytes and control messages of /ws/pty, and draws the screen that a person would see."""

import json
import re
import select
import socket
import time
import urllib.parse

import pyte
import pytest
from atoll import DEADLINE
from wsclient import Closed, WebSocket


class Screen:
    """A viewer. Gathers output; waits for text by reading, never by sleeping."""

    def __init__(self, api, session="s", receive_buffer=None, **query):
        self.api, self.out, self.controls = api, b"", []
        query = urllib.parse.urlencode({"sessionId": session, **query})
        self.sock = socket.socket(socket.AF_UNIX)
        if receive_buffer:
            self.sock.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, receive_buffer)
        self.sock.settimeout(DEADLINE)
        self.sock.connect(api.daemon.socket)
        self.ws = WebSocket(self.sock, api.path(f"/ws/pty?{query}"))

    def step(self):
        message = self.ws.receive()
        if isinstance(message, str):
            self.controls.append(json.loads(message))
        else:
            self.out += message
        return message

    def control(self, kind):
        while not any(c["type"] == kind for c in self.controls):
            self.step()
        return next(c for c in self.controls if c["type"] == kind)

    def wait(self, pattern, start=0):
        """Reads until the output has it; returns everything seen since `start`."""
        pattern = pattern.encode() if isinstance(pattern, str) else pattern
        at, end = start, time.monotonic() + DEADLINE
        while not re.search(pattern, self.out[at:], re.S):
            at = max(start, len(self.out) - 20_000)
            try:
                if time.monotonic() > end:  # some programs never stop talking
                    raise TimeoutError
                self.step()
            except TimeoutError as e:
                raise AssertionError(f"no {pattern!r} in {self.out[start:][-2000:]!r}") from e
        return self.out[start:]

    def type(self, text):
        self.ws.send(text.encode() if isinstance(text, str) else text)

    def run(self, command, pattern):
        start = len(self.out)
        self.type(command + "\n")
        return self.wait(pattern, start)

    def resize(self, cols, rows):
        self.ws.send({"type": "resize", "cols": cols, "rows": rows})

    def closed(self):
        with pytest.raises(Closed) as e:
            while True:
                self.step()
        return e.value.code

    def close(self):
        self.sock.close()

    def __enter__(self):
        return self

    def __exit__(self, *exc):
        self.close()


class _Picture(pyte.Screen):
    """pyte 0.8 takes some private sequences of vim (modifyOtherKeys) for the public ones of the same letter, and fails."""

    def select_graphic_rendition(self, *attrs, private=False):
        if not private:
            super().select_graphic_rendition(*attrs)

    def report_device_attributes(self, mode=0, **kwargs):
        pass


class Picture(Screen):
    """A viewer that draws: `lines` is the current screen."""

    def __init__(self, api, cols=80, rows=24, **options):
        self.picture = _Picture(cols, rows)
        self.feed = pyte.ByteStream(self.picture).feed
        super().__init__(api, cols=cols, rows=rows, **options)

    @property
    def lines(self):
        return [line.rstrip() for line in self.picture.display]

    def step(self):
        message = super().step()
        if isinstance(message, bytes):
            self.feed(message)
        return message

    def resize(self, cols, rows):
        self.picture.resize(rows, cols)
        super().resize(cols, rows)

    def sees(self, condition, seconds):
        """Reads until the picture fits; false when that takes too long, or nothing more comes."""
        end = time.monotonic() + seconds
        while not condition(self.lines):
            left = end - time.monotonic()
            if left < 0 or not (self.ws.rest or select.select([self.sock], [], [], left)[0]):
                return False
            self.step()
        return True

    def until(self, condition, what):
        assert self.sees(condition, DEADLINE), f"not seen: {what}\n" + "\n".join("|" + line for line in self.lines)

    def ask(self, keys, condition, what):
        """Types the keys until the condition holds: a program that redraws because of earlier input may erase the answer."""
        end = time.monotonic() + DEADLINE
        while time.monotonic() < end:
            self.type(keys)
            if self.sees(condition, 1):
                return
        self.until(condition, what)
