"""The harness itself: a test that hangs fails and says where, the run goes on, and programs get default signals."""

import os
import signal
import subprocess
from pathlib import Path

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
        assert "test_harness.py::test_a_file_runs_alone" in r.stdout and r.stdout.count("\n== ") == 1, r.stdout + r.stderr
        assert {line.split("::")[0] for line in r.stdout.splitlines() if "::" in line} == {"tests/integration/test_harness.py"}
    for name in ("integratoin", "tests/integration/test_nothing.py", "tests/lib/atoll.py", "ls"):
        r = run_tests("unit", name)
        assert r.returncode == 2 and f'"{name}"' in r.stderr and not r.stdout, r
