"""A program at a terminal, for tests: it is started on a pseudo-terminal of its own, typed to, and watched."""

import contextlib
import fcntl
import os
import pty
import re
import select
import signal
import struct
import subprocess
import termios
import time

DEADLINE = 60  # seconds; for things that take milliseconds when they work


class Terminal:
    """with Terminal([program, …], env) as t: t.wait("prompt"); t.type("x\\r"); t.exit_code()"""

    def __init__(self, argv, env, cols=100, rows=30):
        self.out = b""
        self.master, slave = pty.openpty()
        self.resize(cols, rows, tell=False)
        self.before = termios.tcgetattr(slave)

        def become_leader():
            os.setsid()
            fcntl.ioctl(0, termios.TIOCSCTTY, 0)

        clean = {k: v for k, v in env.items() if k != "NO_COLOR"}
        self.process = subprocess.Popen(argv, env={**clean, "TERM": "xterm-256color"}, stdin=slave, stdout=slave,
                                        stderr=slave, preexec_fn=become_leader)
        self.slave = slave  # kept, so that what is left in it can still be read, and its modes be looked at

    def resize(self, cols, rows, tell=True):
        fcntl.ioctl(self.master, termios.TIOCSWINSZ, struct.pack("HHHH", rows, cols, 0, 0))
        if tell:
            self.process.send_signal(signal.SIGWINCH)

    def type(self, text):
        os.write(self.master, text.encode() if isinstance(text, str) else text)

    def step(self, seconds):
        """Reads the available output within the given time; False if none came."""
        if not select.select([self.master], [], [], seconds)[0]:
            return False
        with contextlib.suppress(OSError):
            self.out += os.read(self.master, 65536)
            return True
        return False

    def wait(self, pattern, start=0):
        """Until the output since `start` has it; returns where that ends."""
        pattern = pattern.encode() if isinstance(pattern, str) else pattern
        end = time.monotonic() + DEADLINE
        while not (found := re.compile(pattern, re.S).search(self.out, start)):
            assert time.monotonic() < end, f"no {pattern!r} in {self.out[start:][-3000:]!r}"
            self.step(0.5)
        return found.end()

    def exit_code(self):
        """Reads on until the program has ended."""
        end = time.monotonic() + DEADLINE
        while self.process.poll() is None:
            assert time.monotonic() < end, f"it does not end: {self.out[-3000:]!r}"
            self.step(0.1)
        while self.step(0):
            pass
        return self.process.returncode

    def modes(self):
        return termios.tcgetattr(self.slave)

    def is_raw(self):
        return not self.modes()[3] & (termios.ICANON | termios.ECHO)

    def is_as_before(self):
        return self.modes() == self.before

    def __enter__(self):
        return self

    def __exit__(self, *exc):
        if self.process.poll() is None:
            self.process.kill()
            self.process.wait()
        os.close(self.master)
        os.close(self.slave)
