"""Ends of containers on the Docker socket: what wait, kill and stop answer. No code is told that no program has ended with."""

import contextlib
import json
import os
import signal
import threading

import leaks
import pytest
from atoll import DEADLINE, Instance, _UnixConnection, wait_for
from dockersock import TAG, Docker, execute, no_warden, post, put_archive, tar
from imagelib import own

POOL = "volumes are in it"


def init_pid(daemon, port):
    """The first process of the container, as the host numbers it."""
    namespace = execute(port, "readlink /proc/self/ns/pid")["stdout"].strip()
    return next(pid for pid in leaks.children(daemon.warden_pid) if os.readlink(f"/proc/{pid}/ns/pid") == namespace)


def waits(docker, condition=""):
    """A wait that has been sent; what it returns gives the answer."""
    c = _UnixConnection(docker.path, DEADLINE)
    c.request("POST", f"/containers/c/wait{condition}")

    def answer():
        with contextlib.closing(c):
            r = c.getresponse()
            return r.status, json.loads(r.read())
    return answer


def create(docker, name="c", **more):
    assert docker.ask("POST", f"/containers/create?name={name}", {"Image": TAG, **more})[0] == 201


# ---- wait


def test_a_wait_for_what_never_ran_has_no_code(docker):
    assert docker.build().returncode == 0
    create(docker)
    status, error = docker.ask("POST", "/containers/c/wait")
    assert status == 409 and "never started" in error["message"], error
    for condition in ("running", "x", "%22"):
        status, error = docker.ask("POST", f"/containers/c/wait?condition={condition}")
        assert status == 400 and "invalid condition" in error["message"], error


def test_a_wait_for_the_next_end(docker):
    """As `docker run` waits: before the start, and not for the end before."""
    assert docker.build().returncode == 0
    create(docker)
    for _ in range(2):
        answer = waits(docker, "?condition=next-exit")
        assert docker.ask("POST", "/containers/c/start")[0] == 204
        assert docker.ask("POST", "/containers/c/kill")[0] == 204
        assert answer() == (200, {"StatusCode": 137})
        assert docker.ask("POST", "/containers/c/wait?condition=not-running") == (200, {"StatusCode": 137})


def test_a_start_that_fails_is_no_end_with_0(docker):
    assert docker.build().returncode == 0
    create(docker)
    assert put_archive(docker, "c", "/etc", b"no tar at all")[0] == 200
    answer = waits(docker, "?condition=next-exit")
    assert docker.ask("POST", "/containers/c/start")[0] == 500
    assert answer() == (200, {"StatusCode": 128}) and docker.state("c") == "created"
    assert docker.ask("POST", "/containers/c/wait") == (200, {"StatusCode": 128})


@pytest.mark.parametrize("sent, code", [(signal.SIGKILL, 137), (signal.SIGTERM, 0)])
def test_the_code_of_a_box_that_is_ended_by_others(daemon, docker, sent, code):
    """By the end of its first process, whoever ended it."""
    assert docker.build().returncode == 0
    pid = init_pid(daemon, docker.run("c"))
    answer = waits(docker)
    os.kill(pid, sent)
    assert answer() == (200, {"StatusCode": code})


def test_a_box_that_does_not_follow_a_stop_was_killed(daemon, docker):
    """Its first process stands still: after the grace it is killed, and that is what is told."""
    assert docker.build().returncode == 0
    pid = init_pid(daemon, docker.run("c"))
    answer = waits(docker)
    os.kill(pid, signal.SIGSTOP)
    assert docker.ask("POST", "/containers/c/kill?signal=SIGTERM")[0] == 204
    assert answer() == (200, {"StatusCode": 137})


# ---- kill and stop


def test_signals_that_end_nothing_reach_the_programs(docker):
    assert docker.build().returncode == 0
    port = docker.run("c")
    post(port, "/api/process/start", {"command": "trap 'echo heard >/tmp/heard' USR1; touch /tmp/ready; while :; do sleep 0.05; done", "processId": "p"})
    wait_for(lambda: execute(port, "test -e /tmp/ready")["exitCode"] == 0, "the trap is set")
    for name in ("SIGUSR1", "WINCH", "28", "SIGCHLD", "SIGCONT", "SEGV"):
        assert docker.ask("POST", f"/containers/c/kill?signal={name}") == (204, None), name
        assert docker.state("c") == "running", name
    wait_for(lambda: post(port, "/api/read", {"path": "/tmp/heard"}).get("content") == "heard\n", "the program has the signal")
    for name in ("SIGNOTHING", "99999", "-9", "0", "sigterm", "SIGSTOP"):
        status, error = docker.ask("POST", f"/containers/c/kill?signal={name}")
        assert status == 400 and "SIG" in error["message"].upper(), (name, status, error)
    assert docker.state("c") == "running"


@pytest.mark.parametrize("name", ["SIGTERM", "15", "INT", "SIGQUIT"])
def test_signals_that_end_it(docker, name):
    assert docker.build().returncode == 0
    docker.run("c")
    assert docker.ask("POST", f"/containers/c/kill?signal={name}")[0] == 204
    assert docker.ask("POST", "/containers/c/wait") == (200, {"StatusCode": 0})
    assert docker.ask("POST", f"/containers/c/kill?signal={name}")[0] == 409


def test_a_stop(docker):
    assert docker.build().returncode == 0
    docker.run("c")
    assert docker.ask("POST", "/containers/c/stop?t=3") == (204, None)
    assert docker.ask("POST", "/containers/c/wait") == (200, {"StatusCode": 0})
    assert docker.ask("POST", "/containers/c/stop") == (304, None)


# ---- amid a start


def test_a_name_is_taken_while_its_container_starts(docker):
    """Of 2 x 6 clients that create, start and remove one name, none is told something that is not so; no box is left."""
    assert docker.build().returncode == 0
    seen = []

    def work(n):
        for _ in range(6):
            seen.append(("create", docker.ask("POST", "/containers/create?name=c", {"Image": TAG})[0]))
            seen.append(("start", docker.ask("POST", "/containers/c/start")[0]))
            if n % 2:
                seen.append(("delete", docker.ask("DELETE", "/containers/c?force=true")[0]))
    threads = [threading.Thread(target=work, args=(n,)) for n in range(6)]
    for t in threads:
        t.start()
    for t in threads:
        t.join()
    allowed = {"create": {201, 409}, "start": {204, 304, 404, 409}, "delete": {204, 404}}
    assert all(status in allowed[what] for what, status in seen), seen
    docker.ask("DELETE", "/containers/c?force=true")
    wait_for(lambda: not docker.daemon.boxes(), "no box is left")


@pytest.mark.parametrize("asked, code", [("kill?signal=SIGTERM", 0), ("kill", 137), ("stop", 0)])
def test_an_end_that_is_asked_for_amid_a_start_is_an_end(docker, asked, code):
    """It was refused as not running, and the container ran on behind it. The archive makes the start last."""
    assert docker.build().returncode == 0
    large = tar("f", os.urandom(600000))
    for _ in range(3):
        create(docker)
        assert put_archive(docker, "c", "/srv", large)[0] == 200
        c = _UnixConnection(docker.path, DEADLINE)
        c.request("POST", "/containers/c/start")
        assert docker.ask("POST", f"/containers/c/{asked}")[0] == 204
        assert c.getresponse().status == 204
        c.close()
        assert docker.ask("POST", "/containers/c/wait") == (200, {"StatusCode": code})
    create(docker)
    assert put_archive(docker, "c", "/etc", b"no tar at all" * 40000)[0] == 200
    c = _UnixConnection(docker.path, DEADLINE)
    c.request("POST", "/containers/c/start")
    assert docker.ask("POST", "/containers/c/kill")[0] == 409
    assert c.getresponse().status == 500
    c.close()


def test_a_create_whose_old_box_does_not_go_fails(own_daemon, own_docker):
    """Its start would find files and settings of another container."""
    docker = own_docker
    assert docker.build().returncode == 0
    docker.run("c")
    box = next(b for b in own_daemon.boxes() if b.startswith("docker-"))
    assert docker.ask("POST", "/containers/c/kill")[0] == 204
    assert own(own_daemon, "PUT", f"/v1/sandboxes/{box}").status == 201
    with no_warden(own_daemon, docker.port("c")):
        status, error = docker.ask("POST", "/containers/create?name=c", {"Image": TAG})
        assert status == 500 and error["message"], (status, error)
        assert docker.state("c") is None
    create(docker)


def test_a_query_that_cannot_be_read_is_refused(docker):
    """It does not count as missing."""
    assert docker.build().returncode == 0
    docker.run("c")
    for method, path in (("POST", "/containers/c/kill?signal=%zz"), ("POST", "/containers/c/kill?signal=%00"), ("GET", "/containers/json?filters=%7"),
                         ("POST", "/containers/create?name=%ff%")):
        status, error = docker.ask(method, path)
        assert status == 400 and "query" in error["message"], (path, status, error)
    assert docker.state("c") == "running"


def test_only_the_bridge_is_a_network(docker):
    for name in ("none", "bridge2", "bridge/x", ""):
        status, error = docker.ask("GET", f"/networks/{name}")
        assert status == 404 and set(error) == {"message"}, name


def test_commands_that_were_never_started_make_room():
    """DOCKER_EXECS_MAX is for those that run."""
    with Instance({"ATOLL_ZYGOTE": "off"}) as daemon:
        docker = Docker(daemon)
        assert docker.build().returncode == 0
        docker.run("c")
        for _ in range(1024 + 1):
            status, made = docker.ask("POST", "/containers/c/exec", {"Cmd": ["true"]})
            assert status == 201, made
        docker.remove_all()
