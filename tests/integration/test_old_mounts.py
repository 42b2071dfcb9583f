"""Hosts where the calls of mounts answer otherwise: `doctor` must notice one that forbids them, and boxes must start before Linux
6.13, which takes no descriptor of a layer. A seccomp filter gives the answers."""

import contextlib
import json
import os
import signal
import subprocess
from pathlib import Path

import atoll as lib
import fixtures
import leaks
import oldkernel
import pytest

FORBIDDEN = oldkernel.without("fsopen", "EPERM")
BY_PATH = oldkernel.without("fsconfig", "EBADF", 1, 5)  # FSCONFIG_SET_FD


def doctor(*prefix):
    env = {**os.environ, "ATOLL_IMAGES": str(lib.IMAGES)}
    r = subprocess.run([*prefix, lib.BIN / "atoll", "doctor", "--json"], env=env, capture_output=True, check=False, timeout=120)
    return r.returncode, {row["name"]: row for row in json.loads(r.stdout)["checks"]}


@pytest.mark.skipif(os.geteuid() != 0, reason="only root can try it")
def test_doctor_notices_that_boxes_cannot_be_made():
    code, rows = doctor(*FORBIDDEN)
    assert code == 1 and rows["overlay, idmapped"]["state"] == "missing", rows
    assert "Operation not permitted" in rows["overlay, idmapped"]["detail"]
    assert doctor()[1]["overlay, idmapped"]["state"] == "ok"


@pytest.fixture(scope="module")
def old():
    missing = fixtures.what_is_missing()
    if missing:
        pytest.skip(missing)
    instance = lib.Instance({"ATOLL_ZYGOTE": "off"}, prefix=BY_PATH)
    instance.start()
    yield instance
    fixtures.finish(instance)


def test_doctor_finds_a_kernel_before_6_13_good_enough():
    rows = doctor(*BY_PATH)[1]
    assert {rows[name]["state"] for name in ("overlay, idmapped", "images with layers")} == {"ok"}, rows


def test_boxes_and_images_with_layers_start_before_6_13(old):
    assert old.execute("plain", "echo hi")["stdout"] == "hi\n"
    build = b"FROM default\nRUN echo one > /one\nRUN echo two > /two && rm /one\n"
    r = old.cli("build", "-t", "layers", "-", input=build, timeout=lib.DEADLINE)
    assert r.returncode == 0, r.stderr
    assert old.request("PUT", "/v1/sandboxes/layered", {"image": "layers"}).status == 201
    assert old.execute("layered", "cat /two; test ! -e /one && echo gone")["stdout"] == "two\ngone\n"


@pytest.mark.skipif(os.geteuid() != 0, reason="only root can try it")
def test_a_probe_that_hangs_leaves_nothing_when_the_doctor_ends_it(tmp_path):
    """It hangs because its output is full. The doctor's alarm goes to the process that made the trial directory."""
    ours, theirs = os.pipe()
    os.set_blocking(theirs, False)
    with contextlib.suppress(BlockingIOError):
        while True:
            os.write(theirs, bytes(4096))
    os.set_blocking(theirs, True)
    with subprocess.Popen([lib.BIN / "atoll-warden", "--probe"], env={"ATOLL_DATA": str(tmp_path)}, stdout=theirs) as probe:
        os.close(theirs)
        child = lib.wait_for(lambda: leaks.children(probe.pid), "the child that tries")[0]
        lib.wait_for(lambda: "pipe_write" in Path(f"/proc/{child}/stack").read_text(), "it waits for a reader")
        probe.send_signal(signal.SIGALRM)
        assert probe.wait(lib.DEADLINE) == 1
    os.close(ours)
    assert not lib.alive(child) and not list(tmp_path.iterdir())
