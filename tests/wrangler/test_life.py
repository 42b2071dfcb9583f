"""The life of a `wrangler dev` on Atoll: an edit, the key r, Ctrl-C, kill -9 and its successor, and a daemon that is killed meanwhile."""

import json
import os

import npmdir
import pytest
from atoll import wait_for
from dev import HERE, LIMIT, Dev, containers, remove_all

pytestmark = [pytest.mark.skipif(not npmdir.installed(HERE), reason="npm is missing"), pytest.mark.limit(600)]
# The oldest and the newest wrangler, and Vite; test_wrangler.py has all.
WRANGLERS = ["4.86", "4.158", "vite"] + ["4.102"] * bool(os.environ.get("ATOLL_ALL_WRANGLERS"))


@pytest.fixture(autouse=True)
def images_go(request):
    """Those of a daemon's tags; images are shared by the daemons of a machine."""
    daemon = request.getfixturevalue("own_daemon" if "own_daemon" in request.fixturenames else "daemon")
    yield
    remove_all(daemon)


@pytest.mark.parametrize("version", WRANGLERS)
def test_an_edit_of_the_source_keeps_the_box(daemon, tmp_path, version):
    with Dev(daemon, tmp_path, version) as dev:
        dev.run("a", "echo kept >/workspace/f; sleep 600 >/dev/null 2>&1 &")
        source = tmp_path / "src/index.ts"
        source.write_text(source.read_text(encoding="utf-8").replace("'one'", "'two'"), encoding="utf-8")
        wait_for(lambda: dev.send("a/version") == (200, '{"ok":"two"}'), "the new source", LIMIT)
        assert dev.run("a", "cat /workspace/f; pgrep -c sleep") == "kept\n1\n"
        dev.interrupt()
    wait_for(lambda: not containers(daemon) and not daemon.boxes(), "nothing is left", LIMIT)


@pytest.mark.parametrize("version", WRANGLERS)
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


@pytest.mark.parametrize("version", WRANGLERS)
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


def test_a_dockerfile_that_cannot_be_built_stops_wrangler(daemon, tmp_path):
    with pytest.raises(AssertionError, match="Dockerfile:2"):
        with Dev(daemon, tmp_path, "4.86", dockerfile="FROM cloudflare/sandbox:0.12.10\nNOTHING\n"):
            pass
    assert not containers(daemon)


@pytest.mark.parametrize("version", WRANGLERS)
def test_a_daemon_that_is_killed_loses_no_box(own_daemon, tmp_path, version):
    with Dev(own_daemon, tmp_path, version) as dev:
        dev.run("a", "echo kept >/workspace/f; sleep 600 >/dev/null 2>&1 &")
        for _ in range(2):
            own_daemon.kill_daemon()
            own_daemon.await_warden()
            wait_for(lambda: answer(dev, "a/exec", "cat /workspace/f; pgrep -c sleep") == "kept\n1\n", "the same box", LIMIT)
        dev.interrupt()
    wait_for(lambda: not containers(own_daemon) and not own_daemon.boxes(), "nothing is left", LIMIT)
