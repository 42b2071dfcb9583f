"""Commands in a container: POST …/exec, and the stream that workerd and docker take over with Upgrade: tcp."""

import json
import socket
import struct
import threading

import pytest
from atoll import DEADLINE, wait_for
from dockersock import execute


class Stream:
    """POST /exec/E/start as workerd sends it."""

    def __init__(self, docker, ident, wish):
        body = json.dumps(wish).encode()
        self.sock = socket.socket(socket.AF_UNIX)
        self.sock.settimeout(DEADLINE)
        self.sock.connect(docker.path)
        self.sock.sendall(b"POST /exec/%s/start HTTP/1.1\r\nHost: localhost\r\nConnection: Upgrade\r\nUpgrade: tcp\r\nContent-Type: application/json\r\n"
                          b"Content-Length: %d\r\n\r\n%s" % (ident.encode(), len(body), body))
        head = b""
        while b"\r\n\r\n" not in head:
            head += self.sock.recv(1)
        self.status = int(head.split()[1])

    def end_input(self):
        self.sock.shutdown(socket.SHUT_WR)

    def exactly(self, n):
        out = b""
        while len(out) < n:
            piece = self.sock.recv(n - len(out))
            if not piece:
                return out
            out += piece
        return out

    def frame(self):
        """(stream, bytes), or None at the end."""
        head = self.exactly(8)
        if not head:
            return None
        stream, length = struct.unpack(">BxxxI", head)
        return stream, self.exactly(length)

    def all(self):
        """{stream: bytes} until its end."""
        out = {1: b"", 2: b""}
        while f := self.frame():
            out[f[0]] += f[1]
        return out

    def raw(self, end=None):
        """Without frames: all, or until that is there."""
        out = b""
        while piece := self.sock.recv(65536):
            out += piece
            if end and end in out:
                break
        return out

    def __enter__(self):
        return self

    def __exit__(self, *exc):
        self.sock.close()


def make(docker, *cmd, **more):
    status, answer = docker.ask("POST", "/containers/c/exec", {"AttachStdin": True, "AttachStdout": True, "AttachStderr": True, "Cmd": list(cmd), **more})
    assert status == 201, answer
    return answer["Id"]


def about(docker, ident):
    status, answer = docker.ask("GET", f"/exec/{ident}/json")
    assert status == 200, answer
    return answer


def start(docker, ident, **wish):
    s = Stream(docker, ident, {"Detach": False, "Tty": False, **wish})
    assert s.status == 101
    return s


@pytest.fixture
def box(docker):
    assert docker.build().returncode == 0
    docker.run("c", env=["A=1"])
    return docker


def test_two_streams_and_a_code(box):
    ident = make(box, "sh", "-c", "echo out $A $B $(pwd); echo err >&2; exit 3", Env=["B=2"], WorkingDir="/tmp")
    assert about(box, ident) == {**about(box, ident), "Running": False, "ExitCode": None, "Pid": 0}
    with start(box, ident) as s:
        assert s.all() == {1: b"out 1 2 /tmp\n", 2: b"err\n"}
    ended = about(box, ident)
    assert not ended["Running"] and ended["ExitCode"] == 3 and ended["Pid"] > 0
    # Once only.
    assert box.ask("POST", f"/exec/{ident}/start", {"Detach": True})[0] == 409


def test_input_and_its_end(box):
    data = bytes(range(256)) * 20000  # 5 MB, both ways at once
    ident = make(box, "cat")
    with start(box, ident) as s:
        wait_for(lambda: about(box, ident)["Pid"], "it runs")
        s.sock.sendall(b"hello\n")
        assert s.frame() == (1, b"hello\n")
        got = []

        def read():
            got.append(s.all()[1])
        t = threading.Thread(target=read)
        t.start()
        s.sock.sendall(data)
        s.end_input()
        t.join()
        assert got[0] == data
    assert about(box, ident)["ExitCode"] == 0


def test_input_that_comes_with_the_request(box):
    """Bytes behind the body belong to the command, also those of the same packet."""
    ident, body = make(box, "cat"), b'{"Detach":false,"Tty":false}'
    with socket.socket(socket.AF_UNIX) as s:
        s.settimeout(DEADLINE)
        s.connect(box.path)
        s.sendall(b"POST /exec/%s/start HTTP/1.1\r\nHost: x\r\nConnection: Upgrade\r\nUpgrade: tcp\r\nContent-Length: %d\r\n\r\n%searly\n"
                  % (ident.encode(), len(body), body))
        s.shutdown(socket.SHUT_WR)
        out = b""
        while piece := s.recv(65536):
            out += piece
    assert out.startswith(b"HTTP/1.1 101 ") and out.endswith(b"\x01\0\0\0\0\0\0\x06early\n"), out


def test_a_terminal_and_its_size(box):
    ident = make(box, "sh", "-c", "stty size; read x; stty size; test -t 0 && test -t 1 && echo tty $x; exit 4", Tty=True)
    with start(box, ident, Tty=True, ConsoleSize=[30, 100]) as s:
        assert s.raw(b"30 100\r\n")
        assert box.ask("POST", f"/exec/{ident}/resize?h=50&w=120")[0] == 200
        s.sock.sendall(b"word\n")
        out = s.raw()
        assert b"50 120\r\n" in out and b"tty word\r\n" in out, out
    assert about(box, ident)["ExitCode"] == 4
    assert box.ask("POST", f"/exec/{ident}/resize?h=50&w=120")[0] == 409


def test_a_command_that_cannot_be_started(box):
    for tty in (False, True):
        ident = make(box, "none-such", Tty=tty)
        with start(box, ident, Tty=tty) as s:
            assert b"none-such" in s.raw()
        assert about(box, ident)["ExitCode"] == 127


@pytest.mark.parametrize("tty", [False, True])
def test_a_command_outlives_its_client(box, tty):
    """As in Docker: its output is read away, and its code is told."""
    port = box.port("c")
    ident = make(box, "sh", "-c", "echo here; until test -e /tmp/go; do sleep 0.1; done; head -c 3000000 /dev/zero; exit 6", Tty=tty)
    with start(box, ident, Tty=tty) as s:
        assert s.sock.recv(1)
    assert about(box, ident)["Running"]
    execute(port, "touch /tmp/go")
    wait_for(lambda: not about(box, ident)["Running"], "its end")
    assert about(box, ident)["ExitCode"] == 6


def test_detached(box):
    port = box.port("c")
    ident = make(box, "sh", "-c", "cat; echo done >/tmp/done; exit 5")
    assert box.ask("POST", f"/exec/{ident}/start", {"Detach": True})[0] == 200
    wait_for(lambda: about(box, ident)["ExitCode"] == 5, "its end")
    assert execute(port, "cat /tmp/done")["stdout"] == "done\n"


def test_the_end_of_the_container_ends_it(box):
    ident = make(box, "sleep", "600")
    with start(box, ident) as s:
        wait_for(lambda: about(box, ident)["Pid"], "it runs")
        assert box.ask("DELETE", "/containers/c?force=true")[0] == 204
        s.raw()
    assert box.ask("GET", f"/exec/{ident}/json")[0] == 404


def test_wrong_execs(box):
    for body in ({}, {"Cmd": []}, {"Cmd": "ls"}, {"Cmd": [1]}, [], {"Cmd": ["ls"], "User": "nobody"}, {"Cmd": ["ls"], "Privileged": True}):
        status, error = box.ask("POST", "/containers/c/exec", body)
        assert status == 400 and set(error) == {"message"}, (body, error)
    assert "User" in box.ask("POST", "/containers/c/exec", {"Cmd": ["ls"], "User": "nobody"})[1]["message"]
    for method, path in (("GET", "/exec/none/json"), ("POST", "/exec/none/start"), ("POST", "/exec/none/resize?h=1&w=1"), ("GET", "/exec")):
        status, error = box.ask(method, path)
        assert status == 404 and error["message"], (path, error)
    ident = make(box, "true")
    assert box.ask("POST", f"/exec/{ident}/start", {"Detach": False})[0] == 400  # without Upgrade
    assert box.ask("POST", f"/exec/{ident}/resize?h=0&w=x")[0] == 400
    assert box.ask("POST", "/containers/c/kill?signal=SIGKILL")[0] == 204
    assert box.ask("POST", "/containers/c/exec", {"Cmd": ["ls"]})[0] == 409
    assert box.ask("POST", f"/exec/{ident}/start", {"Detach": True})[0] == 409
