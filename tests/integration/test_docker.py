"""$ATOLL_RUN/docker.sock as workerd uses it: containers, archives, ends."""

import base64
import io
import json
import os
import socket
import stat
import subprocess
import tarfile
import urllib.parse

import pytest
from atoll import DEADLINE, Instance, _UnixConnection, wait_for
from dockersock import SIDECAR, TAG, Docker, connect, execute, no_warden, put_archive, tar, through

POOL = "snapshots and images come from it"


def test_the_socket_is_for_the_group_alone(daemon, docker):
    assert stat.S_IMODE(os.stat(docker.path).st_mode) == 0o660
    assert docker.ask("GET", "/v1.47/version")[1]["Platform"]["Name"] == "Atoll"
    assert docker.ask("GET", "/networks/bridge")[1]["IPAM"]["Config"][0] == {"Subnet": "127.0.0.0/8", "Gateway": "127.0.0.1"}
    assert docker.ask("GET", '/volumes?filters={"name":["none-of-this-name-"]}')[1]["Volumes"] == []


@pytest.mark.parametrize("method, path", [("GET", "/nothing"), ("POST", "/containers/none/start"), ("GET", "/containers/none/json"),
                                          ("GET", "/images/none/json"), ("GET", "/volumes/none"), ("GET", "/v1/sandboxes"), ("GET", "/v1.4")])
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


# ---- archives


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
    with no_warden(own_daemon, port):
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


# ---- two users

OTHER = """
import http.client, json, socket, sys
def ask(method, path, body=None):
    c = http.client.HTTPConnection("localhost")
    c.sock = socket.socket(socket.AF_UNIX)
    c.sock.connect(sys.argv[1])
    c.request(method, path, None if body is None else json.dumps(body))
    r = c.getresponse()
    text = r.read()
    return r.status, json.loads(text) if text else None
said = {"list": ask("GET", "/containers/json?all=1")[1], "images": ask("GET", "/images/json")[1], "volumes": ask("GET", "/volumes")[1]["Volumes"],
        "json": ask("GET", "/containers/c-proxy/json")[0], "kill": ask("DELETE", "/containers/c-proxy?force=true")[0], "volume": ask("DELETE", "/volumes/v")[0],
        "create": ask("POST", "/containers/create?name=c-proxy", {"Image": sys.argv[2]})[0], "start": ask("POST", "/containers/c-proxy/start")[0],
        "make": ask("POST", "/volumes/create", {"Name": "v"})[0]}
said["port"] = ask("GET", "/containers/c-proxy/json")[1]["NetworkSettings"]["Ports"]["39001/tcp"][0]["HostPort"]
try:
    s = socket.create_connection(("127.0.0.1", int(sys.argv[3])), 60)
    s.sendall(b"GET /ca HTTP/1.1\\r\\n\\r\\n")
    said["sidecar"] = s.recv(1).decode()
except OSError:
    said["sidecar"] = ""
said["end"] = [ask("DELETE", "/containers/c-proxy?force=true")[0], ask("DELETE", "/volumes/v")[0]]
print(json.dumps(said))
"""


def test_names_of_two_users_do_not_collide(docker):
    """Both are in the group: each has containers, images, volumes and sidecars of its own."""
    assert docker.build().returncode == 0
    port = docker.run("c")
    assert docker.ask("POST", "/volumes/create", {"Name": "v"})[0] == 201
    r = subprocess.run(["/usr/bin/python3", "-c", OTHER, docker.path, SIDECAR, str(port)], user=65534, group=os.stat(docker.path).st_gid, extra_groups=[],
                       capture_output=True, check=False, timeout=DEADLINE)
    assert r.returncode == 0, r.stderr
    said = json.loads(r.stdout)
    assert said.pop("port") != str(port)
    assert said == {"list": [], "images": [], "volumes": [], "json": 404, "kill": 404, "volume": 404, "create": 201, "start": 204, "make": 201, "sidecar": "",
                    "end": [204, 204]}
    assert docker.state("c") == docker.state("c-proxy") == "running" and execute(port, "echo here")["stdout"] == "here\n"
    assert docker.ask("DELETE", "/volumes/v")[0] == 204


# ---- files out of a container


def get_archive(docker, method, path):
    c = _UnixConnection(docker.path, DEADLINE)
    try:
        c.request(method, f"/containers/c/archive?path={urllib.parse.quote(path)}")
        r = c.getresponse()
        return r.status, r.getheader("X-Docker-Container-Path-Stat"), r.read()
    finally:
        c.close()


def test_a_tar_of_files(docker):
    assert docker.build().returncode == 0
    port = docker.run("c")
    execute(port, "mkdir -p /opt/d/sub; echo one >/opt/d/a; echo two >/opt/d/sub/b; chmod 600 /opt/d/a; head -c 30000000 /dev/urandom >/opt/large")
    whole = {"d", "d/a", "d/sub", "d/sub/b"}
    for path, names in (("/opt/d/.", {".", "./a", "./sub", "./sub/b"}), ("/opt/d", whole), ("/opt/d/a", {"a"}), ("/opt/d/", whole)):
        status, _, data = get_archive(docker, "GET", path)
        with tarfile.open(fileobj=io.BytesIO(data)) as t:
            assert status == 200 and set(t.getnames()) == names, path
    status, about, data = get_archive(docker, "HEAD", "/opt/d/a")
    about = json.loads(base64.b64decode(about))
    assert status == 200 and not data and about["name"] == "a" and about["size"] == 4 and about["mode"] == 0o600, about
    assert json.loads(base64.b64decode(get_archive(docker, "HEAD", "/opt/d")[1]))["mode"] & 1 << 31
    # More than any buffer holds, out and in again.
    large = get_archive(docker, "GET", "/opt/large")[2]
    assert put_archive(docker, "c", "/srv/in", large)[0] == 200
    assert execute(port, "cmp /opt/large /srv/in/large")["exitCode"] == 0
    for path in ("/none", "/opt/d/a/."):
        for method in ("GET", "HEAD"):
            assert get_archive(docker, method, path)[0] == 404, (method, path)
    assert get_archive(docker, "GET", "opt")[0] == 400
    assert docker.ask("POST", "/containers/c/kill?signal=SIGKILL")[0] == 204
    assert get_archive(docker, "GET", "/opt")[0] == 409


def test_the_record_of_changes_names_the_user(daemon, docker):
    def audit():
        return daemon.request("GET", "/v1/audit").json()["records"]

    assert docker.build().returncode == 0
    before = max((r["id"] for r in audit()), default=0)
    docker.run("c")
    box = next(b for b in daemon.boxes() if daemon.inspect(b)["labels"].get("docker") == "c")
    assert docker.ask("DELETE", "/containers/c?force=true")[0] == 204
    records = [r for r in audit() if r["id"] > before and r.get("sandbox") == box]
    assert [(r["method"], r["status"]) for r in records][:1] == [("PUT", 201)] and records[-1]["method"] == "DELETE"
    assert {(r["by"], r["door"], r["uid"]) for r in records} == {("socket", "docker", os.getuid())}
