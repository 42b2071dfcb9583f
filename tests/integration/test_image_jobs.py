"""Requests about images are jobs, each a process: how many run, what they have, for whom they ask, what happens when one side ends."""
import hashlib
import os
import re
import select
import signal
import socket
import subprocess
from contextlib import ExitStack
from pathlib import Path

import pytest
from atoll import wait_for
from imagelib import ENDLESS, begin_build, image_instance, import_image, names, no_work_left, shell_tree, tar_of

AT_ONCE = 16


@pytest.fixture(scope="module", name="atoll")
def fixture_atoll(tmp_path_factory):
    with image_instance(tmp_path_factory.mktemp("images")) as instance:
        yield instance


def jobs(atoll):
    found = subprocess.run(["pgrep", "-x", "atoll-images", "-P", str(atoll.daemon_pid)], capture_output=True, text=True, check=False)
    return [int(p) for p in found.stdout.split()]


def half_import(atoll, name):
    """An import whose job waits for the rest of the body: its connection."""
    s = atoll.connect(unix=True)
    s.sendall(f"POST /v1/images/import?name={name} HTTP/1.1\r\nHost: localhost\r\nContent-Length: 1000\r\n\r\n".encode() + b"x" * 10)
    return s


def ask_list(atoll):
    s = atoll.connect(unix=True)
    s.sendall(b"GET /v1/images HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\r\n")
    return s


def read_all(s):
    said = b""
    while piece := s.recv(65536):
        said += piece
    return said


def test_more_requests_than_jobs_wait(atoll):
    wait_for(lambda: not jobs(atoll), "jobs of the start to end")
    with ExitStack() as stack:
        held = [stack.enter_context(half_import(atoll, f"half{i}")) for i in range(AT_ONCE)]
        wait_for(lambda: len(jobs(atoll)) == AT_ONCE, "the jobs of the imports")
        leaves, waits = stack.enter_context(ask_list(atoll)), stack.enter_context(ask_list(atoll))
        assert atoll.request("GET", "/v1/health").status == 200
        assert len(jobs(atoll)) == AT_ONCE
        assert not select.select([waits], [], [], 0)[0]
        leaves.close()
        held[0].close()
        assert read_all(waits).startswith(b"HTTP/1.1 200 ")
    wait_for(lambda: not jobs(atoll), "the jobs of clients that are gone to end")
    assert not [n for n in names(atoll) if n.startswith("half")]


def test_a_job_has_what_it_needs_and_nothing_else(atoll):
    """No database, no token, no listening socket, no connection of another client."""
    allowed = re.compile(r"/dev/null$|pipe:|socket:|/memfd:job|.*/atoll-mover$|.*/meta$|.*/daemon/#\d+ \(deleted\)$")
    with half_import(atoll, "looked-at"):
        (pid,) = wait_for(lambda: jobs(atoll), "the job")
        files = wait_for(lambda: [f for f in fds(pid).values() if f.endswith("(deleted)") and "/daemon/" in f] and fds(pid), "its file")
        odd = [f for n, f in files.items() if n != 2 and not allowed.match(f)]
        assert not odd, files
        # Its passage to the daemon, its connection to the warden.
        assert sum(f.startswith("socket:") for n, f in files.items() if n != 2) == 2, files
    wait_for(lambda: not jobs(atoll), "the job to end")


def fds(pid):
    return {int(p.name): os.readlink(p) for p in Path(f"/proc/{pid}/fd").iterdir()}


def test_a_job_acts_for_its_caller(atoll):
    token = atoll.request("POST", "/v1/tokens", {"name": "builder"}).json()["token"]
    context = tar_of([("Dockerfile", b"FROM default\nRUN echo made >/made\n", {})])
    reply = atoll.request("POST", "/v1/images/build?tag=acted&nocache=1", context, headers={"Authorization": f"Bearer {token}"}, unix=False, token=False)
    assert reply.status == 200 and '"type":"done"' in reply.text, reply
    records = atoll.request("GET", "/v1/audit").json()["records"]
    assert not [r for r in records if r.get("sandbox", "").startswith("image-")]  # boxes of builds are the image service's own
    (mine,) = [r for r in records if r.get("token") == "builder"]
    assert (mine["by"], mine["door"], mine["route"], mine["status"]) == ("token", "api", "/v1/images", 200)


def test_a_revoked_token_ends_its_build(atoll):
    token = atoll.request("POST", "/v1/tokens", {"name": "brief"}).json()["token"]
    context = tar_of([("Dockerfile", ENDLESS.encode(), {})])
    with atoll.connect() as s:
        s.sendall(b"POST /v1/images/build?tag=endless HTTP/1.1\r\nHost: localhost\r\nAuthorization: Bearer %s\r\nContent-Length: %d\r\n\r\n"
                  % (token.encode(), len(context)) + context)
        said = b""
        while b"begun\\n" not in said:
            said += s.recv(65536)
        assert atoll.request("DELETE", "/v1/tokens/brief").status == 200
        try:
            read_all(s)
        except ConnectionError:
            pass
    wait_for(lambda: not jobs(atoll) and no_work_left(atoll), "the work of the build to be removed")
    assert "endless:latest" not in names(atoll)


def test_a_killed_job_is_cut_off_and_leaves_nothing(atoll):
    with begin_build(atoll, ENDLESS) as s:
        (pid,) = jobs(atoll)
        os.kill(pid, signal.SIGKILL)
        said = b""
        try:
            said = read_all(s)
        except ConnectionError:
            pass
    assert b'"type":"done"' not in said and not said.endswith(b"0\r\n\r\n"), said
    wait_for(lambda: not jobs(atoll) and no_work_left(atoll), "the work of the build to be removed")


def test_a_job_that_is_killed_before_its_answer_is_an_error(atoll):
    with half_import(atoll, "killed") as s:
        (pid,) = wait_for(lambda: jobs(atoll), "the job")
        os.kill(pid, signal.SIGKILL)
        said = s.recv(65536)
    assert said.startswith(b"HTTP/1.1 502 ") and b"BAD_GATEWAY" in said, said
    wait_for(lambda: not jobs(atoll), "the job that looks for its rests to end")


def export(atoll, name, piece):
    """The digest and size of an exported image, read so many bytes at a time."""
    digest, size = hashlib.sha256(), 0
    with atoll.connect(unix=True) as s:
        s.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4096)
        s.sendall(f"GET /v1/images/{name}?export=rootfs HTTP/1.0\r\nHost: localhost\r\n\r\n".encode())
        with s.makefile("rb", buffering=0) as stream:
            while stream.readline() != b"\r\n":
                pass
            while got := stream.read(piece):
                digest.update(got)
                size += len(got)
    return digest.hexdigest(), size


def test_a_client_that_reads_slowly_gets_the_whole_archive(atoll):
    """The daemon stops reading the job meanwhile."""
    import_image(atoll, "noisy", tar_of([*shell_tree(), ("noise", os.urandom(6 << 20), {})]))
    slow, fast = export(atoll, "noisy", 512), export(atoll, "noisy", 1 << 20)
    assert slow == fast and slow[1] > 6 << 20


def test_a_daemon_that_starts_removes_what_jobs_have_left(atoll):
    connection = begin_build(atoll, ENDLESS)
    old = jobs(atoll)
    atoll.kill_daemon()
    connection.close()
    atoll.await_warden()
    wait_for(lambda: no_work_left(atoll), "the work of the build to be removed")
    wait_for(lambda: not any(Path(f"/proc/{pid}").exists() for pid in old), "the job to end with its daemon")
