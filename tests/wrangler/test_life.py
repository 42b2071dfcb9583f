"""The life of a `wrangler dev` on Atoll: an edit, the key r, Ctrl-C, kill -9 and its successor, and a daemon that is killed meanwhile."""

import json

import matrix
import npmdir
import pytest
from atoll import Instance, _UnixConnection, wait_for
from dev import HERE, LIMIT, Dev, containers, remove_all

POOL = "snapshots come from it"

pytestmark = [pytest.mark.skipif(not npmdir.installed(HERE), reason="npm is missing"), pytest.mark.limit(600)]
# One that shares containers with its successor comes first.
WRANGLERS = ["4.86", "4.160", "vite"] + ["4.102"] * matrix.NIGHTLY


def pytest_generate_tests(metafunc):
    of_row = {"test_the_next_server_takes_the_box_of_a_killed_one_over": SHARING}
    matrix.for_tests(metafunc, "version", lambda row: of_row.get(row, WRANGLERS))


@pytest.fixture(autouse=True)
def images_go(request):
    """Those of a daemon's tags; images are shared by the daemons of a machine."""
    name = next((n for n in ("own_daemon", "daemon") if n in request.fixturenames), None)
    daemon = name and request.getfixturevalue(name)
    yield
    if daemon:
        remove_all(daemon)


def test_an_edit_of_the_source_keeps_the_box(daemon, tmp_path, version):
    with Dev(daemon, tmp_path, version) as dev:
        dev.run("a", "echo kept >/workspace/f; sleep 600 >/dev/null 2>&1 &")
        source = tmp_path / "src/index.ts"
        source.write_text(source.read_text(encoding="utf-8").replace("'one'", "'two'"), encoding="utf-8")
        wait_for(lambda: dev.send("a/version") == (200, '{"ok":"two"}'), "the new source", LIMIT)
        assert dev.run("a", "cat /workspace/f; pgrep -c sleep") == "kept\n1\n"
        dev.interrupt()
    wait_for(lambda: not containers(daemon) and not daemon.boxes(), "nothing is left", LIMIT)


def test_the_key_r_builds_again_and_makes_a_new_box(daemon, tmp_path, version):
    with Dev(daemon, tmp_path, version) as dev:
        dev.run("a", "touch /workspace/f")
        dockerfile = tmp_path / "Dockerfile"
        dockerfile.write_text(dockerfile.read_text(encoding="utf-8").replace("yes", "again"), encoding="utf-8")
        dev.type("r\r" if version == "vite" else "r")
        # A call before would make a box of the old image, which the new server takes over.
        dev.wait_times("server restarted" if version == "vite" else "Local server updated and ready", 1)
        wait_for(lambda: answer(dev, "a/exec", "echo $FROM_IMAGE") == "again\n", "a box of the new image", LIMIT)
        assert dev.ask("a/exec", "ls /workspace/f")["exitCode"] == 2
        dev.interrupt()
    wait_for(lambda: not containers(daemon) and not daemon.boxes(), "nothing is left", LIMIT)


def answer(dev, path, body):
    """While a server restarts its calls may fail."""
    try:
        status, text = dev.send(path, body)
    except OSError:
        return None
    return json.loads(text)["ok"]["stdout"] if status == 200 else None


# Newer ones have names with a session in them: another server never takes their containers.
SHARING = [version for version in WRANGLERS if version != "4.160"]


def test_the_next_server_takes_the_box_of_a_killed_one_over(daemon, tmp_path, version):
    with Dev(daemon, tmp_path, version) as dev:
        dev.run("a", "echo kept >/workspace/f; sleep 600 >/dev/null 2>&1 &")
        dev.kill()
    assert set(containers(daemon).values()) == {"running"}
    with Dev(daemon, tmp_path, version) as dev:
        assert dev.run("a", "cat /workspace/f; pgrep -c sleep") == "kept\n1\n"
        dev.ask("a/destroy")
        dev.interrupt()
    remove_all(daemon)
    wait_for(lambda: not daemon.boxes(), "no box is left", LIMIT)


def ask(daemon, method, path, body=None):
    c = _UnixConnection(str(daemon.run / "docker.sock"), LIMIT)
    try:
        c.request(method, path, None if body is None else json.dumps(body))
        r = c.getresponse()
        return r.status, r.read()
    finally:
        c.close()


def test_the_end_of_a_session_leaves_what_others_have(daemon, tmp_path):
    """It removes what a list by its label holds: not another server's container, nor a volume."""
    assert ask(daemon, "POST", "/volumes/create", {"Name": "workerd-snap-kept"})[0] == 201
    with Dev(daemon, tmp_path / "one", "4.160") as one, Dev(daemon, tmp_path / "two", "4.160") as two:
        for dev in (one, two):
            dev.run("a", "echo kept >/workspace/f")
        assert len(containers(daemon)) == 4
        one.interrupt()
        wait_for(lambda: len(containers(daemon)) == 2, "its own have gone", LIMIT)
        assert two.run("a", "cat /workspace/f") == "kept\n"
        two.interrupt()
    wait_for(lambda: not containers(daemon) and not daemon.boxes(), "nothing is left", LIMIT)
    assert ask(daemon, "DELETE", "/volumes/workerd-snap-kept")[0] == 204


def test_what_a_killed_session_leaves_goes_by_itself(tmp_path):
    with Instance({"ATOLL_DOCKER_ORPHAN_AFTER": "5s"}) as daemon:
        with Dev(daemon, tmp_path, "4.160") as dev:
            dev.run("a", "true")
            dev.kill()
        with Dev(daemon, tmp_path, "4.160") as dev:
            assert dev.run("a", "ls /workspace") == ""
            wait_for(lambda: len(containers(daemon)) == 2 and len(daemon.boxes()) == 1, "only those of the server that runs are left", LIMIT)
            assert dev.run("a", "echo here") == "here\n"
            dev.interrupt()
        wait_for(lambda: not containers(daemon) and not daemon.boxes(), "nothing is left", LIMIT)
        remove_all(daemon)


def test_a_dockerfile_that_cannot_be_built_stops_wrangler(daemon, tmp_path):
    with pytest.raises(AssertionError, match="Dockerfile:2"):
        with Dev(daemon, tmp_path, "4.86", dockerfile="FROM cloudflare/sandbox:0.12.10\nNOTHING\n"):
            pass
    assert not containers(daemon)


def test_a_daemon_that_is_killed_loses_no_box(own_daemon, tmp_path, version):
    with Dev(own_daemon, tmp_path, version) as dev:
        dev.run("a", "echo kept >/workspace/f; sleep 600 >/dev/null 2>&1 &")
        for _ in range(2):
            own_daemon.kill_daemon()
            own_daemon.await_warden()
            wait_for(lambda: answer(dev, "a/exec", "cat /workspace/f; pgrep -c sleep") == "kept\n1\n", "the same box", LIMIT)
        dev.interrupt()
    wait_for(lambda: not containers(own_daemon) and not own_daemon.boxes(), "nothing is left", LIMIT)
