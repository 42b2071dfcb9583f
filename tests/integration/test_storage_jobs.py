"""The storer's jobs: what lasts for long leaves places for what a client waits for."""

import contextlib
import os
import signal
import re
import threading
import time
from pathlib import Path

import pytest
from atoll import ROOT, box_path, wait_for
from test_backups import ask, run

LONG_JOBS = int(re.search(r"STORER_LONG_JOBS\s+(\d+)", (ROOT / "src/warden/limits.h").read_text())[1])
DEBT_LOOK = 5  # seconds between two counts


@pytest.fixture(scope="module", autouse=True)
def pool(daemon):
    """Debts need a pool with simple quotas."""
    health = daemon.request("GET", "/v1/health").json()["host"]["pool"]
    if health["kind"] == "plain" or health.get("quota") == "full":
        pytest.skip(f"no simple quotas on this host: {health}")


def children(pid):
    with contextlib.suppress(OSError):
        return [int(p) for p in Path(f"/proc/{pid}/task/{pid}/children").read_text().split()]
    return []


def storer(daemon):
    return next(p for p in children(daemon.warden_pid) if Path(f"/proc/{p}/comm").read_text() == "atoll-storer\n")


def catch(pid):
    """Stops the next process that this one starts."""
    end = time.monotonic() + 60
    while time.monotonic() < end:
        for child in children(pid):
            with contextlib.suppress(OSError):
                os.kill(child, signal.SIGSTOP)
                return child
    raise AssertionError("no count has begun within 60 s")


def test_counts_of_forks_do_not_pile_up(daemon, box):
    fork = f"{box}-fork"
    run(daemon, box, "mkdir /root/d && cd /root/d && for i in $(seq 3000); do echo $i > $i; done")
    ask(daemon, "POST", box_path(box, "/fork"), {"ids": [fork]}, (200, 201))
    try:
        run(daemon, fork, "(while true; do date > /root/now; sleep 0.2; done) >/dev/null 2>&1 &")
        jobs = storer(daemon)
        wait_for(lambda: not children(jobs), "the fork has been counted")
        caught = catch(jobs)
        try:
            # Until another one would have been due twice: this one stays alone, and a snapshot does not wait for it.
            end, most = time.monotonic() + 2 * DEBT_LOOK + 2, 0
            while time.monotonic() < end:
                most = max(most, len(children(jobs)))
                time.sleep(0.1)
            assert caught in children(jobs) and most == 1
            ask(daemon, "POST", box_path(box, "/snapshots"), {}, (200, 201))
        finally:
            os.kill(caught, signal.SIGCONT)
        wait_for(lambda: caught not in children(jobs), "the count ends")
    finally:
        daemon.destroy(fork)


def stop_new(jobs, stopped):
    """Stops the storer's processes that are not stopped yet."""
    for child in children(jobs):
        if child not in stopped:
            with contextlib.suppress(OSError):
                os.kill(child, signal.SIGSTOP)
                stopped.append(child)


def test_comparisons_leave_places_for_snapshots_and_restores(daemon, box):
    """More comparisons than the storer has places, none of which gets on."""
    other = f"{box}-other"
    for one in (box, other):
        run(daemon, one, "echo kept > /root/f")
    kept = ask(daemon, "POST", box_path(other, "/snapshots"), {}, (200, 201))["id"]
    taken = ask(daemon, "POST", box_path(box, "/snapshots"), {}, (200, 201))["id"]
    run(daemon, box, "mkdir /root/d && cd /root/d && seq 20000 | xargs touch && sync")
    jobs, stopped = storer(daemon), []
    wait_for(lambda: not children(jobs), "the storer has nothing to do")
    clients = [threading.Thread(target=daemon.request, args=("GET", box_path(box, f"/diff?from={taken}"))) for _ in range(3 * LONG_JOBS)]
    try:
        for client in clients:
            client.start()
        end = time.monotonic() + 60
        while len(set(stopped) & set(children(jobs))) < LONG_JOBS:
            assert time.monotonic() < end, "too few comparisons were caught"
            stop_new(jobs, stopped)
        assert sum(client.is_alive() for client in clients) > 2 * LONG_JOBS - 2, "the others wait"
        snapshot = ask(daemon, "POST", box_path(other, "/snapshots"), {}, (200, 201))["id"]
        run(daemon, other, "echo changed > /root/f")
        for one in (kept, snapshot):
            ask(daemon, "POST", box_path(other, "/restore"), {"snapshot": one})
            assert run(daemon, other, "cat /root/f") == "kept\n"
        assert len(set(stopped) & set(children(jobs))) == LONG_JOBS
        wait_for(lambda: len(children(jobs)) == LONG_JOBS, "no comparison more has begun")
    finally:
        for child in stopped:
            with contextlib.suppress(OSError):
                os.kill(child, signal.SIGCONT)
        for client in clients:
            client.join()
        daemon.destroy(other)
