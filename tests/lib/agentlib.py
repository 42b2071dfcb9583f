"""A real atoll-agent on loopback, alone, and a client for it: standard library only."""

import concurrent.futures
import contextlib
import http.client
import json
import os
import signal
import socket
import subprocess
import tempfile

import atoll as lib
from events import Events

AGENT = lib.BIN / "atoll-agent"


class Reply:
    def __init__(self, status, headers, body):
        self.status, self.headers, self.body = status, headers, body

    def json(self):
        return json.loads(self.body)


class Agent:
    """`atoll-agent serve` in a directory of its own. close() ends it and reports an abnormal end."""

    def __init__(self, env=None, pid1=False):
        self.dir = tempfile.mkdtemp(prefix="atoll-agent-test-")
        base = {"PATH": "/usr/local/bin:/usr/bin:/bin", "HOME": self.dir, **(env or {})}
        if "ASAN_OPTIONS" in os.environ:  # tools/asan: where reports go
            base["ASAN_OPTIONS"] = os.environ["ASAN_OPTIONS"]
        command = [str(AGENT), "serve", "--port", "0"]
        if pid1:
            command = ["unshare", "--pid", "--fork", "--kill-child", "--mount-proc", *command]
        self.process = subprocess.Popen(command, cwd=self.dir, env=base, stdin=subprocess.DEVNULL,
                                        stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True)
        self.port = int(self.process.stdout.readline().rsplit(":", 1)[1])

    @property
    def pid(self):
        return self.process.pid

    def connect(self, timeout=60):
        return http.client.HTTPConnection("127.0.0.1", self.port, timeout=timeout)

    def call(self, method, path, body=None, headers=None, timeout=60):
        c = self.connect(timeout)
        try:
            if isinstance(body, (dict, list)):
                body = json.dumps(body)
            c.request(method, path, body, headers or {})
            r = c.getresponse()
            return Reply(r.status, r.headers, r.read())
        finally:
            c.close()

    def post(self, path, body, **kw):
        return self.call("POST", path, body, **kw)

    def run(self, command, **members):
        """The result of a command that could be executed."""
        r = self.post("/api/execute", {"command": command, **members})
        assert r.status == 200, (r.status, r.body)
        return r.json()

    def rss_kb(self, field="VmRSS"):
        """Resident memory; 0 under a sanitizer, whose memory it would be."""
        if lib.SANITIZED:
            return 0
        with open(f"/proc/{self.pid}/status", encoding="ascii") as f:
            return next(int(line.split()[1]) for line in f if line.startswith(field + ":"))

    def fds(self, spools=True):
        """How many descriptors it has. Without its spools: a log that grows past some KiB gets a file without a name."""
        links = []
        for name in os.listdir(f"/proc/{self.pid}/fd"):
            with contextlib.suppress(FileNotFoundError):  # closed meanwhile
                links.append(os.readlink(f"/proc/{self.pid}/fd/{name}"))
        return sum(spools or not link.startswith("/var/tmp/#") for link in links)

    def children(self):
        with open(f"/proc/{self.pid}/task/{self.pid}/children", encoding="ascii") as f:
            return [int(p) for p in f.read().split()]

    def close(self):
        if self.process.poll() is None:
            self.process.send_signal(signal.SIGTERM)
        try:
            code = self.process.wait(60)
        except subprocess.TimeoutExpired:
            self.process.kill()
            code = self.process.wait()
        self.process.stdout.close()
        subprocess.run(["rm", "-rf", self.dir], check=True)
        return code


def together(calls):
    """Runs all calls at once. Returns their results in order; the first failure is raised."""
    calls = list(calls)
    with concurrent.futures.ThreadPoolExecutor(len(calls)) as pool:
        return [f.result() for f in [pool.submit(c) for c in calls]]


class Session:
    """One session of an agent, by name: it is made by its first use."""

    def __init__(self, agent, name):
        self.agent, self.name = agent, name

    def post(self, command, **members):
        return self.agent.post("/api/execute", {"command": command, "sessionId": self.name, **members})

    def run(self, command, **members):
        return self.agent.run(command, sessionId=self.name, **members)

    def out(self, command, **members):
        r = self.run(command, **members)
        assert r["stderr"] == "", r
        return r["stdout"]

    @property
    def pid(self):
        return int(self.out("echo $$"))


def open_events(agent, method, path, body=None, headers=None, receive_buffer=None):
    """An event stream of the agent, or the answer that came instead of it."""
    c = agent.connect()
    if receive_buffer:
        c.sock = socket.socket()
        c.sock.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, receive_buffer)
        c.sock.settimeout(60)
        c.sock.connect(("127.0.0.1", agent.port))
    c.request(method, path, json.dumps(body) if body is not None else None, headers or {})
    return Events(c, c.getresponse())


def joined(events, kind):
    return "".join(e["data"] for e in events if e["type"] == kind)
