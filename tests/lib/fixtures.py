"""Fixtures of the Python suites: a real daemon, real boxes, and a check of their remains. Each suite's conftest.py
takes them all in."""

import itertools
import os

import atoll as lib
import boxapi
import pytest
import timelimit
from timelimit import (pytest_make_collect_report, pytest_runtest_call, pytest_runtest_setup, pytest_runtest_teardown,  # noqa: F401
                       pytest_unconfigure)

_numbers = itertools.count(1)


def pytest_configure(config):
    config.addinivalue_line("markers", "limit(seconds): a time limit of its own for each step of the test (tests/lib/timelimit.py)")
    timelimit.set_up_signals()


def what_is_missing():
    """Why there can be no daemon here, or None."""
    if os.geteuid() != 0:
        return "root is needed to make boxes"
    for program in ("atoll", "atolld", "atoll-warden", "atoll-agent"):
        if not os.access(lib.BIN / program, os.X_OK):
            return f"{lib.BIN / program} is not built"
    if not (lib.IMAGES / "default" / "rootfs").is_dir():
        return f"no default image in {lib.IMAGES}: run 'make image'"
    return None


def started(request):
    missing = what_is_missing()
    if missing:
        pytest.skip(missing)
    # Importing the modules of contexts costs seconds of CPU: do it only for tests of contexts.
    zygote = hasattr(request.module, "ZYGOTE") or any("code_api" in item.fixturenames for item in request.session.items
                                                      if item.module is request.module)
    instance = lib.Instance({} if zygote else {"ATOLL_ZYGOTE": "off"})
    try:
        return instance.start()
    except BaseException:
        instance.close()
        raise


def finish(instance):
    log = instance.log()
    left = instance.close()
    assert not left, "left behind:\n" + "\n".join(left) + "\nlog:\n" + log


@pytest.fixture(scope="module")
def daemon(request):
    """One Atoll for all tests of a file. At the end nothing of it may be left on the host."""
    instance = started(request)
    yield instance
    finish(instance)


@pytest.fixture
def own_daemon(request):
    """An Atoll for one test that kills or stops it."""
    instance = started(request)
    yield instance
    finish(instance)


@pytest.fixture
def box(daemon):
    """An id of its own; whatever stands behind it is destroyed at the end."""
    name = f"t{next(_numbers)}"
    yield name
    daemon.destroy(name)


@pytest.fixture
def api(daemon, box):
    """The API of a box of its own."""
    return boxapi.Api(daemon, box)


@pytest.fixture
def own_box(own_daemon):
    del own_daemon  # which destroys all its boxes at its end
    return f"t{next(_numbers)}"


def pytest_terminal_summary(terminalreporter):
    """The line that tests/run adds up. An error in a fixture is a failure."""
    count = {k: len(v) for k, v in terminalreporter.stats.items()}
    passed, failed = count.get("passed", 0), count.get("failed", 0) + count.get("error", 0)
    terminalreporter.ensure_newline()
    terminalreporter.write_line(f"{passed} passed, {failed} failed, {count.get('skipped', 0)} skipped")
