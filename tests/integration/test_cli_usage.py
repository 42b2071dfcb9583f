"""The command line without a daemon: help, bad usage, errors that say what to do."""

import contextlib
import json
import os
import pty
import re
import subprocess
import tempfile
from pathlib import Path

import atoll as lib
import pytest

ATOLL = lib.BIN / "atoll"
VERBS = ["up", "doctor", "selftest", "exec", "run", "shell", "code", "ps", "logs", "kill", "sessions", "env", "ls", "cat", "write", "cp", "watch", "net",
         "git", "create", "list", "inspect", "stats", "rm", "completion", "version"]

pytestmark = pytest.mark.skipif(not os.access(ATOLL, os.X_OK), reason=f"{ATOLL} is not built")


def run(*args, **env):
    clean = {k: v for k, v in os.environ.items() if not k.startswith("ATOLL_")}
    return subprocess.run([ATOLL, *args], capture_output=True, text=True, env={**clean, **env}, timeout=lib.DEADLINE,
                          stdin=subprocess.DEVNULL, check=False)


def test_without_a_verb_it_lists_the_verbs_and_fails():
    r = run()
    assert r.returncode == 2 and r.stdout == ""
    for verb in VERBS:
        assert f"\n  {verb} " in r.stderr


@pytest.mark.parametrize("word", ["help", "--help", "-h"])
def test_help_lists_every_verb(word):
    r = run(word)
    assert r.returncode == 0 and r.stderr == ""
    for verb in VERBS:
        assert f"\n  {verb} " in r.stdout


@pytest.mark.parametrize("verb", VERBS)
def test_every_verb_has_help(verb):
    asked = [run("help", verb), run(verb, "--help"), run(verb, "-h")]
    assert all(r.returncode == 0 and r.stderr == "" for r in asked)
    assert asked[0].stdout == asked[1].stdout == asked[2].stdout
    assert asked[0].stdout.startswith(f"Usage: atoll {verb}") and "--json" in asked[0].stdout


@pytest.mark.parametrize("typed, meant", [("exce", "exec"), ("inspct", "inspect"), ("doctr", "doctor"), ("self", "selftest"),
                                          ("destroy", "rm"), ("delete", "rm"), ("ssh", "shell"), ("start", "wake")])
def test_a_misspelt_verb_is_corrected(typed, meant):
    r = run(typed)
    assert r.returncode == 2 and f"did you mean '{meant}'" in r.stderr


@pytest.mark.parametrize("args", [("quux",), ("nope",), ("help", "nope")])
def test_a_strange_verb_is_not_guessed(args):
    r = run(*args)
    assert r.returncode == 2 and "did you mean" not in r.stderr and "help" in r.stderr


@pytest.mark.parametrize("args, code, text", [
    (["exec"], 125, "which box"),
    (["exec", ""], 125, "which box"),
    (["exec", "a"], 125, "which command"),
    (["exec", "a", "--"], 125, "which command"),
    (["ls", "a:/x"], 2, "'a:/x' is no box; write 'a /x'"),
    (["cat", "a:/x"], 2, "'a:/x' is no box; write 'a /x'"),
    (["exec", "a", "--tmeout", "3", "--", "x"], 125, "did you mean '--timeout'"),
    (["exec", "a", "--timeout", "soon", "--", "x"], 125, "cannot be 'soon'"),
    (["exec", "a", "--timeout"], 125, "needs a value"),
    (["exec", "a", "--env", "1A=b", "--", "x"], 125, "not NAME=VALUE"),
    (["exec", "a", "--env", "A", "--", "x"], 125, "not NAME=VALUE"),
    (["exec", "a", "--env", "=b", "--", "x"], 125, "not NAME=VALUE"),
    (["exec", "-x", "a", "--", "x"], 125, "unknown option '-x'"),
    (["run", "--keep=yes", "--", "x"], 125, "takes no value"),
    (["run", "--memory", "12q", "--", "x"], 125, "cannot be '12q'"),
    (["run", "--memory", "", "--", "x"], 125, "cannot be ''"),
    (["run", "--memory", "-5m", "--", "x"], 125, "cannot be '-5m'"),
    (["run", "--memory", "99999999999999999999g", "--", "x"], 125, "cannot be"),
    (["run", "--cpus", "1.2345", "--", "x"], 125, "cannot be"),
    (["run", "--pids", "1.5", "--", "x"], 125, "cannot be"),
    (["run", "--pids", "0", "--", "x"], 125, "cannot be '0'"),
    (["create", "a", "--memory", "0"], 2, "cannot be '0'"),
    (["create", "a", "--cpus", "0.0"], 2, "cannot be '0.0'"),
    (["create"], 2, "which name"),
    (["create", "a", "b"], 2, "one box at a time"),
    (["rm"], 2, "which box"),
    (["rm", "--all", "a"], 2, "not both"),
    (["list", "a"], 2, "too many"),
    (["list", "-x"], 2, "unknown option '-x'"),
    (["exec", "a", "-t"], 125, "-t needs a value"),
    (["exec", "a", "-tsoon", "--", "x"], 125, "cannot be 'soon'"),
    (["exec", "a", "--name", "n", "--", "x"], 125, "only with --detach"),
    (["shell"], 125, "which box"),
    (["shell", "a", "b"], 125, "'b' is one word too many"),
    (["shell", "a", "--session", ""], 125, "needs a name"),
    (["ps"], 2, "which box"),
    (["ps", "a", "b"], 2, "too many"),
    (["logs", "a"], 2, "which process"),
    (["kill", "a"], 2, "which process"),
    (["kill", "a", "p", "--all"], 2, "not both"),
    (["kill", "a", "p", "-s", "SIGWHAT"], 2, "not a signal"),
    (["kill", "a", "--all", "-s", "9"], 2, "name the processes"),
    (["sessions", "a", "destroy"], 2, "write list, create or rm"),
    (["sessions", "a", "rm"], 2, "which session"),
    (["sessions", "a", "create", "s", "t"], 2, "too many"),
    (["env", "a", "put"], 2, "write list, set or unset"),
    (["env", "a", "set"], 2, "set which"),
    (["env", "a", "set", "1=2"], 2, "not NAME=VALUE"),
    (["env", "a", "unset", "A=1"], 2, "not the name"),
    (["ls", "a", ""], 2, "path is empty"),
    (["ls", "-lz", "a"], 2, "unknown option '-lz'"),
    (["cat", "a"], 2, "which file"),
    (["write", "a"], 2, "which file"),
    (["watch", "a", "--include", "x", "--exclude", "y"], 2, "not both"),
    (["git", "a", "pull"], 2, "only 'clone'"),
    (["git", "a", "clone"], 2, "clone which"),
    (["git", "a", "clone", "u", "--depth", "x"], 2, "cannot be 'x'"),
    (["stats", ""], 2, "is empty"),
    (["stats", "--every", "0"], 2, "--every must be"),
    (["up", "now"], 2, "too many"),
])
def test_bad_usage_is_refused_with_a_reason(args, code, text):
    r = run(*args)
    assert r.returncode == code and r.stdout == ""
    assert text in r.stderr and "Usage: atoll" in r.stderr
    as_json = run(args[0], "--json", *args[1:])
    error = json.loads(as_json.stderr)
    assert as_json.returncode == code and text in error["message"] and error["code"] == "USAGE"


def test_an_argument_that_is_not_text_is_refused_rather_than_changed():
    r = subprocess.run([ATOLL, "exec", "a", "--", "echo", b"\xff"], capture_output=True, check=False)
    assert r.returncode == 125 and b"UTF-8" in r.stderr


def test_no_daemon_says_how_to_start_one():
    with tempfile.TemporaryDirectory() as d:
        r = run("list", ATOLL_RUN=d)
        assert r.returncode == 1 and f"no daemon at unix:{d}/atoll.sock" in r.stderr and "up'" in r.stderr
        r = run("exec", "a", "--", "true", ATOLL_RUN=d)
        assert r.returncode == 125 and "no daemon at" in r.stderr
        r = run("run", "--", "true", ATOLL_RUN=d)
        assert r.returncode == 125 and "no daemon at" in r.stderr
        r = run("list", "--json", ATOLL_URL="http://127.0.0.1:1")
        assert r.returncode == 1 and "no daemon at 127.0.0.1:1" in json.loads(r.stderr)["message"]


@pytest.mark.parametrize("url", ["ftp://x", "127.0.0.1:8700", "http://", "http://a:1/path", "https://", "https://a:0", "https://[::1", "https://:1"])
def test_a_url_that_cannot_be_used_is_named(url):
    r = run("list", ATOLL_URL=url)
    assert r.returncode == 1 and f"ATOLL_URL '{url}'" in r.stderr and "http://host:port" in r.stderr


def test_version():
    r = run("version")
    assert r.returncode == 0 and r.stdout.startswith("atoll ")
    assert json.loads(run("version", "--json").stdout)["version"] == r.stdout.split()[1] == run("--version").stdout.split()[1]


def test_doctor_works_without_a_daemon():
    with tempfile.TemporaryDirectory() as d:
        r = run("doctor", "--json", ATOLL_RUN=d)
        report = json.loads(r.stdout)
        states = {c["name"]: c["state"] for c in report["checks"]}
        assert states["daemon"] == "note"
        assert {"user namespaces", "seccomp", "landlock", "cgroups", "inotify", "image"} <= set(states)
        assert r.returncode == (0 if report["ready"] else 1)
        assert report["ready"] == ("missing" not in states.values())
        plain = run("doctor", ATOLL_RUN=d)
        assert plain.returncode == r.returncode and "\033" not in plain.stdout
        for name in states:
            assert f" {name} " in plain.stdout


def limits_of(report):
    return next(c for c in json.loads(report.stdout)["checks"] if c["name"] == "process limits")


def connections_that_fit(files):
    """src/proto/gate.h: 256 files are not for connections, each of which takes six."""
    return max(64, min(32768, (files - 256) // 6))


@pytest.mark.parametrize("files", [300, 1024, 5000])
def test_doctor_says_how_many_connections_of_boxes_fit(files):
    with tempfile.TemporaryDirectory() as d:
        r = subprocess.run(["prlimit", f"--nofile={files}", ATOLL, "doctor", "--json"], capture_output=True, check=False,
                           env={**os.environ, "ATOLL_RUN": d})
    row, fit = limits_of(r), connections_that_fit(files)
    assert f" {files} open files per process: {fit} connections of boxes fit at once" in row["detail"], row
    assert row["state"] == "note" and "LimitNOFILE=" in row["advice"]


def test_doctor_asks_the_gate_that_runs(daemon):
    """Not its own limit, which a shell has: the service's."""
    text = (daemon.run / "up.lock").read_text().split()
    limits = Path(f"/proc/{text[text.index('gate') + 1]}/limits").read_text()
    files = int(re.search(r"Max open files +\d+ +(\d+)", limits)[1])
    r = subprocess.run(["prlimit", "--nofile=2000", ATOLL, "doctor", "--json"], capture_output=True, check=False,
                       env={**os.environ, "ATOLL_RUN": str(daemon.run)})
    fit = connections_that_fit(files)
    assert f" {files} open files for the gate that runs: {fit} connections of boxes fit at once" in limits_of(r)["detail"]
    assert f"connections_max={fit}" in daemon.log_path.read_text()


def test_doctor_misses_an_image_and_says_what_to_do():
    with tempfile.TemporaryDirectory() as d:
        r = run("doctor", "--json", ATOLL_RUN=d, ATOLL_IMAGES=d)
        image = next(c for c in json.loads(r.stdout)["checks"] if c["name"] == "image")
        assert r.returncode == 1 and image["state"] == "missing" and "make image" in image["advice"]


def test_doctor_misses_a_daemon_that_was_named():
    r = run("doctor", "--json", ATOLL_URL="http://127.0.0.1:1")
    daemon = next(c for c in json.loads(r.stdout)["checks"] if c["name"] == "daemon")
    assert r.returncode == 1 and daemon["state"] == "missing" and "Check ATOLL_URL" in daemon["advice"]


def test_doctor_runs_as_an_ordinary_user():
    if os.geteuid() != 0:
        pytest.skip("root is needed to become another user")
    r = lib.run_as_stranger(ATOLL, "doctor", "--json")
    states = {c["name"]: c["state"] for c in json.loads(r.stdout)["checks"]}
    assert states["seccomp"] == "ok" and r.stderr == ""


def at_a_terminal(*args, **env):
    """What it writes to a terminal."""
    ours, theirs = pty.openpty()
    clean = {k: v for k, v in os.environ.items() if not k.startswith("ATOLL_") and k != "NO_COLOR"}
    with subprocess.Popen([ATOLL, *args], env={**clean, "TERM": "xterm", **env}, stdout=theirs, stderr=theirs):
        os.close(theirs)
        out = b""
        with contextlib.suppress(OSError):
            while chunk := os.read(ours, 65536):
                out += chunk
        os.close(ours)
    return out


def test_colours_only_where_they_are_wanted():
    assert b"\033[" in at_a_terminal("doctor")
    assert b"\033[" not in at_a_terminal("doctor", NO_COLOR="1")
    assert b"\033[" not in at_a_terminal("doctor", TERM="dumb")
    assert b"\033[" not in at_a_terminal("doctor", "--json")
    assert "\033[" not in run("doctor", TERM="xterm").stdout
