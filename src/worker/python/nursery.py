"""A zygote inside one box, for images whose code is a user's: it has no privilege and joins nothing. Its forks are workers of the same box.

The agent asks by writing a serial number into a pipe. The worker that gets it, forked ahead where there was time, sends the agent its ends of a
socket and two pipes, as the shared zygote's children do (src/proto/zygote.h). The box's packages may change: then the nursery refuses
and ends, and the agent starts another.
"""

import array
import errno
import gc
import os
import select
import socket
import struct

from . import main as worker
from .zygote import Image

REPLY, ASK = 3, 5  # descriptors; 4 was the worker's text
RECORD = struct.Struct("=IIi")  # struct zygote_reply
SERIAL = struct.Struct("=I")
MAGIC = 0x41545A32
SPARE_DELAY = 0.01
"""Seconds."""


def _say(serial: int, error: int, fds: tuple = ()) -> None:
    reply = socket.socket(fileno=REPLY)
    try:
        with_fds = [(socket.SOL_SOCKET, socket.SCM_RIGHTS, array.array("i", fds))] if fds else []
        reply.sendmsg([RECORD.pack(MAGIC, serial, error)], with_fds)
    finally:
        reply.detach()


def _become_worker(begin: int) -> None:
    """In a fork of a fork, which the agent inherits: it must be the one that reaps workers. Waits until it is asked for, or the nursery ends."""
    os.setsid()
    os.close(ASK)
    ours, theirs = socket.socketpair()
    out, out_end = os.pipe()
    err, err_end = os.pipe()
    asked = os.read(begin, SERIAL.size)
    if len(asked) != SERIAL.size:
        return
    os.close(begin)
    _say(*SERIAL.unpack(asked), 0, (ours.fileno(), out, err))
    for fd, number in ((out_end, 1), (err_end, 2), (theirs.detach(), 3)):
        os.dup2(fd, number)
        os.close(fd)
    ours.close()
    for fd in (out, err):
        os.close(fd)
    worker.reseed()
    worker.serve()


def _fork_worker() -> int:
    """A worker that waits for its serial number on the pipe whose end this returns."""
    begin, end = os.pipe()
    pid = os.fork()
    if pid:
        os.close(begin)
        os.waitpid(pid, 0)
        return end
    try:
        if os.fork() == 0:
            os.close(end)
            _become_worker(begin)
    finally:
        os._exit(0)


class Spare:
    """One worker that was forked ahead: two forks of a process with a hundred megabytes take longer than all else in a new context."""

    def __init__(self) -> None:
        self.end = -1

    def prepare(self) -> None:
        if self.end < 0:
            self.end = _fork_worker()

    def give(self, asked: bytes) -> None:
        """The user may have killed the worker meanwhile: then another one is forked."""
        for _ in range(2):
            self.prepare()
            end, self.end = self.end, -1
            try:
                os.write(end, asked)
                return
            except BrokenPipeError:
                continue
            finally:
                os.close(end)


def _read_ask(spare: Spare) -> bytes:
    """The next serial number. A moment after the last one, when its worker has the processor no more, the spare is made."""
    if not select.select([ASK], [], [], SPARE_DELAY)[0]:
        spare.prepare()
    return os.read(ASK, SERIAL.size)


def main() -> None:
    """Serves until the agent is gone, or until the box has other packages."""
    os.set_inheritable(REPLY, False)
    os.set_inheritable(ASK, False)
    worker.preload()
    image = Image(os.path.expanduser("~"))
    gc.collect()
    gc.freeze()
    _say(0, 0)
    spare = Spare()
    while len(asked := _read_ask(spare)) == SERIAL.size:
        if not image.fits():
            _say(*SERIAL.unpack(asked), errno.ESTALE)
            break
        spare.give(asked)
    os._exit(0)
