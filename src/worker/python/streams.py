"""sys.stdout, sys.stderr and print.

Descriptors 1 and 2 are pipes to the agent, and everything goes through them at once, so output of Python, C code and child processes
to one stream is in order by itself. Between the two streams, a writer first looks whether something still lies in
the other pipe, and if so waits until the agent has taken it.
"""

from __future__ import annotations

import builtins
import ctypes
import fcntl
import io
import os
import sys
import termios

from . import interrupts, limits, wire

_EMPTY = b"\0\0\0\0"
_channel = None
_out = None
_err = None
_libc = None
_original_print = builtins.print


class Stream(io.TextIOWrapper):
    """A text stream that holds nothing back."""

    def __init__(self, fd: int, other_pipe: int, name: str) -> None:
        raw = io.FileIO(fd, "w", closefd=False)
        raw.name = name
        super().__init__(io.BufferedWriter(raw), encoding="utf-8", errors="backslashreplace", newline="\n")
        self.mode = "w"
        self._other_pipe = other_pipe

    def write(self, text: str) -> int:
        if not isinstance(text, str):
            raise TypeError(f"write() argument must be str, not {type(text).__name__}")
        if fcntl.ioctl(self._other_pipe, termios.FIONREAD, _EMPTY) != _EMPTY:
            _channel.sync()
        if len(text) <= limits.WRITE_CHARS:
            super().write(text)
            self.flush()
        else:
            for start in range(0, len(text), limits.WRITE_CHARS):
                super().write(text[start : start + limits.WRITE_CHARS])
                self.flush()
        return len(text)

    def writelines(self, lines) -> None:
        for line in lines:
            self.write(line)

    def isatty(self) -> bool:
        return False


def atomic_print(*values, sep=None, end=None, file=None, flush=False) -> None:
    """Prints the values to a stream, or to sys.stdout by default.

    sep
      string inserted between values, default a space.
    end
      string appended after the last value, default a newline.
    file
      a file-like object (stream); defaults to the current sys.stdout.
    flush
      whether to forcibly flush the stream.
    """
    # The built-in one writes each piece by itself, and each would become an event of its own. Unusual calls go to it.
    stream = getattr(sys, "stdout", None) if file is None else file
    if type(stream) is not Stream or not (sep is None or type(sep) is str) or not (end is None or type(end) is str):
        return _original_print(*values, sep=sep, end=end, file=file, flush=flush)
    end = "\n" if end is None else end
    if len(values) == 1:
        text = str(values[0])
    else:
        text = (" " if sep is None else sep).join([str(value) for value in values])
    if len(text) > limits.WRITE_CHARS:
        stream.write(text)
        stream.write(end)
    elif text or end:
        stream.write(text + end)
    return None


atomic_print.__name__ = atomic_print.__qualname__ = "print"
atomic_print.__module__ = "builtins"


def prepare() -> None:
    """C's own stdout without a buffer. Once: a zygote does it for its children."""
    global _libc
    if _libc is not None:
        return
    try:
        _libc = ctypes.CDLL(None)
        _libc.setvbuf(ctypes.c_void_p.in_dll(_libc, "stdout"), None, 2, ctypes.c_size_t(0))  # 2: _IONBF
        _libc.fflush(None)
    except (OSError, ValueError, AttributeError):  # another libc: its output then comes when it flushes
        _libc = False


def install(channel) -> None:
    """Once per process: private copies of the pipes, the streams, print."""
    global _channel, _out, _err
    _channel = channel
    _out, _err = wire.move_high(1), wire.move_high(2)
    sys.stdout = sys.__stdout__ = Stream(1, _err, "<stdout>")
    sys.stderr = sys.__stderr__ = Stream(2, _out, "<stderr>")
    builtins.print = atomic_print
    prepare()


def flush() -> None:
    """Everything that may still sit in a buffer: of replaced streams, of sys.stdout.buffer, of C."""
    interrupts.hold_others()  # what a handler raises is no failure of a stream
    try:
        for name in ("stdout", "stderr"):
            try:
                getattr(sys, name).flush()
            except Exception:  # noqa: BLE001 (closed, replaced by something else: not our business)
                pass
        if _libc:
            _libc.fflush(None)
    finally:
        interrupts.free_others()


def restore() -> None:
    """After a run: restores streams that user code closed or pointed elsewhere. A sys.stdout that it replaced stays replaced."""
    for fd, kept in ((1, _out), (2, _err)):
        if not _same(fd, kept):
            os.dup2(kept, fd)
    if not _usable("__stdout__"):
        sys.__stdout__ = Stream(1, _err, "<stdout>")
    if not _usable("__stderr__"):
        sys.__stderr__ = Stream(2, _out, "<stderr>")
    if not _usable("stdout"):
        sys.stdout = sys.__stdout__
    if not _usable("stderr"):
        sys.stderr = sys.__stderr__
    if not _usable("stdin"):
        sys.stdin = open(os.devnull, encoding="utf-8")  # noqa: SIM115 (exit() closes it)


def _usable(name: str) -> bool:
    try:
        return not getattr(sys, name).closed
    except Exception:  # noqa: BLE001 (deleted, detached, None, of another type)
        return False


def _same(fd: int, kept: int) -> bool:
    try:
        a, b = os.fstat(fd), os.fstat(kept)
    except OSError:
        return False
    return a.st_ino == b.st_ino and a.st_dev == b.st_dev
