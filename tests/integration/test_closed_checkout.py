"""Programs in a directory that root alone can enter, with a blank in its path: a clone in root's home."""

import json
import os
import re
import shutil
import signal
import subprocess
import tempfile
from pathlib import Path

import atoll as lib
import fixtures
import imagelib
import pytest
from atoll import box_path
from codeapi import Run

OWN_DAEMON = "the daemon's programs are in another directory"
TAG = f"closed-{os.getpid()}"


@pytest.fixture(scope="module")
def closed():
    missing = fixtures.what_is_missing()
    if missing:
        pytest.skip(missing)
    above = Path(tempfile.mkdtemp(prefix="at-", dir="/tmp"))  # mode 0700
    programs = above / "root's home" / "a checkout"
    programs.mkdir(parents=True, mode=0o700)
    for program in lib.BIN.glob("atoll*"):
        if program.is_file() and os.access(program, os.X_OK):
            shutil.copy(program, programs)
    instance = lib.Instance(programs=programs)
    try:
        yield instance.start()
        instance.request("DELETE", f"/v1/images/{TAG}")
    finally:
        try:
            fixtures.finish(instance)
        finally:
            shutil.rmtree(above)


def names_of(daemon):
    """Each program of `atoll up`: what ps shows, its first argument, the file that it runs."""
    children = Path(f"/proc/{daemon.up.pid}/task/{daemon.up.pid}/children").read_text().split()
    about = [Path(f"/proc/{pid}") for pid in children]
    return {(p / "comm").read_text().strip(): ((p / "cmdline").read_bytes().split(b"\0")[0].decode(), os.readlink(p / "exe")) for p in about}


def test_programs_keep_their_names(closed):
    names = ("atolld", "atoll-gate", "atoll-warden")
    assert names_of(closed) == {name: (name, f"{closed.bin}/{name}") for name in names}


def test_a_killed_program_starts_again(closed):
    closed.kill_daemon()
    closed.kill_gate()
    closed.await_warden()
    assert set(names_of(closed)) >= {"atolld", "atoll-warden"}


def test_boxes_run_commands_and_code(closed):
    assert closed.cli("exec", "c", "--", "echo", "hi").stdout == b"hi\n"
    for language, code in (("python", "6 * 7"), ("javascript", "6 * 7")):
        r = closed.request("POST", box_path("c", "/api/execute/code"), {"code": code, "language": language})
        events = [json.loads(line[6:]) for line in r.text.splitlines() if line.startswith("data: ")]
        assert "42" in str(Run(events).results), events


def test_images_are_built(closed):
    """The daemon has given up root, executes atoll-images and hands it atoll-mover."""
    imagelib.built(closed, "FROM default\nCOPY f /f\nRUN cat /f >/g\n", [("f", b"copied\n", {})], query=f"tag={TAG}")
    assert imagelib.run(closed, "i", TAG, "cat /g") == "copied\n"


def test_backups_are_made_and_restored(closed):
    """The daemon has given up root and executes atoll-backup."""
    assert closed.execute("b", "echo kept >/root/f")["exitCode"] == 0
    made = closed.request("POST", box_path("b", "/backups"), {})
    assert made.status == 201, made
    assert closed.execute("b", "rm /root/f")["exitCode"] == 0
    assert closed.request("POST", box_path("b", "/restore"), {"backup": made.json()["id"]}).status == 200
    assert closed.execute("b", "cat /root/f")["stdout"] == "kept\n"
    assert closed.request("DELETE", f"/v1/backups/{made.json()['id']}").status == 204


def test_the_console_runs_its_self_test(closed):
    """The daemon's user executes `atoll`."""
    text = closed.request("POST", "/v1/selftest", timeout=240).text
    said = [json.loads(line[6:]) for line in text.splitlines() if line.startswith("data: ")]
    assert len(said) > 10 and " 0 failed" in said[-1]["summary"], said


def test_the_daemon_runs_the_doctor(closed):
    """It is `atoll`, executed by the daemon's user."""
    report = closed.request("GET", "/v1/doctor").json()
    assert {c["name"]: c["state"] for c in report["checks"]}["programs"] == "ok", report


def test_a_shell_takes_the_lines_to_try(closed):
    """The path has a quote and a blank."""
    assert closed.interrupt() == 0
    with open(closed.log_path, "ab") as log, \
            subprocess.Popen([closed.bin / "atoll", "up"], env=closed.env, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=log, text=True) as up:
        try:
            lines = dict(re.findall(r"^  (\w+) +(.+)$", "".join(iter(up.stdout.readline, "  stop     Ctrl-C; boxes stay alive\n")), re.M))
            for line, told in ((lines["try"], "hi\n"), (f"{lines['wrangler']} && echo $WRANGLER_DOCKER_BIN", f"{closed.bin}/atoll-docker\n")):
                r = subprocess.run(["bash", "-c", line], capture_output=True, text=True, timeout=lib.DEADLINE, check=False)
                assert (r.returncode, r.stdout, r.stderr) == (0, told, ""), line
        finally:
            up.send_signal(signal.SIGINT)
            assert up.wait(lib.DEADLINE) == 0
    closed.start()
