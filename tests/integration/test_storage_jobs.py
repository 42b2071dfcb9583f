"""The storer's jobs: what lasts for long leaves places for what a client waits for."""

import contextlib
import os
import signal
import time
from pathlib import Path

import pytest
from atoll import box_path, wait_for
from test_backups import ask, run

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
