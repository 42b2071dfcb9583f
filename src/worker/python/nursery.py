"""A zygote inside one box, for images whose code is a user's: it has no privilege and joins nothing. Its forks are workers of the same box.

The agent asks by writing a serial number into a pipe. The worker that this forks sends the agent its ends of a socket and two pipes, as the
shared zygote's children do (src/proto/zygote.h). The box's packages may change: then the nursery refuses and ends, and the agent starts another.
"""

import array
import errno
import gc
import os
import socket
import struct

from . import main as worker
from .zygote import Image

REPLY, ASK = 3, 5  # descriptors; 4 was the worker's text
RECORD = struct.Struct("=IIi")  # struct zygote_reply
SERIAL = struct.Struct("=I")
MAGIC = 0x41545A31


def _say(serial: int, error: int, fds: tuple = ()) -> None:
    reply = socket.socket(fileno=REPLY)
    try:
        with_fds = [(socket.SOL_SOCKET, socket.SCM_RIGHTS, array.array("i", fds))] if fds else []
        reply.sendmsg([RECORD.pack(MAGIC, serial, error)], with_fds)
    finally:
        reply.detach()


def _become_worker(serial: int) -> None:
    """In a fork of a fork, which the agent inherits: it must be the one that reaps workers."""
    os.setsid()
    ours, theirs = socket.socketpair()
    out, out_end = os.pipe()
    err, err_end = os.pipe()
    _say(serial, 0, (ours.fileno(), out, err))
    for fd, number in ((out_end, 1), (err_end, 2), (theirs.detach(), 3)):
        os.dup2(fd, number)
        os.close(fd)
    ours.close()
    for fd in (out, err, ASK):
        os.close(fd)
    worker.reseed()
    worker.serve()


def _fork_worker(serial: int) -> None:
    pid = os.fork()
    if pid:
        os.waitpid(pid, 0)
        return
    try:
        if os.fork() == 0:
            _become_worker(serial)
    finally:
        os._exit(0)


def main() -> None:
    """Serves until the agent is gone, or until the box has other packages."""
    os.set_inheritable(REPLY, False)
    os.set_inheritable(ASK, False)
    worker.preload()
    image = Image(os.path.expanduser("~"))
    gc.collect()
    gc.freeze()
    _say(0, 0)
    while len(asked := os.read(ASK, SERIAL.size)) == SERIAL.size:
        (serial,) = SERIAL.unpack(asked)
        if not image.fits():
            _say(serial, errno.ESTALE)
            break
        _fork_worker(serial)
    os._exit(0)
