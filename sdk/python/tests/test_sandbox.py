"""Which Atoll, which sandbox, and its life."""

from __future__ import annotations

import asyncio
import os
import subprocess
import sys
from pathlib import Path
from typing import Any, Callable

import pytest

from atoll_sandbox import AsyncSandbox, FileSystemError, Limits, Sandbox, SandboxError, ValidationFailedError
from atoll_sandbox._place import locate

from .conftest import Daemon, until

FIND = """
from atoll_sandbox import Sandbox
with Sandbox("p-env", destroy_on_exit=True) as sandbox:
    print(sandbox.exec("echo found").stdout, end="")
"""


def test_the_socket_needs_no_token(make: Callable[..., Any], box_id: str, daemon: Daemon) -> None:
    for url in (f"unix:{daemon.socket}", f"unix://{daemon.socket}"):
        assert make(box_id, url=url).exec("echo over a socket").stdout == "over a socket\n"


def test_the_environment_says_which_atoll(daemon: Daemon) -> None:
    def run(**env: str) -> str:
        given = {"PATH": os.environ["PATH"], "PYTHONPATH": os.environ.get("PYTHONPATH", ""), **env}
        done = subprocess.run([sys.executable, "-c", FIND], env=given, capture_output=True, text=True, timeout=120)
        assert done.returncode == 0, done.stderr
        return done.stdout

    assert run(ATOLL_URL=daemon.url, ATOLL_TOKEN=daemon.token) == "found\n"
    assert run(ATOLL_URL=f"unix:{daemon.socket}") == "found\n"
    assert run(ATOLL_RUN=str(Path(daemon.socket).parent)) == "found\n"


def test_places(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    for name in ("ATOLL_URL", "ATOLL_TOKEN", "ATOLL_RUN"):
        monkeypatch.delenv(name, raising=False)
    assert (locate("http://a:1/", None).url, locate("https://a/base", "t").token) == ("http://a:1", "t")
    monkeypatch.setenv("ATOLL_TOKEN", "env")
    assert (locate("http://a:1", "mine").token, locate("http://a:1", None).token) == ("mine", "env")
    monkeypatch.setenv("ATOLL_RUN", str(tmp_path))
    assert locate(None, None).socket_path == f"{tmp_path}/atoll.sock"
    for wrong in ("ftp://a", "127.0.0.1:8700", "unix:", "http://", "http://a:99999"):
        with pytest.raises(ValueError, match="not the URL of an Atoll"):
            locate(wrong, None)
    with pytest.raises(ValueError, match="token"):
        locate("http://a", "with\nnewline")


def test_leaving_closes_and_may_destroy(box_id: str) -> None:
    with Sandbox(box_id) as sandbox:
        sandbox.exec("true")
    with pytest.raises(RuntimeError, match="closed"):
        sandbox.exec("true")
    with Sandbox(box_id, create=False, destroy_on_exit=True) as again:
        assert again.exec("true").success
        assert again.info()
    with pytest.raises(ZeroDivisionError):
        with Sandbox(box_id, destroy_on_exit=True) as failing:
            failing.exec("true")
            raise ZeroDivisionError
    with Sandbox(box_id) as gone:
        assert gone.info() is None


def test_what_a_sandbox_is_made_with(make: Callable[..., Any], box_id: str) -> None:
    sandbox = make(
        box_id, limits=Limits(memory=128 << 20, pids=64), env={"MODE": "debug"}, labels={"team": "a"}, sleep_after="10m",
        keep_alive=True,
    )
    assert sandbox.exec("echo $MODE").stdout == "debug\n"
    info = sandbox.info()
    assert (info.id, info.state, info.image, info.labels) == (box_id, "running", "default", {"team": "a"})
    assert (info.limits.memory, info.limits.pids, info.env_names) == (128 << 20, 64, ["MODE"])
    assert (info.sleep_after, info.keep_alive) == (600, True)
    assert info.usage.pids >= 1
    assert sandbox.configure(limits={"pids": 32}, keep_alive=False).limits.pids == 32
    assert sandbox.info().keep_alive is False
    sandbox.configure(env={"MODE": None, "NEW": "1"})
    assert sandbox.exec('echo "[$MODE]$NEW"', session="fresh").stdout == "[]1\n"


def test_life(sandbox: Any) -> None:
    assert sandbox.info() is None
    sandbox.destroy()
    sandbox.start()
    sandbox.write_file("kept", "file")
    sandbox.exec("cd /tmp")
    sandbox.stop()
    until(lambda: sandbox.info().state == "stopped", "the sandbox to stop")
    sandbox.stop()
    assert (sandbox.exec("pwd").stdout, sandbox.read_file("/workspace/kept")) == ("/workspace\n", "file")
    sandbox.destroy()
    assert sandbox.info() is None
    assert not sandbox.exists("/workspace/kept")


def test_options_that_the_daemon_refuses_are_told_by_the_first_call(make: Callable[..., Any], box_id: str) -> None:
    with pytest.raises(ValidationFailedError) as caught:
        make(box_id, sleep_after="soon").exec("true")
    assert caught.value.validation_errors and caught.value.validation_errors[0]["field"] == "sleepAfter"


def test_a_volume_is_shared(make: Callable[..., Any], box_id: str) -> None:
    name = f"py-{box_id}".lower()
    writer = make(box_id, volumes=[{"name": name, "path": "/cache"}])
    maker = make(f"{box_id}-m")
    assert maker.create_volume(name, size=64 << 20).size == 64 << 20
    writer.write_file("/cache/f", "kept")
    reader = make(f"{box_id}-r", volumes=[{"name": name, "path": "/c", "read_only": True}])
    assert reader.read_file("/c/f") == "kept"
    assert reader.info().volumes == [{"name": name, "path": "/c", "readOnly": True}]
    with pytest.raises(FileSystemError) as readonly:
        reader.write_file("/c/g", "x")
    assert readonly.value.code == "READ_ONLY"
    shown = maker.get_volume(name)
    assert shown.users == 2 and sorted(shown.used_by) == sorted([writer.id, reader.id]) and shown["usedBy"] == shown.used_by
    with pytest.raises(SandboxError) as refused:
        maker.delete_volume(name)
    assert refused.value.code == "RESOURCE_BUSY"
    writer.destroy()
    reader.destroy()
    maker.delete_volume(name)
    assert name not in [one.name for one in maker.volumes()]
    assert maker.info() is None, "volumes are the daemon's"


def test_more_that_a_sandbox_is_made_with(make: Callable[..., Any], box_id: str) -> None:
    sandbox = make(
        box_id, instance="lite", limits={"pids": 99}, user="nobody", command=["sleep", "600"], durable=False, fuse=False,
        network={"mode": "off"},
    )
    assert sandbox.exec("id -un").stdout == "nobody\n"
    info = sandbox.info()
    assert (info.instance, info.limits.memory, info.limits.pids) == ("lite", 256 << 20, 99)
    assert not info.sleep_after_chosen and sandbox.is_process_running("entrypoint")
    assert sandbox.configure(network={"mode": "list", "allow": ["pypi.org"]}).id == box_id
    assert sandbox.get_network()["allow"] == ["pypi.org"]
    sandbox.set_denied_hosts(["*.example"])
    sandbox.set_allowed_hosts([])
    policy = sandbox.get_network()
    assert (policy["mode"], policy["allow"], policy["deny"]) == ("list", [], ["*.example"])
    with pytest.raises(ValidationFailedError, match="instance"):
        sandbox.configure(instance="huge")
    for wrong in ({"name": "x"}, {"name": "x", "path": "/x", "readonly": True}):
        with pytest.raises(ValidationFailedError, match="read_only"):
            make(box_id, volumes=[wrong])
    mistyped: list[dict[str, Any]] = [
        {"volumes": ["x"]}, {"secrets": "x"}, {"command": "sleep 600"}, {"limits": {"memroy": 1}}, {"imgae": "x"},
    ]
    for options in mistyped:
        with pytest.raises(TypeError):
            make(box_id, **options)


def test_an_object_outlives_event_loops(box_id: str) -> None:
    """As in a program with several asyncio.run()."""
    sandbox = AsyncSandbox(box_id)
    for number in range(3):
        assert asyncio.run(sandbox.exec(f"echo {number}")).stdout == f"{number}\n"
    asyncio.run(sandbox.aclose())
    with pytest.raises(RuntimeError, match="closed"):
        asyncio.run(sandbox.exec("true"))
