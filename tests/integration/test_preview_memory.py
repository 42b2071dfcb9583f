"""Viewers of previews that do not read: how much of the host's memory that fills, and that others are served meanwhile."""

import array
import contextlib
import ctypes
import os
import socket
import threading
import time

import boxapp
import pytest
from atoll import box_path, wait_for
from boxapi import Api

ALONE = "fills buffers of TCP, which are the host's, and judges how full they are"

MIB = 1 << 20
PIDFD_GETFD, SO_MEMINFO = 438, 55
ENDLESS = """
def handle(c):
    for h in heads(c):
        c.sendall(b"HTTP/1.1 200 OK\\r\\nContent-Length: 1000000000000\\r\\n\\r\\n")
        while True:
            c.sendall(bytes(1 << 20))
"""
ECHO = """
def handle(c):
    for h in heads(c):
        reply(c, b"from the app")
"""


def held(pid):
    """Bytes in the buffers of all TCP sockets of a process, in whichever network namespace: received and not read, sent and not taken."""
    libc, all_bytes, tcp = ctypes.CDLL(None), 0, {socket.AF_INET, socket.AF_INET6}
    pidfd = os.pidfd_open(pid)
    try:
        for name in os.listdir(f"/proc/{pid}/fd"):
            with contextlib.suppress(OSError):
                if not os.readlink(f"/proc/{pid}/fd/{name}").startswith("socket:"):
                    continue
                fd = libc.syscall(PIDFD_GETFD, pidfd, int(name), 0)
                if fd < 0:
                    continue
                with socket.socket(fileno=fd) as s:
                    if s.family in tcp:
                        memory = array.array("I", s.getsockopt(socket.SOL_SOCKET, SO_MEMINFO, 64))
                        all_bytes += memory[0] + memory[5]
    finally:
        os.close(pidfd)
    return all_bytes


@pytest.fixture
def hosts(daemon):
    """The hosts of two previews: one app answers without end, the other one at once."""
    found = []
    for box, app in (("memory-loud", ENDLESS), ("memory-quiet", ECHO)):
        boxapp.raw(Api(daemon, box), 8080, app)
        found.append(daemon.request("POST", box_path(box, "/ports/8080"), {}).json()["url"].split("/")[2])
    yield found
    for box in ("memory-loud", "memory-quiet"):
        daemon.destroy(box)


@contextlib.contextmanager
def viewers(daemon, host, count):
    with contextlib.ExitStack() as stack:
        conns = []
        for _ in range(count):
            s = stack.enter_context(socket.socket())
            s.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4096)
            s.connect((daemon.address.rsplit(":", 1)[0], int(daemon.address.rsplit(":", 1)[1])))
            s.sendall(f"GET / HTTP/1.1\r\nHost: {host}\r\n\r\n".encode())
            conns.append(s)
        yield conns


def settled(daemon):
    last = -1
    while (now := held(daemon.daemon_pid)) > last:
        last = now
        time.sleep(1.5)  # longer than from one look to the next
    return last


def others_are_served(daemon, host):
    r = daemon.request("GET", "/", headers={"Host": host}, unix=False, token=False)
    assert (r.status, r.text) == (200, "from the app")
    assert daemon.execute("memory-quiet", "echo well")["stdout"] == "well\n"


@pytest.mark.parametrize("count", [60, 200])
def test_viewers_that_do_not_read_fill_little(daemon, hosts, count):
    """60 of them filled 498 MiB."""
    before = held(daemon.daemon_pid)
    with viewers(daemon, hosts[0], count):
        settled(daemon)
        wait_for(lambda: held(daemon.daemon_pid) - before < 72 * MIB, "the bound on what waits")
        others_are_served(daemon, hosts[1])
    wait_for(lambda: held(daemon.daemon_pid) - before < MIB, "all is given back")


def test_viewers_that_read_a_little_keep_nothing_for_long(daemon, hosts):
    """Viewers have windows of their own choice: 16 of them, too few for smaller ones, hold more than the sum. Each reads a little,
    so a time of the last byte would show progress."""
    before = held(daemon.daemon_pid)
    with viewers(daemon, hosts[0], 16) as conns:
        stop = threading.Event()

        def dribble():
            while not stop.wait(1):
                for s in conns:
                    with contextlib.suppress(OSError):
                        s.recv(100, socket.MSG_DONTWAIT)
        reader = threading.Thread(target=dribble)
        reader.start()
        try:
            wait_for(lambda: daemon.logged("a viewer that does not read is reset"), "the log says so")
            wait_for(lambda: held(daemon.daemon_pid) - before <= 65 * MIB, "the bound on what waits")
            others_are_served(daemon, hosts[1])
        finally:
            stop.set()
            reader.join()
