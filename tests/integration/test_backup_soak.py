"""Backups and restores while every program that takes part is killed with -9.

ATOLL_BACKUP_SOAK=210 makes it 35 rounds for each of six programs (the default is small)."""

import contextlib
import os
import random
import signal
import time
from concurrent.futures import ThreadPoolExecutor

import pytest
from atoll import box_path, seed, wait_for
from test_backups import ask, listed, nothing_left, pool, pool_names, processes, restore, run, tree  # noqa: F401
from test_restart import VICTIMS

ALONE = "a soak"
OWN_DAEMON = "it kills programs of the daemon"
POOL = "backups are made of snapshots"

ROUNDS = int(os.environ.get("ATOLL_BACKUP_SOAK", "6"))  # make soak: 210


def kill_one(daemon, name):
    for pid in processes(daemon, name):
        with contextlib.suppress(ProcessLookupError):
            os.kill(pid, signal.SIGKILL)


KILLS = {**VICTIMS, "uploader": lambda d: kill_one(d, "atoll-backup"), "receiver": lambda d: kill_one(d, "atoll-receive"),
         "storer": lambda d: kill_one(d, "atoll-storer")}


def quietly(daemon, *request):
    """The answer, or None when the daemon was killed under the request."""
    with contextlib.suppress(OSError, ValueError):
        return daemon.request(*request)
    return None


@pytest.mark.limit(7200)
@pytest.mark.parametrize("victim", sorted(KILLS))
def test_kills_soak_leave_whole_backups_and_no_half(daemon, box, victim):
    """Backups and restores while a program is killed at any moment: a box has its old or its restored files, what is listed
    is whole, and nothing else is left."""
    rng = random.Random(seed(sorted(KILLS).index(victim)))
    sums = {}  # backup → the tree that it holds
    # Files of the image would show its link counts, and another test may link to them.
    run(daemon, box, "mkdir /root/d; dd if=/dev/urandom of=/root/d/big bs=1M count=24 status=none")

    def under_fire(*request):
        """The kill is this thread's: what it starts again ends with it."""
        with ThreadPoolExecutor(1) as thread:
            answer = thread.submit(quietly, daemon, *request)
            time.sleep(rng.uniform(0, 0.5))  # no event: the kill comes at any moment
            KILLS[victim](daemon)
            daemon.await_warden()
            return answer.result()

    for turn in range(max(2, ROUNDS // len(KILLS))):
        run(daemon, box, f"echo {turn} > /root/d/turn; dd if=/dev/urandom of=/root/d/part bs=1M count=4 status=none")
        now = tree(daemon, box, "/root/d")
        r = under_fire("POST", box_path(box, "/backups"), {})
        if r and r.status == 201:
            sums[r.json()["id"]] = now
        for one in listed(daemon, box):  # one whose answer was lost
            wait_for(lambda one=one: ask(daemon, "GET", f"/v1/backups/{one['id']}")["state"] != "making", "it has ended")
            if ask(daemon, "GET", f"/v1/backups/{one['id']}")["state"] == "ready":
                sums.setdefault(one["id"], now)
        if not sums:
            continue
        which = rng.choice(sorted(sums))
        r = under_fire("POST", box_path(box, "/restore"), {"backup": which})
        then = tree(daemon, box, "/root/d")
        assert then == sums[which] or (then == now and not (r and r.status == 200)), which

    for one, then in sums.items():
        restore(daemon, box, {"id": one})
        assert tree(daemon, box, "/root/d") == then
    daemon.destroy(box)
    wait_for(lambda: pool_names(daemon, "snapshots") == [] and pool_names(daemon, "making") == [], "the pool holds no rest")
