"""Fixtures of the Python suites: a real daemon, real boxes, and a check of their remains. Each suite's conftest.py
takes them all in."""

import itertools
import os

import atoll as lib
import boxapi
import pytest
import shared
import timelimit
from timelimit import (pytest_make_collect_report, pytest_runtest_call, pytest_runtest_setup, pytest_runtest_teardown,  # noqa: F401
                       pytest_unconfigure)

_numbers = itertools.count(os.getpid() % 10_000 * 1000)  # files that share a daemon do not meet in their names


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


def need_room(gib, directory):
    """For tests that write gigabytes, and delete them at their end."""
    free = lib.room(directory)
    if free < gib:
        pytest.skip(f"{gib} GiB are needed in {directory} for a moment, {free:.1f} are free")


def kind_of(request):
    """Importing the modules of contexts costs seconds of CPU: only tests of contexts get them."""
    missing = what_is_missing()
    if missing:
        pytest.skip(missing)
    zygote = hasattr(request.module, "ZYGOTE") or any("code_api" in item.fixturenames for item in request.session.items
                                                      if item.module is request.module)
    return "zygote" if zygote else "plain"


def has_own(request):
    return hasattr(request.module, "OWN_DAEMON")


def started(request, plain):
    """An Atoll for this file."""
    instance = lib.Instance({**shared.KINDS[kind_of(request)], **({"ATOLL_POOL": "plain"} if plain else {})})
    try:
        return instance.start()
    except BaseException:
        instance.close()
        raise


def finish(instance):
    log = instance.log()
    left = instance.close()
    assert not left, "left behind:\n" + "\n".join(left) + "\nlog:\n" + log


def is_plain(request):
    """An own daemon has plain directories unless the file says POOL = "why": a pool takes gigabytes of disk, and time to make."""
    return not hasattr(request.module, "POOL")


@pytest.fixture(scope="module")
def daemon(request):
    """One Atoll for all tests of a file, or of all files of a worker (shared.py). At the end nothing of it may be left on the host."""
    if shared.directory() and not has_own(request):
        with shared.borrowed(kind_of(request)) as instance:
            yield instance
        return
    instance = started(request, has_own(request) and is_plain(request))
    yield instance
    finish(instance)


@pytest.fixture(scope="module")
def kept_daemons():
    """Daemons of tests of this file that the next test can take."""
    kept = []
    yield kept
    for instance in kept:
        finish(instance)


@pytest.fixture
def own_daemon(request, kept_daemons):
    """An Atoll for one test that kills or stops it. The next test of the file takes it too if it serves as before."""
    def settings():
        return {name: value for name, value in instance.env.items() if name != "ATOLL_LISTEN"}  # which a restart sets

    instance = kept_daemons.pop() if kept_daemons else started(request, is_plain(request))
    env, before = settings(), shared.things(instance)
    instance.log_from = instance.log_path.stat().st_size
    yield instance
    try:
        if instance.up.poll() is None and settings() == env:
            instance.await_warden()
            shared.reset(instance, before)
            kept_daemons.append(instance)
    finally:
        if instance not in kept_daemons:
            finish(instance)


@pytest.fixture
def new_daemon(request):
    """An Atoll for one test, which nothing has used before."""
    instance = started(request, is_plain(request))
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
