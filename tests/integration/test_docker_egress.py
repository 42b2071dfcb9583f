"""What a sidecar is told about the network of its container: PUT /egress, and workerd, which the gate then asks."""

import contextlib
import re
import socket
import socketserver
import subprocess
import threading

import pytest
from atoll import DEADLINE, wait_for
from dockersock import ask_sidecar, execute, listens, mode, put

OFF, ON = {"internet": {"enabled": False}}, {"internet": {"enabled": True}}


def test_no_internet_is_mode_off(daemon, docker):
    assert docker.build().returncode == 0
    port = docker.run("c")
    assert mode(daemon, "c") == "open"
    for body, want in (({"port": 1, **OFF}, "off"), ({"port": 2}, "off"), (OFF, "off"), (ON, "open"), (ON, "open"), (OFF, "off")):
        assert put(port, body) == (204, "")
        assert mode(daemon, "c") == want, body
    # A new container of the same sidecar is made with what was asked for last, before its first process runs.
    assert docker.ask("DELETE", "/containers/c?force=true")[0] == 204
    docker.run("c", sidecar=False)
    assert mode(daemon, "c") == "off"
    assert docker.ask("DELETE", "/containers/c?force=true")[0] == 204
    assert put(port, ON) == (204, "")
    docker.run("c", sidecar=False)
    assert mode(daemon, "c") == "open"


def test_a_mode_of_somebody_else_stays(daemon, docker):
    assert docker.build().returncode == 0
    port = docker.run("c")
    box = next(b for b in daemon.boxes() if daemon.inspect(b)["labels"].get("docker") == "c")
    assert daemon.request("PATCH", f"/v1/sandboxes/{box}/network", {"mode": "list"}).status == 200
    assert put(port, ON) == (204, "") and mode(daemon, "c") == "list"


@pytest.mark.parametrize("body", [b"", b"x", b"[]", b"{", {"internet": False}, {"internet": {}}, {"internet": {"enabled": "no"}}, {"port": -1}, {"port": "x"},
                                  {"dns": 1}, {"dns": {"allowHostnames": "*"}}])
def test_a_wrong_egress_is_refused(daemon, docker, body):
    assert docker.build().returncode == 0
    port = docker.run("c")
    status, text = put(port, body)
    assert status == 400 and text, (status, text)
    assert mode(daemon, "c") == "open"


def test_an_egress_survives_a_kill_of_the_daemon(own_daemon, own_docker):
    docker = own_docker
    assert docker.build().returncode == 0
    port = docker.run("c")
    assert put(port, OFF) == (204, "") and put(port, {"port": 1}) == (204, "") and mode(own_daemon, "c") == "off"
    own_daemon.kill_daemon()
    wait_for(lambda: listens(port), "the sidecar listens again")
    assert mode(own_daemon, "c") == "off"
    assert put(port, ON) == (204, "") and mode(own_daemon, "c") == "open"


# ---- workerd decides


class Workerd(socketserver.ThreadingTCPServer):
    """Its egress port: answers CONNECT by what `answers` says of the name or address, and then requests in the tunnel."""

    daemon_threads = True
    allow_reuse_address = True

    def __init__(self):
        super().__init__(("127.0.0.1", 0), Tunnel)
        self.answers, self.asked = {}, []
        threading.Thread(target=self.serve_forever, daemon=True).start()

    @property
    def port(self):
        return self.server_address[1]


def read_head(stream):
    lines = []
    while line := stream.readline().strip():
        lines.append(line.decode())
    return lines


class Tunnel(socketserver.StreamRequestHandler):
    def handle(self):
        head = read_head(self.rfile)
        fields = dict(line.lower().split(": ", 1) for line in head[1:])
        name = fields.get("x-hostname") or fields.get("x-tls-sni") or head[0].split()[1]
        kind = "http" if "x-hostname" in fields else "tls" if "x-tls-sni" in fields else "tcp"
        self.server.asked.append((kind, name))
        status = self.server.answers.get(name, 400)
        self.wfile.write(b"HTTP/1.1 %d X\r\n\r\n" % status)
        if status == 202:
            self.wfile.write(b"raw %d\n" % len(self.rfile.readline()))
            return
        while status == 200 and (request := read_head(self.rfile)):
            length = next((int(line[16:]) for line in request if line.lower().startswith("content-length: ")), 0)
            body = f"{kind} {request[0].split()[0]} {request[0].split()[1]} {self.rfile.read(length).decode()}\n".encode()
            self.wfile.write(b"HTTP/1.1 200 OK\r\nContent-Length: %d\r\n\r\n%s" % (len(body), body))


@contextlib.contextmanager
def workerd():
    w = Workerd()
    try:
        yield w
    finally:
        w.shutdown()
        w.server_close()


def handled(w, **more):
    return {"port": w.port, "dns": {"allowHostnames": ["*.handled.example", "denied.example"]}, **more}


def run_with(docker, wish, env=()):
    """A container whose sidecar was told before it was made, as workerd does it."""
    port = docker.run("c")
    assert docker.ask("DELETE", "/containers/c?force=true")[0] == 204
    assert put(port, wish) == (204, "")
    docker.run("c", env=env, sidecar=False)
    return port


def test_handlers_answer_without_the_internet(daemon, docker):
    assert docker.build().returncode == 0
    with workerd() as w:
        w.answers = {"a.handled.example": 200, "b.handled.example": 200, "198.51.100.7": 200}
        port = run_with(docker, handled(w, **OFF), env=["SANDBOX_INTERCEPT_HTTPS=1"])
        assert mode(daemon, "c") == "list"
        curl = "curl -sS --max-time 60 "
        assert execute(port, curl + "http://a.handled.example/x?y=1 http://a.handled.example/z")["stdout"] == "http GET /x?y=1 \nhttp GET /z \n"
        assert execute(port, curl + "-d body https://b.handled.example/up")["stdout"] == "tls POST /up body\n"
        # Two requests of one program share a tunnel; a handler for an address is asked by address.
        assert w.asked == [("http", "a.handled.example"), ("tls", "b.handled.example")]
        assert execute(port, curl + "http://198.51.100.7/")["stdout"] == "http GET / \n"
        # Refused by workerd, unknown to it, and forbidden whatever it says.
        before = len(w.asked)
        assert execute(port, curl + "http://denied.example/")["exitCode"] == 56
        assert w.asked[before:] == [("http", "denied.example")]
        assert execute(port, curl + "http://other.example/")["exitCode"] == 6
        w.answers = {name: 200 for name in ("10.0.0.1", "169.254.169.254", "10.0.0.1:5000")}
        for url in ("http://10.0.0.1/", "http://169.254.169.254/", "http://10.0.0.1:5000/"):
            r = execute(port, curl + url)
            assert r["exitCode"] == 7 or "denied" in r["stdout"], r
        assert w.asked[before + 1:] == []


def test_what_no_handler_answers_is_for_the_policy(daemon, docker):
    assert docker.build().returncode == 0
    with workerd() as w:
        w.answers = {"a.handled.example": 200, "n.handled.example": 202}
        port = run_with(docker, handled(w, **ON))
        box = next(b for b in daemon.boxes() if daemon.inspect(b)["labels"].get("docker") == "c")
        assert daemon.request("PATCH", f"/v1/sandboxes/{box}/network", {"mode": "list"}).status == 200
        curl = "curl -sS --max-time 60 "
        assert execute(port, curl + "http://a.handled.example/")["stdout"] == "http GET / \n"
        assert execute(port, curl + "http://n.handled.example/")["stdout"].startswith("403 denied:")

        def decisions():
            log = daemon.request("GET", f"/v1/sandboxes/{box}/network/log").json()["log"]
            return [(r["name"], r["decision"]) for r in log if r.get("protocol") == "http"]
        # The end of a connection is told by the gate a moment later.
        wait_for(lambda: len(decisions()) >= 2, "the records")
        assert execute(port, curl + "http://n.handled.example/")["stdout"].startswith("403 denied:")
        wait_for(lambda: len(decisions()) >= 3, "the last record")
        assert decisions() == [("a.handled.example", "allow"), ("n.handled.example", "deny"), ("n.handled.example", "deny")]


def test_other_protocols_go_into_the_tunnel(daemon, docker):
    assert docker.build().returncode == 0
    with workerd() as w:
        w.answers = {"198.51.100.7:5000": 202, "198.51.100.7": 202, "n.handled.example": 202}
        port = run_with(docker, handled(w, **OFF))
        talk = "python3 -c 'import socket; s = socket.create_connection((\"198.51.100.7\", 5000)); s.sendall(b\"hello\\n\"); print(s.recv(99))'"
        assert execute(port, talk)["stdout"] == "b'raw 6\\n'\n"
        # TLS without a handler is not ended here.
        assert execute(port, "curl -sS --max-time 60 https://n.handled.example/")["exitCode"] == 35
        assert w.asked == [("tcp", "198.51.100.7:5000"), ("tls", "n.handled.example")]
        # A changed list, a changed port and none at all, while it runs.
        assert put(port, {"dns": {"allowHostnames": []}}) == (204, "") and mode(daemon, "c") == "off"
        assert "denied" in execute(port, "curl -sS --max-time 60 http://198.51.100.7/")["stdout"]
        assert len(w.asked) == 2


def test_the_daemon_and_the_gate_may_be_killed(own_daemon, own_docker):
    assert own_docker.build().returncode == 0
    with workerd() as w:
        w.answers = {"a.handled.example": 200}
        port = run_with(own_docker, handled(w, **OFF))
        own_daemon.kill_daemon()
        wait_for(lambda: listens(port), "the sidecar listens again")
        ask = "curl -sS --max-time 60 http://a.handled.example/"
        assert execute(port, ask)["stdout"] == "http GET / \n"
        own_daemon.kill_gate()
        assert execute(port, ask)["stdout"] == "http GET / \n"
    # workerd has gone: nothing passes by it.
    assert execute(port, ask)["exitCode"] == 56


LISTEN = """
import socket, sys
s = socket.create_server(("127.0.0.1", 0))
print(s.getsockname()[1], flush=True)
print(s.accept()[1], flush=True)
"""


def test_another_users_port_is_not_asked(docker):
    """Any user may have the port that a Worker names; only the container's owner answers for its box."""
    assert docker.build().returncode == 0
    nobody = subprocess.Popen(["/usr/bin/python3", "-c", LISTEN], stdout=subprocess.PIPE, user=65534)
    try:
        there = int(nobody.stdout.readline())
        port = run_with(docker, {"port": there, "dns": {"allowHostnames": ["*"]}, **OFF})
        assert execute(port, "curl -sS --max-time 60 http://a.example/")["exitCode"] == 56
        with socket.create_connection(("127.0.0.1", there), DEADLINE) as mine:  # the first that it accepts
            assert int(re.search(rb", (\d+)\)", nobody.stdout.readline())[1]) == mine.getsockname()[1]
    finally:
        nobody.kill()
        nobody.wait()
        nobody.stdout.close()


def test_the_authority_is_the_gates(docker):
    assert docker.build().returncode == 0
    head, pem = ask_sidecar(docker.run("c"), b"GET /ca HTTP/1.1\r\n\r\n").split(b"\r\n\r\n", 1)
    assert head.startswith(b"HTTP/1.1 200") and re.match(rb"-----BEGIN CERTIFICATE-----\n", pem), pem
