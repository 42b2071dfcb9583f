"""The protocol with the agent: frames over a stream socket (docs/design/008-interpreter.md).

u32 length (little-endian) of type and payload, one byte type, payload: one JSON object in ASCII. The socket is moved to a high
number with close-on-exec, so that user code which closes 3, or everything below 100, does not cut the line, and no
program that it starts inherits it.
"""

from __future__ import annotations

import fcntl
import json
import os
import struct

from . import interrupts

# As they are now: user code may put others into os, for a test of its own, say.
_read, _write, _exit = os.read, os.write, os._exit

HIGH = 1030
"""Where private descriptors begin: above the numbers that code closes when it closes "all" descriptors."""

_RUN = ord("R")

LATE_MAX = 100
"""Results that threads may show between two runs; they come with the next."""


def move_high(fd: int) -> int:
    """A private copy of a descriptor, out of the way of user code."""
    for least in (HIGH, 500, 64, 10):
        try:
            return fcntl.fcntl(fd, fcntl.F_DUPFD_CLOEXEC, least)
        except OSError:  # above the limit of open files
            continue
    raise OSError(f"cannot keep a private copy of descriptor {fd}")


class Channel:
    """The socket. `running` says that a run is under way: only then may results be sent and S be asked."""

    def __init__(self, fd: int) -> None:
        self.fd = move_high(fd)
        os.close(fd)
        self.running = False
        self.forked = False
        self.late: list[str] = []

    def receive(self) -> tuple[str, dict]:
        """The next frame. The end of the line is the end of the process: the context was deleted."""
        size, kind = struct.unpack("<IB", self._exactly(5))
        if kind == _RUN:
            interrupts.expect()
        body = self._exactly(size - 1)
        return chr(kind), json.loads(body)

    def send(self, kind: str, payload: str) -> None:
        """One frame, whole: interrupts wait until it has been sent."""
        interrupts.enter()
        try:
            self._put(kind, payload)
        finally:
            interrupts.leave()

    def done(self, payload: str) -> None:
        """The frame that ends a run. No thread can ask S after it."""
        interrupts.enter()
        try:
            self.running = False
            self._put("D", payload)
        finally:
            interrupts.leave()

    def begin(self) -> None:
        """A run begins, with the results that threads have shown since the last run."""
        interrupts.enter()
        try:
            self.running = True
            late, self.late = self.late, []
            for payload in late:
                self._put("E", payload)
            if late:
                self._sync()
        finally:
            interrupts.leave()

    def result(self, payload: str, more: bool) -> None:
        """A result. `more`: output may follow, which must not overtake it."""
        interrupts.enter()
        try:
            if self.running:
                self._put("E", payload)
                if more and not self.forked:
                    self._sync()
            elif len(self.late) < LATE_MAX:
                self.late.append(payload)
        finally:
            interrupts.leave()

    def sync(self) -> None:
        """Returns when the agent has passed on all that was written to the pipes before. From any thread."""
        interrupts.enter()
        try:
            if self.running and not self.forked:
                self._sync()
        finally:
            interrupts.leave()

    def after_fork(self) -> None:
        """In a child that user code forked: it has no part in the protocol."""
        self.forked = True
        os.close(self.fd)

    def _sync(self) -> None:
        self._put("S", "{}")
        kind, _ = self.receive()
        if kind != "S":
            _exit(1)  # the agent and we disagree about the protocol: nothing that follows would be true

    def _put(self, kind: str, payload: str) -> None:
        if self.forked:
            return
        data = memoryview(struct.pack("<IB", len(payload) + 1, ord(kind)) + payload.encode("ascii"))
        try:
            while data:
                data = data[_write(self.fd, data) :]
        except OSError:
            _exit(0)

    def _exactly(self, size: int) -> bytes:
        parts = []
        while size:
            try:
                part = _read(self.fd, min(size, 1 << 20))
            except OSError:
                part = b""
            if not part:
                _exit(0)
            parts.append(part)
            size -= len(part)
        return parts[0] if len(parts) == 1 else b"".join(parts)
