"""Servers inside a box, for tests of the ways to them. A RawApp is a few lines of Python that get a connected socket: it
can answer like any server, and like none."""

import select
import textwrap
import uuid

from atoll import DEADLINE, SANITIZED, box_path, wait_for
from boxapi import memory_kb

_PROLOGUE = """
import hashlib, json, os, socket, struct, sys, threading, time

PORT = {port}

def head(c, rest=b""):
    "The head of a request and what came behind it; (b'', b'') at the end."
    data = rest
    while b"\\r\\n\\r\\n" not in data:
        chunk = c.recv(65536)
        if not chunk:
            return b"", b""
        data += chunk
    h, _, rest = data.partition(b"\\r\\n\\r\\n")
    return h + b"\\r\\n\\r\\n", rest

def heads(c):
    "The heads of one request after the other, for servers that read no bodies."
    rest = b""
    while True:
        h, rest = head(c, rest)
        if not h:
            return
        yield h

def reply(c, body=b"", status="200 OK", extra=b""):
    c.sendall(b"HTTP/1.1 " + status.encode() + b"\\r\\n" + extra + b"Content-Length: %d\\r\\n\\r\\n" % len(body) + body)

def note(text):
    with open("/tmp/notes-%d" % PORT, "a") as f:
        f.write(text + "\\n")

def reset(c):
    c.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
    c.close()
"""

_EPILOGUE = """
def one(c):
    try:
        handle(c)
    except OSError as e:
        note("oserror " + str(e))
    finally:
        c.close()

s = socket.socket({family})
s.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
s.bind(("{address}", PORT))
s.listen(512)
open("{ready}", "w").close()
while True:
    c, _ = s.accept()
    threading.Thread(target=one, args=(c,), daemon=True).start()
"""


class App:
    """A server on a port of a box. `api` is a boxapi.Api."""

    def __init__(self, api, port):
        self.api, self.daemon, self.port = api, api.daemon, port

    def path(self, path="/"):
        return box_path(self.api.box, f"/proxy/{self.port}{path}")

    def get(self, path="/", method="GET", body=None, **options):
        return self.daemon.request(method, self.path(path), body, **options)

    def notes(self):
        return self.api.run(f"cat /tmp/notes-{self.port} 2>/dev/null")["stdout"].splitlines()

    def start(self, command, ready):
        """Runs a server in the background and waits until `ready`, a shell condition, holds."""
        answer = self.api.ok("/api/process/start", command=command)
        limit = DEADLINE * 20
        done = self.api.run(f"for i in $(seq {limit}); do if {ready}; then exit 0; fi; sleep 0.05; done; exit 1")
        if done["exitCode"] != 0:
            logs = self.api.call(f"/api/process/{answer['processId']}/logs", method="GET")
            raise AssertionError(f"the server did not start: {logs}")
        return self


def listens(port):
    """The shell condition that something listens there, without connecting to it."""
    return f"grep -qi ':{port:04X} 0*:0000 0A' /proc/net/tcp /proc/net/tcp6"


def raw(api, port, handle, address="127.0.0.1"):
    """handle: source of `def handle(c)`, run in a thread for each connection."""
    ready = f"/tmp/ready-{uuid.uuid4().hex}"
    family = "socket.AF_INET6" if ":" in address else "socket.AF_INET"
    source = _PROLOGUE.replace("{port}", str(port)) + textwrap.dedent(handle)
    source += _EPILOGUE.replace("{family}", family).replace("{address}", address).replace("{ready}", ready)
    name = f"/tmp/app-{port}.py"
    assert api.put(name, source.encode()).status in (200, 201)
    return App(api, port).start(f"exec python3 {name}", f"test -e {ready}")


def node(api, port, source):
    """A Node program that listens on the port."""
    name = f"/tmp/app-{port}.cjs"
    assert api.put(name, textwrap.dedent(source).encode()).status in (200, 201)
    return App(api, port).start(f"exec node {name}", listens(port))


def command(api, port, line):
    return App(api, port).start(f"exec {line}", listens(port))


def grown_kb(daemon, before):
    """The daemon's own memory since then; under a sanitizer it means nothing."""
    return 0 if SANITIZED else memory_kb(daemon.daemon_pid, "RssAnon") - before


class Client:
    """A raw connection whose reads the test controls."""

    def __init__(self, app, unix=False):
        self.app, self.sock, self.data = app, app.daemon.connect(unix), b""

    def ask(self, method="GET", path="/", headers=b"", body=b""):
        first = f"{method} {self.app.path(path)} HTTP/1.1\r\nHost: localhost\r\nAuthorization: Bearer {self.app.daemon.token}\r\n"
        self.sock.sendall(first.encode() + headers + b"\r\n" + body)
        return self

    def until(self, what):
        """Everything up to and with it."""
        while what not in self.data:
            chunk = self.sock.recv(1 << 20)
            assert chunk, (what, self.data[-500:])
            self.data += chunk
        out, _, self.data = self.data.partition(what)
        return out + what

    def rest(self):
        """Everything until the end; ConnectionResetError when it was cut off by force."""
        while chunk := self.sock.recv(1 << 20):
            self.data += chunk
        out, self.data = self.data, b""
        return out

    def quiet(self, seconds=0.3):
        return not select.select([self.sock], [], [], seconds)[0]

    def __enter__(self):
        return self

    def __exit__(self, *exc):
        self.sock.close()


def noted(app, text):
    return wait_for(lambda: any(text in n for n in app.notes()), f"the server notes {text!r}")
