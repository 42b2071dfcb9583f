"""The harness itself: a test that hangs fails and says where, the run goes on, and programs get default signals."""

import os
import signal
import subprocess
from pathlib import Path

LIB = Path(__file__).resolve().parents[1] / "lib"
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
