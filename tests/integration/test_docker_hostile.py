"""Input to the Docker socket that no client of Docker's would send."""

import errno
import json
import os
import pathlib
import re
import socket
import struct
import subprocess
import time

import pytest
from atoll import DEADLINE, wait_for
from dockersock import SIDECAR, TAG, connect, post

RESET = struct.pack("ii", 1, 0)  # SO_LINGER: a close is a reset


def talk(docker, data, end=True):
    """All that comes back for these bytes."""
    with socket.socket(socket.AF_UNIX) as s:
        s.settimeout(DEADLINE)
        s.connect(docker.path)
        out = b""
        try:
            s.sendall(data)
            if end:
                s.shutdown(socket.SHUT_WR)
            while piece := s.recv(65536):
                out += piece
        except (BrokenPipeError, ConnectionResetError):
            pass
        return out


def alive(docker):
    return talk(docker, b"GET /_ping HTTP/1.1\r\nHost: x\r\nConnection: close\r\n\r\n").endswith(b"OK")


@pytest.mark.parametrize("method, path", [
    ("GET", "/"), ("POST", "/build"), ("GET", "/events"), ("POST", "/containers/c/attach"), ("GET", "/containers/c/logs"), ("PATCH", "/containers/c/json"),
    ("GET", "/containers//json"), ("GET", "/containers/%2e%2e/json"), ("GET", "/containers/%zz/json"), ("GET", "/containers/" + "x" * 4000 + "/json"),
    ("GET", "/images//json"), ("DELETE", "/images/"), ("GET", "/volumes/"), ("PUT", "/volumes/x"), ("POST", "/volumes"), ("GET", "/exec/"),
    ("POST", "/exec/x/nothing"),
    ("GET", "/v1.47"), ("GET", "/v1.47/"), ("GET", "/v1.47/v1.47/info"), ("POST", "/commit?container=none&repo=a"), ("GET", "/swarm"),
    ("POST", "/networks/create"),
])
def test_what_is_unknown_is_404_with_a_message(docker, method, path):
    status, error = docker.ask(method, path)
    assert status == 404 and set(error) == {"message"} and error["message"], (status, error)


@pytest.mark.parametrize("body", [b"", b"{", b"[]", b"null", b'"x"', b'{"Image":1}', b'{"Image":""}', b"\xff\xfe", b'{"Image":"\\u0000"}',
                                  b'{"Image":' + b"[" * 5000 + b"]" * 5000 + b"}",
                                  b'{"Image":"x","HostConfig":7,"Env":"A=1","Cmd":{}}', b'{"Image":"x"}' + b" " * 100 + b"x"])
def test_a_create_that_makes_no_sense(docker, body):
    out = talk(docker, b"POST /containers/create?name=c HTTP/1.1\r\nHost: x\r\nConnection: close\r\nContent-Length: %d\r\n\r\n%s" % (len(body), body))
    assert out.split()[1] in (b"400", b"404"), out
    assert json.loads(out.split(b"\r\n\r\n", 1)[1])["message"]
    assert docker.ask("GET", "/containers/json?all=1")[1] == []


@pytest.mark.parametrize("path", ["/containers/create?name=c", "/volumes/create", "/containers/c/archive?path=/etc"])
def test_a_body_that_is_too_long(docker, path):
    """Of a container that does not run, an archive is kept in memory."""
    assert docker.build().returncode == 0
    assert docker.ask("POST", "/containers/create?name=c", {"Image": docker.tags()[0]})[0] == 201
    method = b"PUT" if "archive" in path else b"POST"
    out = talk(docker, b"%s %s HTTP/1.1\r\nHost: x\r\nContent-Length: %d\r\n\r\n" % (method, path.encode(), 1 << 40) + b"x" * (3 << 20), end=False)
    assert out.startswith(b"HTTP/1.1 413 ") and b'"message"' in out, out[:200]
    assert alive(docker)


@pytest.mark.parametrize("data", [b"", b"\n", b"GET", b"GET / HTTP/1.1\r\n", b"\x16\x03\x01\x02\x00\x01\x00\x01\xfc\x03\x03", b"\0" * 9000,
                                  b"GET / HTTP/9.9\r\n\r\n",
                                  b"POST /containers/create?name=c HTTP/1.1\r\nHost: x\r\nContent-Length: 100\r\n\r\n{",
                                  b"GET / HTTP/1.1\r\n" + b"A: b\r\n" * 5000 + b"\r\n",
                                  b"POST /containers/create HTTP/1.1\r\nHost: x\r\nTransfer-Encoding: chunked\r\n\r\nffffffffffffffffff\r\n",
                                  b"POST /exec/x/start HTTP/1.1\r\nHost: x\r\nConnection: Upgrade\r\nUpgrade: tcp\r\nContent-Length: 5\r\n\r\n{}"])
def test_half_requests_and_nonsense(docker, data):
    out = talk(docker, data)
    assert not out or out.startswith((b"HTTP/1.1 4", b"HTTP/1.1 505 ")), out[:200]
    assert alive(docker)


def test_many_connections_that_say_nothing(docker):
    held = []
    for _ in range(200):
        s = socket.socket(socket.AF_UNIX)
        s.connect(docker.path)
        s.sendall(b"POST /containers/create HTTP/1.1\r\nHost: x\r\nContent-Le")
        held.append(s)
    assert alive(docker)
    for s in held:
        s.close()


def test_a_body_that_is_one_empty_chunk(docker):
    """workerd's way to send none."""
    out = talk(docker, b"POST /containers/none/start HTTP/1.1\r\nHost: localhost\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\n")
    assert out.startswith(b"HTTP/1.1 404 "), out


@pytest.mark.parametrize("data", [b"", b"CONNECT", b"CONNECT 127.0.0.1:3000 HTTP/1.1\r\n", b"GET /ca HTTP/1.1\r\nTransfer-Encoding: chunked\r\n\r\n",
                                  b"\0" * 70000,
                                  b"PUT /egress HTTP/1.1\r\nContent-Length: 10\r\n\r\n{}", b"PUT /egress HTTP/1.1\r\nContent-Length: -1\r\n\r\n",
                                  b"PUT /egress HTTP/1.1\r\nContent-Length: 99999999999999999999\r\n\r\n", b"CONNECT 127.0.0.1:+80 HTTP/1.1\r\n\r\n"])
def test_nonsense_to_a_sidecar(docker, data):
    assert docker.ask("POST", "/containers/create?name=c-proxy", {"Image": SIDECAR})[0] == 201
    assert docker.ask("POST", "/containers/c-proxy/start")[0] == 204
    port = docker.port("c")
    with socket.create_connection(("127.0.0.1", port), DEADLINE) as s:
        try:
            s.sendall(data)
            s.shutdown(socket.SHUT_WR)
            out = s.recv(4096)
        except OSError as e:  # it may hang up before everything is sent
            assert e.errno in (errno.ECONNRESET, errno.EPIPE, errno.ENOTCONN), e
            out = b""
    assert not out or out.startswith(b"HTTP/1.1 4"), out
    assert connect(port, "127.0.0.1:8080")[1] == 400


def test_too_many_connections_to_a_sidecar(docker):
    """Those past the limit are closed; when they have gone it serves again."""
    assert docker.ask("POST", "/containers/create?name=c-proxy", {"Image": SIDECAR})[0] == 201
    assert docker.ask("POST", "/containers/c-proxy/start")[0] == 204
    port = docker.port("c")
    held = [socket.create_connection(("127.0.0.1", port), DEADLINE) for _ in range(300)]
    last = held[-1]
    last.settimeout(DEADLINE)
    assert last.recv(1) == b""
    for s in held:
        s.close()

    def serves():
        try:
            return connect(port, "127.0.0.1:8080")[1] == 400
        except (ConnectionResetError, IndexError):
            return False
    wait_for(serves, "it serves again")


def ticks(pid):
    """The processor time of a process."""
    fields = pathlib.Path(f"/proc/{pid}/stat").read_text(encoding="ascii").rsplit(")", 1)[1].split()
    return int(fields[11]) + int(fields[12])


def reach(docker, app):
    """A connection to this program in a container: `c` is its end of it."""
    assert docker.build().returncode == 0
    port = docker.run("c")
    program = f"import socket, struct, time; s = socket.create_server(('127.0.0.1', 8080)); c, _ = s.accept(); {app}"
    post(port, "/api/process/start", {"command": f'python3 -c "{program}"', "processId": "app"})

    def connected():
        s, status = connect(port, "127.0.0.1:8080")
        return s if status == 200 else s.close()
    return wait_for(connected, "the app listens")


def check_rests(docker):
    """While this process works for a second, the daemon does not work for a quarter of one."""
    before, begun = ticks(docker.daemon.daemon_pid), time.process_time()
    while time.process_time() - begun < 1:
        pass
    assert ticks(docker.daemon.daemon_pid) - before < os.sysconf("SC_CLK_TCK") / 4


def test_a_client_that_is_gone_before_its_bytes_are_taken_costs_nothing(docker):
    s = reach(docker, "time.sleep(1000)")
    s.settimeout(1)
    with pytest.raises(TimeoutError):  # nothing more goes
        while True:
            s.sendall(b"x" * 65536)
    s.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, RESET)
    s.close()
    check_rests(docker)


def test_an_app_that_ends_and_then_resets_costs_nothing(docker):
    """The client has been told of the end, and leaves the connection open."""
    s = reach(docker, "c.shutdown(1); c.recv(1); c.setsockopt(1, 13, struct.pack('ii', 1, 0)); c.close(); time.sleep(1000)")
    s.settimeout(DEADLINE)
    assert s.recv(1) == b""
    s.sendall(b"x")
    check_rests(docker)
    s.close()


def test_a_sidecar_without_descriptors_costs_nothing(own_daemon, own_docker):
    """The connection that cannot be taken waits until there is one again."""
    docker = own_docker
    assert docker.ask("POST", "/containers/create?name=c-proxy", {"Image": SIDECAR})[0] == 201
    assert docker.ask("POST", "/containers/c-proxy/start")[0] == 204
    port, pid = docker.port("c"), own_daemon.daemon_pid
    about = pathlib.Path(f"/proc/{pid}/status").read_text(encoding="utf-8")
    uid, gid = (int(re.search(rf"^{name}:\s+(\d+)", about, re.M)[1]) for name in ("Uid", "Gid"))  # who may change its limit
    before = re.search(r"^Max open files\s+(\d+)", pathlib.Path(f"/proc/{pid}/limits").read_text(encoding="utf-8"), re.M)[1]

    def limit(n):
        subprocess.run(["prlimit", "--pid", str(pid), f"--nofile={n}:"], user=uid, group=gid, extra_groups=[], check=True, timeout=DEADLINE)
    limit(1)  # what is open stays open
    last = socket.create_connection(("127.0.0.1", port), DEADLINE)
    check_rests(docker)
    limit(before)
    last.sendall(b"CONNECT 127.0.0.1:8080 HTTP/1.1\r\n\r\n")
    assert last.recv(12) == b"HTTP/1.1 400"
    last.close()


def processor_ns(pid):
    """Nanoseconds of all threads."""
    return sum(int(path.read_text().split()[0]) for path in pathlib.Path(f"/proc/{pid}/task").glob("*/schedstat"))


def test_many_variables_take_no_time_of_others(docker):
    """No other client is served while a body is read: comparing each variable with all others took seconds. Eight times as many
    variables would take 64 times the processor time then."""
    assert docker.build().returncode == 0

    def cost(count):
        before = processor_ns(docker.daemon.daemon_pid)
        body = {"Image": docker.tags()[0], "Env": [f"a{n}=" for n in range(count)] + ["a0=last"]}
        assert docker.ask("POST", f"/containers/create?name=c{count}", body)[0] == 201
        return processor_ns(docker.daemon.daemon_pid) - before

    cost(8000)  # the first answer to such a body
    assert docker.ask("DELETE", "/containers/c8000")[0] == 204
    few, many = cost(8000), cost(64000)
    assert many < 24 * few, (few, many)


@pytest.mark.parametrize("arguments, words", [
    (["run", "x"], "unknown command 'run'"), (["build", "--secret", "a", "-t", "x", "."], "--secret"), (["pull", "--quiet", "x"], "--quiet"),
    (["ps", "--all-of-it"], "--all-of-it"),
    (["image", "inspect", "none-such"], "none-such"), (["image", "prune"], "prune"), (["rm", "none-such"], "none-such"), (["tag", "a"], "tag"),
    (["build", "-t"], "-t"),
])
def test_the_command_names_what_it_does_not_know(docker, arguments, words):
    r = docker.cli(*arguments)
    assert r.returncode != 0 and words in r.stderr.decode(), (arguments, r.stderr)


DEVICE = {"PathOnHost": "/dev/fuse", "PathInContainer": "/dev/fuse", "CgroupPermissions": "rwm"}
RIGHTS = [{"Privileged": True}, {"Privileged": 1}, {"CapAdd": ["SYS_ADMIN"]}, {"CapAdd": ["NET_ADMIN", "SYS_ADMIN"]}, {"CapAdd": "NET_ADMIN"},
          {"Devices": [DEVICE]}, {"DeviceRequests": [{"Count": -1}]}, {"DeviceCgroupRules": ["c *:* rwm"]}, {"SecurityOpt": ["apparmor=unconfined"]},
          {"PidMode": "container:other"}, {"PidMode": 1}]
USUAL = [{"PidMode": "host"}, {"PidMode": ""}, {"Privileged": False, "CapAdd": [], "Devices": None, "SecurityOpt": []}]


def test_a_container_that_asks_for_rights_is_refused(docker):
    """It was made without them, and without a word. workerd sends NET_ADMIN for its sidecar, and PidMode host for projects of old dates."""
    assert docker.build().returncode == 0
    for host in [*RIGHTS, {"CapAdd": ["NET_ADMIN"]}]:
        for image in (TAG, SIDECAR) if host != {"CapAdd": ["NET_ADMIN"]} else (TAG,):
            status, said = docker.ask("POST", "/containers/create?name=c", {"Image": image, "HostConfig": host})
            assert status == 400 and next(iter(host)) in said["message"], (host, image, status, said)
    assert docker.ask("GET", "/containers/json?all=1")[1] == []
    for n, host in enumerate(USUAL):
        assert docker.ask("POST", f"/containers/create?name=c{n}", {"Image": TAG, "HostConfig": host})[0] == 201, host
    assert docker.ask("POST", "/containers/create?name=c-proxy", {"Image": SIDECAR, "HostConfig": {"CapAdd": ["NET_ADMIN"]}})[0] == 201


def test_other_users_cannot_come_in(docker):
    """The socket's mode keeps strangers out; the group's members see their own containers only (SO_PEERCRED)."""
    pid = os.fork()
    if not pid:
        try:
            os.setgroups([])
            os.setgid(65534)
            os.setuid(65534)
            socket.socket(socket.AF_UNIX).connect(docker.path)
            os._exit(1)
        except PermissionError:
            os._exit(0)
        except BaseException:
            os._exit(2)
    assert os.waitpid(pid, 0)[1] == 0
