"""One Atoll for all test files of a worker of tests/run that only need boxes.

A file takes the shared daemon unless it says OWN_DAEMON = "why": because it kills or configures the daemon, or counts something of the whole
daemon. tests/run sets ATOLL_SHARED to a directory of the worker; without it (one file, or pytest by hand) every file has a daemon
of its own. A worker runs one file at a time, so a file has the daemon to itself while it runs. At its end all boxes, volumes, tokens, secrets
and backups of the file are deleted; if that fails, the file fails, and the next one gets a new daemon. Images are the machine's: a file that
makes some in a shared daemon deletes them itself.

As a program (shared.py DIRECTORY KIND RUNNER): starts the daemon, writes DIRECTORY/KIND.json, and closes the daemon on SIGTERM or when the
process RUNNER has ended. DIRECTORY/KIND.result then says what was left on the host; it is empty if all went well.
"""

import contextlib
import json
import os
import select
import signal
import subprocess
import sys
import time
import urllib.parse
from pathlib import Path

import atoll as lib

KINDS = {"plain": {"ATOLL_ZYGOTE": "off"}, "zygote": {}}
COLLECTIONS = {"volumes": "name", "tokens": "name", "secrets": "name", "backups": "id"}


# ---- the daemon's keeper

def _runner_or_signal(runner, signals):
    """Waits until the runner has ended or a signal has come."""
    with contextlib.suppress(ProcessLookupError):
        watched = os.pidfd_open(runner)
        select.select([watched, signals], [], [])


def _write(path, text):
    new = path.with_name(path.name + ".new")
    new.write_text(text, encoding="utf-8")
    new.rename(path)


def keep(directory, kind, runner):
    signals, wake = os.pipe2(os.O_NONBLOCK | os.O_CLOEXEC)
    signal.set_wakeup_fd(wake, warn_on_full_buffer=False)
    signal.signal(signal.SIGTERM, lambda *_: None)
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    os.environ.pop("PYTEST_CURRENT_TEST", None)  # of the file that asked first
    instance = lib.Instance(KINDS[kind])
    left = []
    try:
        instance.start()
        _write(directory / f"{kind}.json", json.dumps(instance.note()))
        _runner_or_signal(runner, signals)
    except AssertionError as e:
        left.append(str(e))
    left += instance.close()
    _write(directory / f"{kind}.result", "\n".join(left))


# ---- the files that use it

def directory():
    path = os.environ.get("ATOLL_SHARED")
    return Path(path) if path else None


def _keeper_alive(where, kind):
    try:
        return lib.alive(int((where / f"{kind}.pid").read_text(encoding="ascii")))
    except FileNotFoundError:
        return False


def _forget(where, kind):
    """Ends a daemon that is not as it should be. Its keeper reports what it leaves."""
    pid = int((where / f"{kind}.pid").read_text(encoding="ascii"))
    (where / f"{kind}.json").unlink(missing_ok=True)
    with contextlib.suppress(ProcessLookupError):
        os.kill(pid, signal.SIGTERM)
    lib.wait_for(lambda: not lib.alive(pid), "the keeper of a shared daemon ends", 2 * lib.DEADLINE)
    (where / f"{kind}.pid").unlink()
    (where / f"{kind}.result").unlink(missing_ok=True)


def _attach(where, kind):
    note = where / f"{kind}.json"
    if not _keeper_alive(where, kind):
        note.unlink(missing_ok=True)
        with open(where / f"{kind}.log", "ab") as log:
            keeper = subprocess.Popen(["/usr/bin/python3", __file__, where, kind, str(_runner())], stdin=subprocess.DEVNULL, stdout=log, stderr=log,
                                      start_new_session=True)
        (where / f"{kind}.pid").write_text(str(keeper.pid), encoding="ascii")
        lib.wait_for(lambda: note.exists() or keeper.poll() is not None, "a shared daemon starts", 2 * lib.DEADLINE)
        keeper.returncode = keeper.returncode or 0  # tests/run reaps it
        assert note.exists(), "no shared daemon:\n" + (where / f"{kind}.result").read_text(encoding="utf-8")
    return lib.Instance.attached(json.loads(note.read_text(encoding="utf-8")))


def _runner():
    return int(os.environ.get("ATOLL_RUNNER", os.getppid()))


def things(instance):
    """Everything that a file can leave in a daemon, as paths that can be deleted."""
    found = [lib.box_path(box) for box in instance.boxes()]
    for name, key in COLLECTIONS.items():
        reply = instance.request("GET", f"/v1/{name}")
        assert reply.status == 200, reply
        found += [f"/v1/{name}/" + urllib.parse.quote(str(thing[key]), safe="") for thing in reply.json()[name]]
    return found


def reset(instance, before):
    """Deletes what the file made."""
    end = time.monotonic() + lib.DEADLINE
    while left := [path for path in things(instance) if path not in before]:
        replies = [instance.request("DELETE", path) for path in left]
        assert time.monotonic() < end, f"cannot be deleted: {list(zip(left, replies))}"


@contextlib.contextmanager
def borrowed(kind):
    """The worker's daemon of this kind, for one file."""
    where = directory()
    instance = _attach(where, kind)
    try:
        before = things(instance)
        yield instance
        reset(instance, before)
    except BaseException:
        _forget(where, kind)
        raise


if __name__ == "__main__":
    keep(Path(sys.argv[1]), sys.argv[2], int(sys.argv[3]))
