"""The harness itself: a test that hangs fails and says where, the run goes on, and programs get default signals."""

import base64
import hashlib
import http.server
import io
import json
import os
import re
import select
import shutil
import signal
import subprocess
import tarfile
import threading
from pathlib import Path

import atoll as lib
import npmdir
import pytest

TESTS_DIR = Path(__file__).resolve().parents[1]
LIB = TESTS_DIR / "lib"
CONFTEST = f"""
import sys
sys.path.insert(0, {str(LIB)!r})
from fixtures import *
"""
TESTS = """
import subprocess, threading, time
import pytest

def test_hangs():
    with subprocess.Popen(["sleep", "5"]) as p:
        p.wait()  # here

def test_hangs_in_a_thread():
    t = threading.Thread(target=lambda: time.sleep(5))
    t.start()
    t.join()

@pytest.fixture
def slow():
    yield
    time.sleep(5)

def test_hangs_at_its_end(slow):
    pass

@pytest.mark.limit(20)
def test_may_take_longer():
    time.sleep(1.5)

@pytest.mark.limit(60)
def test_ignored_signals():
    status = subprocess.run(["cat", "/proc/self/status"], capture_output=True, text=True, check=True).stdout
    assert int(status.split("SigIgn:")[1].split()[0], 16) & 7 == 0  # SIGHUP, SIGINT, SIGQUIT
"""


def ignore_signals():
    for signo in (signal.SIGHUP, signal.SIGINT, signal.SIGQUIT):
        signal.signal(signo, signal.SIG_IGN)


def test_a_test_that_hangs_says_where_and_the_run_goes_on(tmp_path):
    (tmp_path / "conftest.py").write_text(CONFTEST)
    (tmp_path / "test_it.py").write_text(TESTS)
    env = {**os.environ, "ATOLL_SANITIZED": "", "ATOLL_TEST_SECONDS": "1", "PYTHONDONTWRITEBYTECODE": "1"}
    r = subprocess.run(["/usr/bin/python3", "-m", "pytest", "-q", "-p", "no:cacheprovider", "--rootdir", tmp_path, tmp_path], cwd=tmp_path,
                       env=env, capture_output=True, text=True, check=False, timeout=120, preexec_fn=ignore_signals)
    assert r.returncode == 1, r.stdout + r.stderr
    for name, step in (("test_hangs", "the test"), ("test_hangs_in_a_thread", "the test"), ("test_hangs_at_its_end", "teardown")):
        assert f"test_it.py::{name}: {step} still runs after 1 s\n" in r.stdout, r.stdout
    assert "p.wait()  # here" in r.stdout
    assert "3 passed, 3 failed, 0 skipped" in r.stdout, r.stdout


def run_tests(*words):
    return subprocess.run([TESTS_DIR / "run", *words], capture_output=True, text=True, check=False, timeout=120)


def test_a_file_runs_alone_and_a_wrong_name_is_wrong_usage():
    for words in (["integration", "tests/integration/test_harness.py"], ["tests/integration/test_harness.py"]):
        r = run_tests(*words, "--collect-only")
        assert "test_harness.py::test_a_file_runs_alone" in r.stdout, r.stdout + r.stderr
        assert {line.split("::")[0] for line in r.stdout.splitlines() if "::" in line} == {"tests/integration/test_harness.py"}
    for name in ("integratoin", "tests/integration/test_nothing.py", "tests/lib/atoll.py", "ls", "/"):
        r = run_tests("unit", name)
        assert r.returncode == 2 and f'"{name}"' in r.stderr and not r.stdout, r
    for words in (["--workers", "0"], ["--workers"], ["unit", "--record"]):
        r = run_tests(*words)
        assert r.returncode == 2 and words[-1] in r.stderr and not r.stdout, r


def test_every_file_has_a_place_in_the_queue():
    """A file without one begins early, before longer ones. An estimate will do until the next `tests/run every --record`."""
    known = json.loads((TESTS_DIR / "durations.json").read_text())["seconds"]
    files = {str(path.relative_to(TESTS_DIR.parent)) for path in TESTS_DIR.glob("*/test_*.py")}
    assert not files - set(known), "give them seconds in tests/durations.json"


SIDE = """
import os, pathlib, time
HERE = pathlib.Path(__file__).parent

def test_meets_the_other_suite():
    HERE.joinpath("here").touch()
    while not HERE.parent.joinpath("{other}", "here").exists():
        time.sleep(0.01)
    HERE.joinpath("met").touch()
"""
LAST = """
import pathlib

ALONE = "it looks at what the others have done"

def test_comes_last():
    assert len(list(pathlib.Path(__file__).parents[1].glob("*/met"))) == 2
"""
SHARING = """
import pathlib
NOTES = pathlib.Path(__file__).parents[1] / "notes"
{marker}

def test_finds_nothing_and_leaves_a_box(daemon):
    assert daemon.boxes() == [] and not daemon.request("GET", "/v1/secrets").json()["secrets"]
    assert not any(v["name"] == "left" for v in daemon.request("GET", "/v1/volumes").json()["volumes"])
    daemon.execute("left", "echo here")
    assert daemon.request("POST", "/v1/volumes/left").status == 201
    with open(NOTES, "a") as notes:
        notes.write(daemon.address + chr(10))
"""
STUCK = """
import pathlib, time
import pytest
HERE = pathlib.Path(__file__).parent

@pytest.fixture
def thing():
    with open(HERE.parents[1] / "fifo", "w", buffering=1) as f:
        yield f
        f.write("cleaned\\n")

def test_waits(thing):
    thing.write("begun\\n")
    time.sleep(1000)
"""
LINT = """#!/bin/bash
awk '{ print "policy", $41 }' /proc/self/stat
echo '2 passed, 1 failed, 3 skipped'
exit 1
"""
LINT_STUCK = """#!/bin/bash
mktemp >/dev/null
exec 3>fifo
echo begun >&3
setsid sleep 1000 &
sleep 1000
"""


def own_tree(tmp_path, lint, files):
    """The runner in a tree of its own, with small suites: {file: text}. Returns its environment."""
    (tmp_path / "tools").mkdir()
    (tmp_path / "tools/lint").write_text(lint)
    (tmp_path / "tools/lint").chmod(0o755)
    for file, text in files.items():
        path = tmp_path / "tests" / file
        path.parent.mkdir(parents=True, exist_ok=True)
        (path.parent / "conftest.py").write_text(CONFTEST)
        path.write_text(text)
    shutil.copy(TESTS_DIR / "run", tmp_path / "tests/run")
    shutil.copytree(TESTS_DIR / "runner", tmp_path / "tests/runner", ignore=shutil.ignore_patterns("__pycache__"))
    (tmp_path / "t").mkdir()
    return {**{k: v for k, v in os.environ.items() if k not in ("ATOLL_SHARED", "ATOLL_RUNNER")}, "TMPDIR": str(tmp_path / "t")}


def own_run(tmp_path, env, *words):
    return subprocess.run([tmp_path / "tests/run", *words], env=env, capture_output=True, text=True, check=False, timeout=240)


def test_files_run_side_by_side_those_that_must_be_alone_last_and_are_all_counted(tmp_path):
    env = own_tree(tmp_path, LINT, {"integration/test_a.py": SIDE.format(other="security"), "security/test_b.py": SIDE.format(other="integration"),
                                    "integration/test_0.py": LAST})
    r = own_run(tmp_path, env, "integration", "security", "lint")
    assert r.returncode == 1, r.stdout + r.stderr
    jobs = [line.split()[-1] for line in r.stdout.splitlines() if line.startswith(("ok ", "FAIL "))]
    assert sorted(jobs) == ["lint", *(f"tests/{name}.py" for name in ("integration/test_0", "integration/test_a", "security/test_b"))], r.stdout
    assert f"policy {os.SCHED_IDLE}\n2 passed, 1 failed, 3 skipped\n" in r.stdout, r.stdout
    assert r.stdout.endswith("\n5 passed, 1 failed, 3 skipped\n"), r.stdout
    kept = json.loads((tmp_path / "build/durations.json").read_text())
    assert sorted(kept["seconds"]) == sorted(jobs) and not (tmp_path / "tests/durations.json").exists()


NOTED = """
import time, atoll
began = []

def test_waits_long():
    began.append(time.monotonic())
    atoll.wait_for(lambda: time.monotonic() > began[0] + 2.1, "the clock")
    with open({order!r}, "a") as order:
        order.write("{name} ")
"""
RATIOS = """
import json, os, sys
with open(sys.argv[1], "w") as ratios:
    json.dump({"quick": 1.0, "slow": 3.5, "new": 9.0}, ratios)
with open(os.environ["ATOLL_STARTS"], "a") as starts:
    starts.write("tests/a.py\\n" * 60 + "tests/b.py\\n" * 31)
print("3 passed, 0 failed")
"""


def test_the_end_of_a_run_names_what_grew(tmp_path):
    """One worker takes files in the order of their recorded times; a file that was never timed comes before those."""
    order = str(tmp_path / "order")
    files = {f"integration/test_{name}.py": NOTED.format(name=name, order=order) for name in ("long", "short", "unknown")}
    env = own_tree(tmp_path, LINT, {**files, "bench/ratios.py": RATIOS})
    seconds = {"tests/integration/test_short.py": 1, "tests/integration/test_long.py": 2}
    (tmp_path / "tests/durations.json").write_text(json.dumps({"seconds": seconds, "ratios": {"quick": 1.0, "slow": 1.1}}))
    report = tmp_path / "tests/runner/report.py"
    report.write_text(re.sub(r'"integration": \d+', '"integration": 1', report.read_text()))
    r = own_run(tmp_path, env, "integration", "ratios", "--workers", "1")
    assert r.returncode == 0 and r.stdout.endswith("\n6 passed, 0 failed, 0 skipped\n"), r.stdout + r.stderr
    assert Path(order).read_text() == "unknown long short "
    assert re.search(r"^over its budget: integration took \d+ s, 1 are meant", r.stdout, re.M), r.stdout
    assert "over its budget: ratios" not in r.stdout
    assert re.findall(r"^slower: .*", r.stdout, re.M) == ["slower: slow is 3.50 x, 1.10 x when tests/durations.json was recorded"]
    assert "\ntoo many daemons: 91 started, 90 are meant; the most by tests/a.py 60, tests/b.py 31\n" in r.stdout, r.stdout
    assert "\nwaits of 2 s and more: 3 (" in r.stdout, r.stdout
    kept = json.loads((tmp_path / "build/durations.json").read_text())
    assert kept["ratios"]["slow"] == 3.5 and len(kept["waits"]) == 3 and kept["waits"][0]["what"] == "the clock"


def test_files_share_a_daemon_which_is_empty_for_each(tmp_path):
    texts = {f"integration/test_{name}.py": SHARING.format(marker='OWN_DAEMON = POOL = "for comparison"' if name == "c" else "") for name in "abc"}
    env = own_tree(tmp_path, LINT, texts)
    r = own_run(tmp_path, {**env, "ATOLL_BIN": str(lib.BIN)}, "integration", "--workers", "1")
    assert r.returncode == 0 and r.stdout.endswith("\n3 passed, 0 failed, 0 skipped\n"), r.stdout + r.stderr
    assert ", 2 daemons started" in r.stdout
    assert len(set((tmp_path / "tests/notes").read_text().split())) == 2


MEETING = """
import os, pathlib, time
HERE = pathlib.Path(__file__).parents[1]

def test_meets_the_other_run(daemon):
    HERE.joinpath(f"here-{name}-{{os.getpid()}}").touch()
    while len(list(HERE.glob("here-*"))) < 4:
        time.sleep(0.01)
    assert daemon.execute("b", "echo $((6 * 7))")["stdout"] == "42\\n"
"""


def test_two_runs_in_one_checkout_at_once(tmp_path):
    files = [f"integration/test_{name}.py" for name in "ab"]
    env = own_tree(tmp_path, LINT, {file: MEETING.format(name=file[-4]) for file in files})
    command = [tmp_path / "tests/run", *(f"tests/{file}" for file in files)]
    runs = [subprocess.Popen(command, cwd=tmp_path, env={**env, "ATOLL_BIN": str(lib.BIN)}, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True)
            for _ in range(2)]
    for run in runs:
        with run:
            out = run.stdout.read()
            assert run.wait() == 0 and out.endswith("\n2 passed, 0 failed, 0 skipped\n"), out
    assert sorted(json.loads((tmp_path / "build/durations.json").read_text())["seconds"]) == command[1:]


@pytest.mark.parametrize("signo", [signal.SIGTERM, signal.SIGKILL, "ctrl-c"])
def test_a_run_that_is_ended_leaves_nothing(tmp_path, signo):
    """Also nothing that left its session. The fifo is at its end when nobody has it open any more."""
    env = own_tree(tmp_path, LINT_STUCK, {"integration/test_it.py": STUCK, "security/test_it.py": STUCK})
    os.mkfifo(tmp_path / "fifo")
    fifo = os.open(tmp_path / "fifo", os.O_RDONLY | os.O_NONBLOCK)
    command = [tmp_path / "tests/run", "integration", "security", "lint"]
    with subprocess.Popen(command, env=env, stdout=subprocess.PIPE, start_new_session=True) as run, open(fifo, "rb") as said:
        poll = select.poll()
        poll.register(fifo, select.POLLIN)
        begun = b""
        while begun.count(b"\n") < 3:
            assert poll.poll(60_000)
            begun += os.read(fifo, 100)
        if signo == "ctrl-c":
            os.killpg(run.pid, signal.SIGINT)
        else:
            run.send_signal(signo)
        os.set_blocking(fifo, True)
        assert begun + said.read() == b"begun\n" * 3 + b"cleaned\n" * 2
        run.stdout.read()
        assert run.wait(60) == {signal.SIGTERM: 143, signal.SIGKILL: -9, "ctrl-c": 130}[signo]
    if signo != signal.SIGKILL:
        assert not list((tmp_path / "t").iterdir())


NOTING = """#!/bin/bash
echo "$(basename "$0") ${*: -1}" >>"$STEPS"
[[ " $FAILING " != *" ${*: -1} "* ]]
"""


@pytest.mark.parametrize("failing, end", [("ratios asan", "make nightly failed: ratios, asan"), ("", "make nightly passed: write ")])
def test_nightly_runs_every_step(tmp_path, failing, end):
    """Also after one that failed. The steps themselves only note that they ran."""
    for name in ("tools/deps", "tests/run", "make"):
        path = tmp_path / name
        path.parent.mkdir(exist_ok=True)
        path.write_text(NOTING)
        path.chmod(0o755)
    shutil.copy(TESTS_DIR.parent / "Makefile", tmp_path)
    env = {**os.environ, "STEPS": str(tmp_path / "steps"), "FAILING": failing}
    for name in ("MAKEFLAGS", "MFLAGS", "MAKELEVEL"):
        env.pop(name, None)
    r = subprocess.run(["make", "nightly", f"MAKE={tmp_path}/make"], cwd=tmp_path, env=env, stdout=subprocess.PIPE, stderr=subprocess.STDOUT,
                       text=True, check=False, timeout=60)
    steps = (tmp_path / "steps").read_text().splitlines()
    assert steps[-6:] == ["make image", "run ratios", "make fuzz", "make asan", "make soak", "make bench"], r.stdout
    assert (r.returncode != 0) == bool(failing) and f"\n{end}" in r.stdout, r.stdout


SUITE = """#!/bin/bash
[ "$1" != unit ] || { echo '3 passed, 1 failed, 1 skipped'; exit 1; }
[ -z "$REPORT" ] || echo "$REPORT" >"${ASAN_OPTIONS#log_path=}.1"
echo '5 passed, 0 failed, 0 skipped'
"""


def test_asan_ends_in_a_line_of_counts(tmp_path):
    """A report of a sanitizer is a failure of its own."""
    for name, text in (("tests/run", SUITE), ("tools/asan", (TESTS_DIR.parent / "tools/asan").read_text())):
        (tmp_path / name).parent.mkdir()
        (tmp_path / name).write_text(text)
        (tmp_path / name).chmod(0o755)
    for report, last in (("", "8 passed, 1 failed, 1 skipped"), ("x.c:1: runtime error: shift", "8 passed, 2 failed, 1 skipped")):
        r = subprocess.run(["tools/asan"], cwd=tmp_path, env={**os.environ, "REPORT": report}, capture_output=True, text=True, check=False, timeout=60)
        assert r.returncode == 1 and r.stdout.splitlines()[-1] == last and report in r.stdout, r.stdout + r.stderr


class Breaking(http.server.BaseHTTPRequestHandler):
    """A registry whose first download breaks off in the middle."""

    def do_GET(self):  # pylint: disable=invalid-name
        self.server.asked += 1
        self.send_response(200)
        self.send_header("Content-Length", str(len(self.server.tarball)))
        self.end_headers()
        self.wfile.write(self.server.tarball[:None if self.server.asked > 1 else 50])

    def log_message(self, *_):  # pylint: disable=arguments-differ
        pass


@pytest.mark.skipif(not shutil.which("npm"), reason="npm is missing")
def test_a_download_of_npm_that_breaks_off_is_tried_again(tmp_path, monkeypatch):
    monkeypatch.setattr(npmdir, "CACHE", tmp_path / "modules")
    monkeypatch.setenv("npm_config_cache", str(tmp_path / "cache"))
    monkeypatch.setenv("npm_config_fetch_retries", "0")
    data = io.BytesIO()
    with tarfile.open(fileobj=data, mode="w:gz") as tar:
        text = b'{"name": "reef", "version": "1.0.0"}'
        member = tarfile.TarInfo("package/package.json")
        member.size = len(text)
        tar.addfile(member, io.BytesIO(text))
    with http.server.ThreadingHTTPServer(("127.0.0.1", 0), Breaking) as server:
        server.tarball, server.asked = data.getvalue(), 0
        threading.Thread(target=server.serve_forever, daemon=True).start()
        integrity = "sha512-" + base64.b64encode(hashlib.sha512(server.tarball).digest()).decode()
        reef = {"version": "1.0.0", "resolved": f"http://127.0.0.1:{server.server_port}/reef.tgz", "integrity": integrity}
        root = {"name": "app", "version": "1.0.0", "dependencies": {"reef": "1.0.0"}}
        lock = {"name": "app", "version": "1.0.0", "lockfileVersion": 3, "requires": True, "packages": {"": root, "node_modules/reef": reef}}
        for checkout in (tmp_path / "one", tmp_path / "two"):
            checkout.mkdir()
            (checkout / "package.json").write_text(json.dumps(root))
            (checkout / "package-lock.json").write_text(json.dumps(lock))
            assert npmdir.installed(checkout) and (checkout / "node_modules/reef/package.json").exists()
            assert npmdir.installed(checkout) and server.asked == 2  # once for each lock file, and not for each checkout
            shutil.rmtree(tmp_path / "cache")
            (tmp_path / "cache").mkdir()
        server.shutdown()


APT_GET = """#!/bin/bash
echo "${@: -1}" >>"$ASKED"
[[ " $* " != *" install "* ]] || (($(grep -c shellcheck "$ASKED") > FAILURES)) || { echo 'E: Failed to fetch it'; exit 100; }
"""


@pytest.mark.skipif(os.geteuid() != 0, reason="root is needed to install packages")
def test_packages_that_cannot_be_fetched_are_tried_again(tmp_path):
    """Nothing is installed: apt-get and dpkg-query are those of the test, which know no package."""
    for name, text in (("apt-get", APT_GET), ("dpkg-query", "#!/bin/sh\n")):
        (tmp_path / name).write_text(text)
        (tmp_path / name).chmod(0o755)
    for failures, code in (("2", 0), ("3", 1)):
        asked = tmp_path / f"asked-{failures}"
        env = {**os.environ, "PATH": f"{tmp_path}:{os.environ['PATH']}", "ASKED": str(asked), "FAILURES": failures, "TMPDIR": str(tmp_path)}
        r = subprocess.run([TESTS_DIR.parent / "tools/deps", "lint"], env=env, capture_output=True, text=True, check=False, timeout=60)
        assert r.returncode == code, r.stderr
        assert asked.read_text().split().count("update") == 3
        assert ("could not install the packages: E: Failed to fetch it (log: " in r.stderr) == (code != 0), r.stderr
        for log in re.findall(r"log: (/tmp/atoll-deps\.\w+)", r.stderr):
            os.unlink(log)
