"""A compromised agent: whatever answers on a box's socket is hostile to the daemon.

Inside a box nobody can take the agent's socket (the check steal-agent-socket), so the host's side puts another server in its
place: the daemon connects to the same path and talks to an attacker.
"""
import contextlib
import os
import socket
import struct
import threading

import atoll as lib
import escape
import pytest

HEAD = b"HTTP/1.1 200 OK\r\nContent-Type: application/json\r\n"


def agent_socket(daemon, box):
    """The path that the daemon connects to, by the inode of init's listening socket."""
    init = escape.init_of(daemon, box)
    inodes = set()
    for fd in (lib.Path("/proc") / str(init) / "fd").iterdir():
        with contextlib.suppress(OSError):
            inodes.add(os.readlink(fd).removeprefix("socket:[").rstrip("]"))

    def listening():
        # The warden made the socket in its own network namespace, and now and then is in a box's for a moment.
        for line in lib.Path(f"/proc/{daemon.warden_pid}/net/unix").read_text().splitlines()[1:]:
            fields = line.split()
            if len(fields) == 8 and fields[6] in inodes and fields[3] == "00010000":  # listens
                return daemon.run / "s" / lib.Path(fields[7]).name
        return None

    return lib.wait_for(listening, f"the socket of {box} is found")


@contextlib.contextmanager
def impostor(daemon, box, answer):
    """Answers every connection with answer(socket), after its first bytes came."""
    path = agent_socket(daemon, box)
    stat, aside = path.stat(), path.with_suffix(".aside")
    server = socket.socket(socket.AF_UNIX)
    os.rename(path, aside)
    threads = []
    try:
        server.bind(str(path))
        os.chown(path, stat.st_uid, stat.st_gid)
        os.chmod(path, 0o600)
        server.listen(16)

        def serve(conn):
            with conn, contextlib.suppress(OSError):
                conn.settimeout(lib.DEADLINE)
                conn.recv(65536)
                answer(conn)

        def accept():
            with contextlib.suppress(OSError):
                while True:
                    thread = threading.Thread(target=serve, args=(server.accept()[0],))
                    thread.start()
                    threads.append(thread)

        acceptor = threading.Thread(target=accept)
        acceptor.start()
        yield
    finally:
        server.shutdown(socket.SHUT_RDWR)
        server.close()
        acceptor.join()
        for thread in threads:
            thread.join()
        os.rename(aside, path)


def rss(pid):
    status = (lib.Path("/proc") / str(pid) / "status").read_text()
    return int(status.split("VmRSS:")[1].split()[0]) * 1024


def endless(chunk):
    def answer(conn):
        for _ in range(4096):  # 256 MiB at most
            conn.sendall(chunk)
    return answer


def saying(data):
    return lambda conn: conn.sendall(data)


BROKEN = {
    "nothing": saying(b""),
    "not-http": saying(b"\x00\xff\xfe garbage \r\n\r\n"),
    "http-0.9": saying(b"hello\r\n"),
    "http-2": saying(b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n"),
    "status-zero": saying(b"HTTP/1.1 000 x\r\nContent-Length: 0\r\n\r\n"),
    "status-4-digits": saying(b"HTTP/1.1 2000 x\r\nContent-Length: 0\r\n\r\n"),
    "two-lengths": saying(HEAD + b"Content-Length: 2\r\nContent-Length: 3\r\n\r\n{} "),
    "length-and-chunks": saying(HEAD + b"Content-Length: 2\r\nTransfer-Encoding: chunked\r\n\r\n2\r\n{}\r\n0\r\n\r\n"),
    "negative-length": saying(HEAD + b"Content-Length: -1\r\n\r\n"),
    "huge-length": saying(HEAD + b"Content-Length: 99999999999999999999\r\n\r\n"),
    "bare-lf": saying(b"HTTP/1.1 200 OK\nContent-Length: 0\n\n"),
    "folded": saying(b"HTTP/1.1 200 OK\r\nX: a\r\n b\r\nContent-Length: 0\r\n\r\n"),
    "nul-in-header": saying(b"HTTP/1.1 200 OK\r\nX: a\0b\r\nContent-Length: 0\r\n\r\n"),
    "cr-in-header": saying(b"HTTP/1.1 200 OK\r\nX: a\rSet-Cookie: x=1\r\nContent-Length: 0\r\n\r\n"),
    "switch-unasked": saying(b"HTTP/1.1 101 Switching Protocols\r\nConnection: Upgrade\r\nUpgrade: x\r\n\r\n"),
    "endless-head": endless(b"HTTP/1.1 200 OK\r\n" + b"X-Filler: " + b"y" * 1000 + b"\r\n"),
    "endless-line": endless(b"H" * 65536),
    "endless-continue": endless(b"HTTP/1.1 100 Continue\r\n\r\n" * 1000),
    "many-headers": saying(b"HTTP/1.1 200 OK\r\n" + b"A: b\r\n" * 5000 + b"Content-Length: 0\r\n\r\n"),
}


def make(daemon, box):
    """A box that runs and that the daemon has not spoken to: no kept connection leads to its real agent."""
    reply = daemon.request("PUT", lib.box_path(box), {})
    assert reply.status in (200, 201), reply


def test_descriptors_in_an_answer_do_not_hold_the_daemon(daemon, box):
    """A TCP socket with unsent data and SO_LINGER blocks whoever closes it last: the daemon, did it take it."""
    probe = socket.socket(socket.AF_UNIX)
    with probe:
        try:
            probe.setsockopt(socket.SOL_SOCKET, 83, 0)  # SO_PASSRIGHTS
        except OSError:
            pytest.skip("this kernel has no SO_PASSRIGHTS (6.16)")
    refused = []

    def answer(conn):
        with contextlib.closing(socket.create_server(("127.0.0.1", 0))) as server:
            silent = socket.create_connection(server.getsockname())
            lingering, _ = server.accept()
            lingering.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 60))
            lingering.setblocking(False)
            with contextlib.suppress(BlockingIOError):
                while True:
                    lingering.send(b"x" * 65536)
            try:
                conn.sendmsg([HEAD], [(socket.SOL_SOCKET, socket.SCM_RIGHTS, struct.pack("i", lingering.fileno()))])
            except PermissionError:
                refused.append(True)
                conn.sendall(HEAD)
            conn.sendall(b"Content-Length: 2\r\n\r\n{}")
            lingering.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
            lingering.close()
            silent.close()

    make(daemon, box)
    with impostor(daemon, box, answer):
        assert daemon.request("GET", lib.box_path(box, "/api/ping")).status == 200
    assert refused
    assert daemon.request("GET", "/v1/health").status == 200


@pytest.mark.parametrize("kind", BROKEN)
def test_broken_answer_is_a_bad_gateway(daemon, box, kind):
    make(daemon, box)
    pid, before = daemon.daemon_pid, rss(daemon.daemon_pid)
    with impostor(daemon, box, BROKEN[kind]):
        reply = daemon.request("GET", lib.box_path(box, "/api/ping"))
        assert reply.status >= 500, reply
        assert reply.json()["code"] in ("BAD_GATEWAY", "CONTAINER_LOST", "CONTAINER_UNAVAILABLE", "GATEWAY_TIMEOUT"), reply
        assert "set-cookie" not in {k.lower() for k in reply.headers}
    assert daemon.daemon_pid == pid
    assert rss(pid) < before + 16 * 1024 * 1024
    assert escape.execute(daemon, box, "echo real")["stdout"] == "real\n"


BODIES = {
    "short-body": HEAD + b"Content-Length: 100\r\n\r\n{}",
    "bad-chunk": HEAD + b"Transfer-Encoding: chunked\r\n\r\nzz\r\n{}\r\n0\r\n\r\n",
    "chunk-without-end": HEAD + b"Transfer-Encoding: chunked\r\n\r\n2\r\n{}XX0\r\n\r\n",
    "huge-chunk": HEAD + b"Transfer-Encoding: chunked\r\n\r\nffffffffffffffff\r\n{}",
}


@pytest.mark.parametrize("kind", BODIES)
def test_broken_body_never_looks_complete(daemon, box, kind):
    """The head is out already: the client's connection must break, not end as if all were there."""
    make(daemon, box)
    with impostor(daemon, box, saying(BODIES[kind])):
        data = daemon.raw(f"GET {lib.box_path(box, '/api/ping')} HTTP/1.1\r\nHost: x\r\nConnection: close\r\n\r\n".encode(), unix=True)
    head, _, body = data.partition(b"\r\n\r\n")
    if head.startswith(b"HTTP/1.1 502 "):
        return  # seen before the head went out
    assert head.startswith(b"HTTP/1.1 200 "), data
    if b"\r\ntransfer-encoding: chunked" in head.lower():
        assert not body.endswith(b"0\r\n\r\n"), data
    else:
        assert b"\r\ncontent-length: 100" in head.lower() and len(body) < 100, data


def test_endless_body_costs_bounded_memory(daemon, box):
    """The client does not read: the daemon stops reading too."""
    make(daemon, box)
    pid, before = daemon.daemon_pid, rss(daemon.daemon_pid)
    sent, stalled = [0], threading.Event()

    def flood(conn):
        conn.sendall(HEAD + b"\r\n")
        conn.settimeout(2)
        try:
            while sent[0] < 1 << 28:
                sent[0] += conn.send(b"x" * 65536)
        except socket.timeout:
            stalled.set()

    with impostor(daemon, box, flood), daemon.connect(unix=True) as client:
        client.sendall(f"GET {lib.box_path(box, '/api/ping')} HTTP/1.1\r\nHost: x\r\n\r\n".encode())
        assert stalled.wait(lib.DEADLINE), "the daemon goes on reading"
        assert sent[0] < 16 * 1024 * 1024
        assert rss(pid) < before + 8 * 1024 * 1024
    assert daemon.daemon_pid == pid


def test_silent_agent_stops_nobody_else(daemon, box):
    """Twenty requests hang in one box; another one answers as always, and the client's going away frees them."""
    other = box + "-o"
    release = threading.Event()
    make(daemon, box)
    try:
        with impostor(daemon, box, lambda conn: release.wait(20)):
            waiting = [daemon.connect(unix=True) for _ in range(20)]
            for client in waiting:
                client.sendall(f"GET {lib.box_path(box, '/api/ping')} HTTP/1.1\r\nHost: x\r\n\r\n".encode())
            assert escape.execute(daemon, other, "echo hi")["stdout"] == "hi\n"
            assert daemon.request("GET", "/v1/health").status == 200
            for client in waiting:
                client.close()
            release.set()
        assert escape.execute(daemon, box, "echo real")["stdout"] == "real\n"
    finally:
        release.set()
        daemon.destroy(other)
