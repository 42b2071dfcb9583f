"""$ATOLL_RUN/docker.sock as workerd uses it, and atoll-docker as wrangler calls it."""

import contextlib
import io
import json
import os
import socket
import stat
import subprocess
import tarfile
import threading
import urllib.parse

import pytest
from atoll import BIN, DEADLINE, Instance, _UnixConnection, wait_for
from registry import registry

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


# ---- the socket


def test_the_socket_is_for_the_group_alone(daemon, docker):
    assert stat.S_IMODE(os.stat(docker.path).st_mode) == 0o660
    assert docker.ask("GET", "/v1.47/version")[1]["Platform"]["Name"] == "Atoll"
    assert docker.ask("GET", "/networks/bridge")[1]["IPAM"]["Config"][0] == {"Subnet": "127.0.0.0/8", "Gateway": "127.0.0.1"}
    assert docker.ask("GET", '/volumes?filters={"name":["workerd-snap-"]}')[1]["Volumes"] == []


@pytest.mark.parametrize("method, path", [("GET", "/nothing"), ("POST", "/containers/none/start"), ("GET", "/containers/none/json"),
                                          ("GET", "/images/none/json"), ("POST", "/volumes/create"), ("GET", "/v1/sandboxes"), ("GET", "/v1.4")])
def test_what_is_not_there_has_dockers_error(docker, method, path):
    status, error = docker.ask(method, path)
    assert status == 404 and set(error) == {"message"} and error["message"], error


def test_a_container_is_a_box(docker):
    assert docker.build().returncode == 0
    port = docker.run("workerd-demo-Sandbox-1", env=["A=1", "TWO=mine", "A=last"])
    assert execute(port, "echo $A $TWO $FROM_IMAGE")["stdout"] == "last mine yes\n"
    status, out = through(port, "127.0.0.1:3000", b"GET / HTTP/1.1\r\nHost: containerstarthealthcheck\r\nConnection: close\r\n\r\n")
    assert status == 200 and out.startswith(b"HTTP/1.1 200")
    assert docker.ask("POST", "/containers/workerd-demo-Sandbox-1/start")[0] == 304
    assert docker.ask("POST", "/containers/create?name=workerd-demo-Sandbox-1", {"Image": TAG})[0] == 409


def test_ports_of_the_box(docker):
    assert docker.build().returncode == 0
    port = docker.run("c")
    assert connect(port, "127.0.0.1:8080")[1] == 400
    execute(port, "cd /workspace && echo hello >f && (python3 -m http.server 8080 >/dev/null 2>&1 &)")
    get = b"GET /f HTTP/1.0\r\n\r\n"
    wait_for(lambda: through(port, "127.0.0.1:8080", get)[1].endswith(b"hello\n"), "the server in the box")
    for target in ("127.0.0.1", "127.0.0.1:0", "127.0.0.1:99999", "x"):
        assert connect(port, target)[1] == 400


def test_the_sidecars_other_requests(docker):
    assert docker.build().returncode == 0
    port = docker.run("c")
    body = b'{"port":1234,"dns":{"allowHostnames":[]},"internet":{"enabled":true}}'
    for request, want in ((b"PUT /egress HTTP/1.1\r\nContent-Length: %d\r\n\r\n%s" % (len(body), body), b"HTTP/1.1 204"),
                          (b"GET /ca HTTP/1.1\r\n\r\n", b"HTTP/1.1 200"), (b"GET /x HTTP/1.1\r\n\r\n", b"HTTP/1.1 404"),
                          (b"PUT /egress HTTP/1.1\r\nContent-Length: 999999\r\n\r\n", b"HTTP/1.1 413"), (b"x" * 9000, b"")):
        with socket.create_connection(("127.0.0.1", port), timeout=DEADLINE) as s:
            s.sendall(request)
            try:
                got = s.recv(4096)
            except ConnectionResetError:
                got = b""
            assert got.startswith(want) and bool(got) == bool(want), got


# ---- egress


def put(port, body):
    """PUT /egress of a sidecar: (status, text)"""
    data = body if isinstance(body, bytes) else json.dumps(body).encode()
    with socket.create_connection(("127.0.0.1", port), timeout=DEADLINE) as s:
        s.sendall(b"PUT /egress HTTP/1.1\r\nHost: localhost\r\nContent-Length: %d\r\n\r\n%s" % (len(data), data))
        out = b""
        while chunk := s.recv(65536):
            out += chunk
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
def no_api(daemon, port):
    """The daemon's own socket is away, so nothing that it asks itself is answered. It is new: no connection is kept."""
    api, aside = daemon.run / "atoll.sock", daemon.run / "aside.sock"
    os.rename(api, aside)
    try:
        daemon.kill_daemon()
        wait_for(lambda: listens(port), "the sidecar listens again")
        yield
    finally:
        os.rename(aside, api)


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


@pytest.mark.parametrize("names", [["a.example"], ["*"]])
def test_handlers_of_the_worker_are_refused(daemon, docker, names):
    """They would not be asked, so a host that they deny would be reached."""
    assert docker.build().returncode == 0
    port, before = docker.run("hooked"), daemon.logged("egress refused")
    status, text = put(port, {"port": 1, "dns": {"allowHostnames": names}, **OFF})
    assert status == 501 and "onAtoll" in text, (status, text)
    assert mode(daemon, "hooked") == "open"
    wait_for(lambda: daemon.logged("egress refused") > before, "the warning")


def test_an_egress_that_cannot_be_set_is_an_error_and_survives(own_daemon, own_docker):
    docker = own_docker
    assert docker.build().returncode == 0
    port = docker.run("c")
    with no_api(own_daemon, port):
        status, text = put(port, OFF)
        assert status == 500 and text, (status, text)
    assert put(port, {"port": 1}) == (204, "") and mode(own_daemon, "c") == "off"
    own_daemon.kill_daemon()
    wait_for(lambda: listens(port), "the sidecar listens again")
    assert mode(own_daemon, "c") == "off"
    assert put(port, ON) == (204, "") and mode(own_daemon, "c") == "open"


# ---- archives


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


def test_an_archive_is_there_when_it_is_answered(docker):
    assert docker.build().returncode == 0
    port = docker.run("c")
    assert put_archive(docker, "c", "/etc", tar("a/b/ca.crt", b"one\n"))[0] == 200
    assert execute(port, "cat /etc/a/b/ca.crt")["stdout"] == "one\n"
    for path, data in (("/etc", b"no tar at all"), ("/etc/passwd", tar("x", b"x")), ("/proc/none", tar("x", b"x"))):
        status, text = put_archive(docker, "c", path, data)
        assert status == 500 and "was not unpacked" in json.loads(text)["message"], (path, text)
    assert put_archive(docker, "c", "etc", b"")[0] == 400


def test_an_archive_before_the_start(docker):
    assert docker.build().returncode == 0
    port = docker.run("c")
    assert docker.ask("DELETE", "/containers/c?force=true")[0] == 204
    assert docker.ask("POST", "/containers/create?name=c", {"Image": TAG})[0] == 201
    assert put_archive(docker, "c", "/etc", tar("a/ca.crt", b"two\n"))[0] == 200
    assert put_archive(docker, "c", "/opt", tar("x", b"x"))[0] == 409
    assert docker.ask("POST", "/containers/c/start")[0] == 204
    assert execute(port, "cat /etc/a/ca.crt")["stdout"] == "two\n"
    assert docker.ask("DELETE", "/containers/c?force=true")[0] == 204
    assert docker.ask("POST", "/containers/create?name=c", {"Image": TAG})[0] == 201
    assert put_archive(docker, "c", "/etc", b"no tar at all")[0] == 200
    for _ in range(2):
        status, error = docker.ask("POST", "/containers/c/start")
        assert status == 500 and "was not unpacked" in error["message"], error
        assert docker.state("c") == "created"


def test_a_start_does_not_go_on_without_its_archive(own_daemon, own_docker):
    docker = own_docker
    assert docker.build().returncode == 0
    assert docker.ask("POST", "/containers/create?name=c", {"Image": TAG})[0] == 201
    assert put_archive(docker, "c", "/etc", tar("a/ca.crt", b"x"))[0] == 200
    own_daemon.kill_daemon()
    status, error = docker.ask("POST", "/containers/c/start")
    assert status == 409 and "create it again" in error["message"], error
    assert docker.ask("DELETE", "/containers/c?force=true")[0] == 204


# ---- ends


def test_an_end_that_fails_is_no_end(own_daemon, own_docker):
    docker = own_docker
    assert docker.build().returncode == 0
    port = docker.run("c")
    with no_api(own_daemon, port):
        for method, path in (("POST", "kill?signal=SIGTERM"), ("POST", "kill?signal=SIGKILL"), ("DELETE", "?force=true")):
            status, error = docker.ask(method, f"/containers/c/{path}" if path[0] != "?" else f"/containers/c{path}")
            assert status == 500 and error["message"], (path, status, error)
            assert docker.state("c") == "running"
    assert execute(port, "echo here")["stdout"] == "here\n"
    # Nothing of what failed is left in the code: this box ends by itself.
    t, answer = docker.wait("c")
    wait_for(lambda: docker.state("c") == "running", "it runs")
    assert own_daemon.destroy(next(b for b in own_daemon.boxes() if b.startswith("docker-"))).status == 204
    t.join()
    assert answer == [(200, {"StatusCode": 137})]


def test_a_stop_is_answered_with_0_and_a_kill_with_137(docker):
    assert docker.build().returncode == 0
    for signal, code in (("SIGTERM", 0), ("SIGKILL", 137)):
        docker.run("c", sidecar=code == 0)
        t, answer = docker.wait("c")
        assert docker.ask("POST", f"/containers/c/kill?signal={signal}")[0] == 204
        t.join()
        assert answer == [(200, {"StatusCode": code})]
        assert docker.state("c") == "exited"
        assert docker.ask("POST", "/containers/c/kill?signal=SIGTERM")[0] == 409


def test_a_delete_answers_the_waits_first(docker):
    assert docker.build().returncode == 0
    docker.run("c")
    ended, removed = docker.wait("c"), docker.wait("c", "?condition=removed")
    wait_for(lambda: docker.state("c") == "running", "it runs")
    assert docker.ask("DELETE", "/containers/c?force=true")[0] == 204
    for t, answer in (ended, removed):
        t.join()
        assert answer in ([(200, {"StatusCode": 137})], [(404, {"message": "No such container: c"})])
    assert docker.state("c") is None and docker.state("c-proxy") == "running"
    assert docker.ask("POST", "/containers/c/wait?condition=removed")[0] == 404
    docker.run("c", sidecar=False)


def test_a_box_that_ends_by_itself(daemon, docker):
    assert docker.build().returncode == 0
    docker.run("c")
    box = next(b for b in daemon.boxes() if b.startswith("docker-"))
    t, answer = docker.wait("c")
    wait_for(lambda: docker.state("c") == "running", "it runs")
    assert daemon.destroy(box).status == 204
    t.join()
    assert answer == [(200, {"StatusCode": 137})] and docker.state("c") == "exited"


def test_everything_is_found_again_after_the_daemon_was_killed(own_daemon, own_docker):
    docker = own_docker
    assert docker.build().returncode == 0
    port = docker.run("c", env=["A=1"])
    execute(port, "echo kept >/workspace/f")
    own_daemon.kill_daemon()
    assert docker.state("c") == "running" and docker.port("c") == port
    assert execute(port, "cat /workspace/f")["stdout"] == "kept\n"
    t, answer = docker.wait("c")
    wait_for(lambda: docker.state("c") == "running", "it runs")
    assert docker.ask("DELETE", "/containers/c?force=true")[0] == 204
    t.join()
    assert docker.ask("DELETE", "/containers/c-proxy?force=true")[0] == 204
    assert docker.ask("GET", "/images/" + urllib.parse.quote(TAG, safe="") + "/json")[0] == 200


ASK = b"GET /api/ping HTTP/1.1\r\nHost: localhost:3000\r\n\r\n"


def test_a_request_to_a_container_that_has_ended_may_be_repeated(docker):
    """workerd does not know of the end yet: the SDK repeats what is answered with 503."""
    assert docker.build().returncode == 0
    port = docker.run("c")
    assert docker.ask("POST", "/containers/c/kill?signal=SIGTERM")[0] == 204
    _, out = through(port, "127.0.0.1:3000", ASK)
    head, body = out.split(b"\r\n\r\n", 1)
    assert head.split()[1] == b"503" and json.loads(body)["httpStatus"] == 503, out
    assert through(port, "127.0.0.1:8080", ASK) == (400, b"")
    # Connected while it was down, asked when it runs again.
    s, status = connect(port, "127.0.0.1:3000")
    with s:
        assert status == 200
        docker.run("c", sidecar=False)
        s.sendall(ASK)
        assert s.recv(12) == b"HTTP/1.1 200"


def test_a_container_that_was_never_started_is_refused(docker):
    assert docker.build().returncode == 0
    port = docker.run("c")
    assert docker.ask("DELETE", "/containers/c?force=true")[0] == 204
    assert through(port, "127.0.0.1:3000", ASK) == (400, b"")
    assert docker.ask("POST", "/containers/create?name=c", {"Image": TAG})[0] == 201
    assert through(port, "127.0.0.1:3000", ASK) == (400, b"")


def test_a_container_of_a_killed_daemon_is_created_again(own_daemon, own_docker):
    """workerd takes its broken wait for the end: what it creates then is the container that runs."""
    docker = own_docker
    assert docker.build().returncode == 0
    port = docker.run("c", env=["A=1"])
    execute(port, "echo kept >/workspace/f")
    own_daemon.kill_daemon()
    assert docker.ask("POST", "/containers/create?name=c", {"Image": TAG, "Env": ["A=2"]})[0] == 409
    assert docker.ask("POST", "/containers/create?name=c", {"Image": TAG, "Env": ["A=1"], "Cmd": ["x"]})[0] == 409
    assert docker.ask("POST", "/containers/c/start")[0] == 304
    assert docker.ask("POST", "/containers/create?name=c", {"Image": TAG, "Env": ["A=1"]})[0] == 201
    assert docker.ask("POST", "/containers/c/start")[0] == 204
    assert docker.ask("POST", "/containers/c/start")[0] == 304
    assert execute(port, "cat /workspace/f; echo $A")["stdout"] == "kept\n1\n"
    # Somebody waits for it: from now on its name is taken.
    t, answer = docker.wait("c")
    wait_for(lambda: docker.ask("POST", "/containers/create?name=c", {"Image": TAG, "Env": ["A=1"]})[0] == 409, "the name is taken")
    assert docker.ask("DELETE", "/containers/c?force=true")[0] == 204
    t.join()
    assert answer == [(200, {"StatusCode": 137})]
    assert docker.ask("DELETE", "/containers/c-proxy?force=true")[0] == 204


def test_containers_that_nobody_waits_for_go():
    """With their sidecars: created, running and ended ones. Their wrangler was killed."""
    with Instance({"ATOLL_ZYGOTE": "off", "ATOLL_DOCKER_ORPHAN_AFTER": "1s"}) as daemon:
        docker = Docker(daemon)
        assert docker.build().returncode == 0
        for name in ("made", "runs", "ended"):
            assert docker.ask("POST", f"/containers/create?name={name}-proxy", {"Image": SIDECAR})[0] == 201
            assert docker.ask("POST", f"/containers/create?name={name}", {"Image": TAG})[0] == 201
        for name in ("runs", "ended"):
            docker.ask("POST", f"/containers/{name}/start")
        docker.ask("POST", "/containers/ended/kill?signal=SIGTERM")
        wait_for(lambda: docker.ask("GET", "/containers/json?all=1")[1] == [], "no container is left", 60)
        wait_for(lambda: not daemon.boxes(), "no box is left", 60)
        docker.remove_all()


# ---- atoll-docker


def test_the_commands_of_wrangler(docker):
    context = json.loads(docker.cli("context", "ls", "--format", "json").stdout)
    assert context["Current"] is True and context["DockerEndpoint"] == f"unix://{docker.path}"
    assert docker.cli("info").returncode == 0
    assert docker.cli("--host", f"unix://{docker.path}", "info", "--format", "{{json .SecurityOptions}}").stdout == b"[]\n"
    assert docker.build().returncode == 0
    assert docker.cli("pull", SIDECAR).returncode == 0
    assert docker.cli("pull", "docker.io/cloudflare/sandbox:0.12.10", "--platform", "linux/amd64").returncode == 0
    assert docker.cli("tag", "docker.io/cloudflare/sandbox:0.12.10", "other:1").returncode == 0
    assert docker.cli("image", "inspect", TAG, "--format", "{{ len .Config.ExposedPorts }}").stdout.strip() not in (b"", b"0")
    assert docker.cli("image", "inspect", TAG, "--format", "{{ range .RepoTags }}{{ . }}\n{{ end }}").stdout.strip() == TAG.encode()
    docker.run("c")
    ids = docker.cli("ps", "-a", "--filter", f"ancestor={TAG}", "--format", "{{.ID}}").stdout.split()
    assert len(ids) == 1 and docker.cli("ps", "-a", "--filter", "ancestor=none", "--format", "{{.ID}}").stdout == b""
    assert docker.cli("rm", "--force", *(i.decode() for i in ids)).returncode == 0
    assert docker.state("c") is None and docker.state("c-proxy") is None
    assert docker.cli("rmi", TAG).returncode == 0
    assert docker.cli("rmi", TAG).returncode == 1


@pytest.mark.parametrize("dockerfile, words", [
    (b"FROM cloudflare/sandbox:0.12.10\n\nRUN exit 3\n", b"Dockerfile:3"),
    (b"FROM cloudflare/sandbox:0.12.10\nENV A=1 \\\n # c\n B=2\nCOPY none-such b\n", b"Dockerfile:5"),
    (b"FROM none-such:1\n", b"Dockerfile:1"), (b"", b"Dockerfile"), (b"ENV A=1\n", b"Dockerfile:1"),
    (b"FROM cloudflare/sandbox:1\nNOTHING\n", b"Dockerfile:2"), (b"FROM cloudflare/sandbox:1\nENV A=\"1\n", b"Dockerfile:2"),
])
def test_a_dockerfile_that_cannot_be_built_is_refused_with_its_line(docker, tmp_path, dockerfile, words):
    r = docker.build(TAG, dockerfile, context=tmp_path)
    assert r.returncode == 1 and words in r.stderr, r
    assert docker.ask("GET", "/images/" + urllib.parse.quote(TAG, safe="") + "/json")[0] == 404


def test_files_commands_and_stages(docker, tmp_path):
    """What the image service builds, as wrangler calls it: the Dockerfile on stdin beside the directory."""
    (tmp_path / "own.txt").write_text("mine\n", encoding="utf-8")
    (tmp_path / "left.txt").write_text("not sent\n", encoding="utf-8")
    (tmp_path / ".dockerignore").write_text("left.txt\n", encoding="utf-8")
    text = b"FROM cloudflare/sandbox:0.12.10 AS one\nRUN echo made >/made\nFROM cloudflare/sandbox:0.12.10\nCOPY --from=one /made /opt/made\nCOPY . /opt/here\n"
    for other in (True, False):  # stdin's is not, and is, the directory's
        (tmp_path / "Dockerfile").write_bytes(b"FROM scratch\n" if other else text)
        assert docker.build(TAG, text, context=tmp_path).returncode == 0
        port = docker.run("c", sidecar=other)
        said = execute(port, "cat /opt/made /opt/here/own.txt; ls /opt/here")["stdout"]
        assert said == "made\nmine\nDockerfile\nown.txt\n", said
        assert docker.ask("POST", "/containers/c/kill?signal=SIGTERM")[0] == 204


def test_arguments_a_user_a_directory_and_a_command(docker):
    text = b"ARG V=0.12.10\nFROM cloudflare/sandbox:${V}\nARG WHO=you\nENV GREETING=\"hi $WHO\" E='$WHO' D=${NONE:-d}\nWORKDIR /tmp\nUSER nobody\nLABEL a=b\n" \
           b"CMD echo $GREETING $(pwd) $(id -un) >/tmp/said\n"
    assert docker.build(TAG, text, "--build-arg", "WHO=me").returncode == 0
    port = docker.run("c")
    wait_for(lambda: execute(port, "cat /tmp/said")["stdout"] == "hi me /tmp nobody\n", "the command ran")
    assert execute(port, "echo \"$E $D\" $(id -un)")["stdout"] == "$WHO d nobody\n"


def test_a_command_of_the_caller(docker):
    assert docker.build(TAG, b"FROM cloudflare/sandbox:1\nCMD echo image >/tmp/said\n").returncode == 0
    docker.run("c")
    assert docker.ask("DELETE", "/containers/c?force=true")[0] == 204
    assert docker.ask("POST", "/containers/create?name=c", {"Image": TAG, "Cmd": ["sh", "-c", "echo 'the caller' >/tmp/said"]})[0] == 201
    assert docker.ask("POST", "/containers/c/start")[0] == 204
    wait_for(lambda: execute(docker.port("c"), "cat /tmp/said")["stdout"] == "the caller\n", "the command ran")


def test_a_commit_is_an_image(docker):
    assert docker.build().returncode == 0
    port = docker.run("c")
    execute(port, "echo kept >/workspace/f")
    repo = f"workerd-container-snap-{os.getpid()}"
    status, image = docker.ask("POST", f"/commit?container=c&pause=true&repo={repo}")
    assert status == 201 and image["Id"].startswith("sha256:"), image
    assert docker.ask("GET", f"/images/{repo}/json")[1]["Id"] == image["Id"]
    assert docker.ask("POST", "/containers/create?name=d", {"Image": repo})[0] == 201
    assert docker.ask("POST", "/containers/create?name=d-proxy", {"Image": SIDECAR})[0] == 201
    for name in ("d-proxy", "d"):
        assert docker.ask("POST", f"/containers/{name}/start")[0] == 204
    assert execute(docker.port("d"), "cat /workspace/f; echo $FROM_IMAGE")["stdout"] == "kept\nyes\n"
    assert docker.ask("POST", "/commit?container=none&repo=x")[0] == 404
    assert docker.ask("POST", "/commit?container=c&repo=")[0] == 400
    assert docker.ask("POST", "/containers/c/kill?signal=SIGKILL")[0] == 204
    assert docker.ask("POST", "/commit?container=c&repo=x")[0] == 409


def test_an_image_of_a_registry(daemon, docker, tmp_path):
    """What wrangler does with a reference: pull, then tag."""
    r = docker.cli("pull", "127.0.0.1:1/x:1", "--platform", "linux/amd64")
    assert r.returncode == 1 and b"127.0.0.1:1/x:1" in r.stderr and docker.tags() == [], r
    (tmp_path / "own.txt").write_text("mine\n", encoding="utf-8")
    with registry(tmp_path / "registry") as there:
        ref = f"127.0.0.1:{there.port}/team/app:1"
        assert docker.build(TAG, b"FROM scratch\nCOPY own.txt /own.txt\n", context=tmp_path).returncode == 0
        assert daemon.cli("push", f"docker-{os.getuid()}/{TAG}", ref).returncode == 0
        docker.remove_all()
        r = docker.cli("pull", ref, "--platform", "linux/amd64")
        assert r.returncode == 0 and docker.tags() == [ref], r
        assert docker.cli("pull", ref).returncode == 0  # it is here
    assert docker.cli("tag", ref, "other:1").returncode == 0
    assert docker.ask("POST", "/containers/create?name=c-proxy", {"Image": SIDECAR})[0] == 201
    assert docker.ask("POST", "/containers/create?name=c", {"Image": "other:1"})[0] == 201
    for name in ("c-proxy", "c"):
        assert docker.ask("POST", f"/containers/{name}/start")[0] == 204
    assert read(docker.port("c"), "/own.txt") == "mine\n"
    docker.remove_all()
    assert daemon.request("DELETE", "/v1/images/" + urllib.parse.quote(ref, safe="")).status == 200


def test_old_tags_of_wrangler_go(daemon, docker):
    """Newer wranglers remove none; eight stay, and those of containers."""
    first, names = f"cloudflare-dev/a-{os.getpid()}", []
    for n in range(10):
        names.append(f"{first}:{n}")
        assert docker.build(names[-1]).returncode == 0
        if n == 0:
            assert docker.ask("POST", "/containers/create?name=c", {"Image": names[0]})[0] == 201
    assert set(docker.tags()) == {names[0], *names[2:]}
    mine = [f"docker-{os.getuid()}/{name}" for name in names]
    wait_for(lambda: mine[1] not in [i["name"] for i in daemon.request("GET", "/v1/images").json()["images"]], "the image has gone too")
    assert docker.ask("DELETE", "/images/" + urllib.parse.quote(names[9], safe=""))[0] == 200
    assert mine[9] not in [i["name"] for i in daemon.request("GET", "/v1/images").json()["images"]]


def test_bad_calls(docker):
    for arguments, words in ((["nothing"], b"unknown command 'nothing'"), (["build", "--squash", "-t", "a", "."], b"unknown flag '--squash'"),
                             (["ps", "--filter", "name=x"], b"unknown filter"), (["login"], b"registries")):
        r = docker.cli(*arguments)
        assert r.returncode != 0 and words in r.stderr, r
    assert b"atoll up" in docker.cli("info", ATOLL_RUN="/nowhere").stderr
    status, error = docker.ask("POST", "/containers/create?name=c", {"Image": "none"})
    assert status == 404 and "No such image" in error["message"]
    for name in ("", "-x", "a/b", "x" * 256):
        assert docker.ask("POST", f"/containers/create?name={urllib.parse.quote(name, safe='')}", {"Image": SIDECAR})[0] == 400
