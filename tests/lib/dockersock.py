"""$ATOLL_RUN/docker.sock as workerd uses it, and its sidecars. The fixtures reach the tests through conftest.py."""

import contextlib
import io
import json
import os
import socket
import subprocess
import tarfile
import threading
import urllib.parse

import pytest
from atoll import BIN, DEADLINE, _UnixConnection, wait_for

TAG = f"cloudflare-dev/sandbox:{os.getpid():08x}"  # images are shared by the daemons of a machine
SIDECAR = "cloudflare/proxy-everything:3cb1195@sha256:0ef6"
DOCKERFILE = b"# minimal\nFROM docker.io/cloudflare/sandbox:0.12.10\nENV FROM_IMAGE=yes \\\n  TWO=\"2 3\"\nEXPOSE 8080\n"


class Docker:
    def __init__(self, daemon):
        self.daemon, self.path = daemon, str(daemon.run / "docker.sock")

    def ask(self, method, path, body=None):
        """(status, JSON or None)"""
        c = _UnixConnection(self.path, DEADLINE)
        try:
            c.request(method, path, None if body is None else json.dumps(body))
            r = c.getresponse()
            text = r.read()
            return r.status, json.loads(text) if text else None
        finally:
            c.close()

    def cli(self, *arguments, data=b"", **env):
        return subprocess.run([BIN / "atoll-docker", *arguments], input=data, capture_output=True, check=False, timeout=DEADLINE,
                              env={"ATOLL_RUN": str(self.daemon.run), "PATH": os.environ["PATH"], **env})

    def build(self, tag=TAG, dockerfile=DOCKERFILE, *more, context="/"):
        return self.cli("build", "--load", "-t", tag, "--platform", "linux/amd64", "--provenance=false", *more, "-f", "-", str(context), data=dockerfile)

    def run(self, name, env=(), sidecar=True):
        """What workerd does at the first start; the port of the sidecar."""
        if sidecar:
            assert self.ask("POST", f"/containers/create?name={name}-proxy", {"Image": SIDECAR, "HostConfig": {"NetworkMode": "bridge"}})[0] == 201
            assert self.ask("POST", f"/containers/{name}-proxy/start")[0] == 204
        assert self.ask("POST", f"/containers/create?name={name}", {"Image": TAG, "Env": list(env)})[0] == 201
        assert self.ask("POST", f"/containers/{name}/start")[0] == 204
        return self.port(name)

    def port(self, name):
        status, about = self.ask("GET", f"/containers/{name}-proxy/json")
        assert status == 200 and about["State"]["Status"] == "running", about
        return int(about["NetworkSettings"]["Ports"]["39001/tcp"][0]["HostPort"])

    def tags(self):
        return [i["RepoTags"][0] for i in self.ask("GET", "/images/json")[1]]

    def remove_all(self):
        for c in self.ask("GET", "/containers/json?all=1")[1]:
            assert self.ask("DELETE", f"/containers/{c['Id']}?force=true")[0] == 204
        for tag in self.tags():
            assert self.ask("DELETE", "/images/" + urllib.parse.quote(tag, safe=""))[0] == 200
        for volume in self.ask("GET", "/volumes")[1]["Volumes"]:
            assert self.ask("DELETE", f"/volumes/{volume['Name']}")[0] == 204

    def state(self, name):
        status, about = self.ask("GET", f"/containers/{name}/json")
        return about["State"]["Status"] if status == 200 else None

    def wait(self, name, condition=""):
        """Waits beside; the answer is in the list at the end."""
        answer = []
        t = threading.Thread(target=lambda: answer.append(self.ask("POST", f"/containers/{name}/wait{condition}")))
        t.start()
        return t, answer


@pytest.fixture
def docker(daemon):
    d = Docker(daemon)
    d.remove_all()  # what files of other suites left in the daemon that all share
    yield d
    d.remove_all()


@pytest.fixture
def own_docker(own_daemon):
    d = Docker(own_daemon)
    yield d
    d.remove_all()


def connect(port, target):
    """CONNECT as workerd sends it: without Host."""
    s = socket.create_connection(("127.0.0.1", port), timeout=DEADLINE)
    s.sendall(f"CONNECT {target} HTTP/1.1\r\nX-Dst-Addr: {target}\r\n\r\n".encode())
    head = b""
    while b"\r\n\r\n" not in head:
        head += s.recv(1)
    return s, int(head.split()[1])


def through(port, target, request):
    s, status = connect(port, target)
    with s:
        if status != 200:
            return status, b""
        s.sendall(request)
        s.shutdown(socket.SHUT_WR)
        out = b""
        while chunk := s.recv(65536):
            out += chunk
        return status, out


def post(port, path, fields):
    body = json.dumps(fields).encode()
    _, out = through(port, "127.0.0.1:3000", b"POST %s HTTP/1.1\r\nHost: localhost:3000\r\nConnection: close\r\n"
                     b"Content-Length: %d\r\n\r\n%s" % (path.encode(), len(body), body))
    return json.loads(out.split(b"\r\n\r\n", 1)[1])


def execute(port, command):
    return post(port, "/api/execute", {"command": command})


def read(port, path):
    """Without a program of the image."""
    return post(port, "/api/read", {"path": path})["content"]


def ask_sidecar(port, request):
    """All that it answers."""
    with socket.create_connection(("127.0.0.1", port), timeout=DEADLINE) as s:
        s.sendall(request)
        out = b""
        while chunk := s.recv(65536):
            out += chunk
    return out


def put(port, body):
    """PUT /egress of a sidecar: (status, text)"""
    data = body if isinstance(body, bytes) else json.dumps(body).encode()
    out = ask_sidecar(port, b"PUT /egress HTTP/1.1\r\nHost: localhost\r\nContent-Length: %d\r\n\r\n%s" % (len(data), data))
    head, text = out.split(b"\r\n\r\n", 1)
    return int(head.split()[1]), text.decode()


def mode(daemon, name):
    """The network mode of the container's box."""
    for box in daemon.boxes():
        if daemon.inspect(box)["labels"].get("docker") == name:
            return daemon.request("GET", f"/v1/sandboxes/{box}/network").json()["mode"]
    return None


def listens(port):
    try:
        socket.create_connection(("127.0.0.1", port), timeout=DEADLINE).close()
    except ConnectionRefusedError:
        return False
    return True


@contextlib.contextmanager
def no_warden(daemon, port):
    """The daemon is new and finds no warden, so that it can end no box."""
    socket_of_warden, aside = daemon.run / "warden.sock", daemon.run / "aside.sock"
    os.rename(socket_of_warden, aside)
    try:
        daemon.kill_daemon()
        wait_for(lambda: listens(port), "the sidecar listens again")
        yield
    finally:
        os.rename(aside, socket_of_warden)
        daemon.await_warden()


def tar(name, data):
    out = io.BytesIO()
    with tarfile.open(fileobj=out, mode="w", format=tarfile.USTAR_FORMAT) as t:
        info = tarfile.TarInfo(name)
        info.size, info.mode = len(data), 0o644
        t.addfile(info, io.BytesIO(data))
    return out.getvalue()


def put_archive(docker, name, path, data):
    c = _UnixConnection(docker.path, DEADLINE)
    try:
        c.request("PUT", f"/containers/{name}/archive?path={urllib.parse.quote(path)}", data)
        r = c.getresponse()
        return r.status, r.read().decode()
    finally:
        c.close()
