"""A time limit for each step of a test, and the signals that a test run and its programs have.

Every step of a test (set-up, call, teardown) has TIME_LIMIT seconds, collecting the tests of a file has COLLECTION. A step that takes longer fails, with the
stacks of all threads, and the run goes on with the next test. A test that needs longer says so: @pytest.mark.limit(900).
The alarm repeats: a `with` block that waits for a hung program on its way out is interrupted too.
"""

import contextlib
import faulthandler
import os
import signal
import sys
import threading

import atoll as lib
import pytest

TIME_LIMIT = int(os.environ.get("ATOLL_TEST_SECONDS", "300"))
COLLECTION = 900  # seconds; some suites install npm packages before they know which tests they have
AGAIN = 120  # seconds after the limit, for cleaning up
SLOWDOWN = 4 if lib.SANITIZED else 1

_exceeded = []


def set_up_signals():
    """Programs that tests start get the default actions, whatever this run was started with: a shell starts background jobs
    with SIGINT and SIGQUIT ignored, nohup ignores SIGHUP, and a program inherits that. Signals with a handler are back at
    their default after exec, so a handler that does nothing stands in for "ignored" in this process."""
    for signo in (signal.SIGINT, signal.SIGQUIT, signal.SIGHUP):
        if signal.getsignal(signo) == signal.SIG_IGN:
            signal.signal(signo, lambda *_: None)
    # A test run that is told to end still cleans up: as after Ctrl-C.
    signal.signal(signal.SIGTERM, signal.default_int_handler)


def say(config, text):
    """On the terminal, at once: a run that somebody kills while it hangs has then said where."""
    with config.pluginmanager.getplugin("capturemanager").global_and_fixture_disabled():
        config.get_terminal_writer().line("\n" + text)


@contextlib.contextmanager
def limited(node, step, seconds=TIME_LIMIT):
    marker = node.get_closest_marker("limit")
    seconds = (marker.args[0] if marker else seconds) * SLOWDOWN

    def on_alarm(*_):
        what = f"{node.nodeid}: {step} still runs after {seconds} s"
        if what not in _exceeded:
            _exceeded.append(what)
            say(node.config, what)
        faulthandler.dump_traceback(file=2)
        pytest.fail(what)

    signal.signal(signal.SIGALRM, on_alarm)
    signal.setitimer(signal.ITIMER_REAL, seconds, AGAIN)
    try:
        yield
    finally:
        signal.setitimer(signal.ITIMER_REAL, 0)


@pytest.hookimpl(hookwrapper=True)
def pytest_make_collect_report(collector):
    with limited(collector, "collection", COLLECTION):
        yield


@pytest.hookimpl(hookwrapper=True)
def pytest_runtest_setup(item):
    with limited(item, "set-up"):
        yield


@pytest.hookimpl(hookwrapper=True)
def pytest_runtest_call(item):
    with limited(item, "the test"):
        yield


@pytest.hookimpl(hookwrapper=True)
def pytest_runtest_teardown(item):
    with limited(item, "teardown"):
        yield


@pytest.hookimpl(trylast=True)
def pytest_unconfigure(config):
    """A thread that hangs would keep this process alive for ever: Python waits for threads before it ends."""
    del config
    if _exceeded and threading.active_count() > 1:
        lib.close_all()
        sys.stdout.flush()
        sys.stderr.flush()
        os._exit(1)
