"""Many snapshots, restores and forks while every program is killed with -9: each file is what it was, nothing is lost, nothing is left.

ATOLL_STORAGE_SOAK=1000 makes it a thousand snapshots (the default is small)."""

import contextlib
import hashlib
import os
import random
import signal
import threading
from pathlib import Path

import atoll as lib
import fixtures
import pytest
from atoll import box_path, seed, wait_for

ALONE = "a soak"

SNAPSHOTS = int(os.environ.get("ATOLL_STORAGE_SOAK", "40"))
BOXES = 4
KEPT = 5  # snapshots of a box at a time
KILL_EVERY = 0.4 if SNAPSHOTS < 500 else 1.0  # seconds
SIZE = 300_000
PATIENCE = 240  # seconds
pytestmark = pytest.mark.limit(7200)


def content(box, n):
    """The file of a round. A command that runs again, or late, writes the same."""
    line = f"{box} {n}\n".encode()
    return (line * (SIZE // len(line) + 1))[:SIZE]


class Keeper(threading.Thread):
    """A box of which snapshots are taken, restored and forked; `snaps` are those that must be there."""

    def __init__(self, daemon, name, rounds, first):
        super().__init__()
        self.daemon_, self.box, self.rounds, self.wrong, self.snaps = daemon, name, rounds, [], {}
        self.random, self.last = random.Random(first), None
        self.counts = {"snapshots": 0, "restores": 0, "forks": 0}

    def ask(self, method, box, rest="", body=None):
        """A request whose daemon or warden may be killed under it. None: nobody knows what became of it."""
        with contextlib.suppress(OSError, lib.http.client.HTTPException):
            return self.daemon_.request(method, box_path(box, rest), body)
        return None

    def until(self, what, method, box, rest="", body=None, right=(200, 201, 204)):
        return wait_for(lambda: (r := self.ask(method, box, rest, body)) and r.status in right and r, f"{what} of {box}", PATIENCE)

    def command(self, box, command):
        r = self.until(command, "POST", box, "/api/execute", {"command": command, "sessionId": "__DISABLE_SESSION__"})
        return r.json()["stdout"]

    def write(self, n):
        temp = f"/root/t-{n}-$$"
        make = f"yes '{self.box} {n}' | head -c {SIZE} > {temp} && mv {temp} /root/f-{n} && rm -f /root/f-{n - KEPT}"
        self.command(self.box, make)

    def verify(self, box, n):
        want = hashlib.md5(content(self.box, n)).hexdigest()
        said = self.command(box, f"md5sum /root/f-{n}").split()
        if said[:1] != [want]:
            self.wrong.append(f"{box}: f-{n} is {said}, expected {want}")

    def take(self, n):
        """A snapshot under a name of its own. One whose answer was lost may be there all the same."""
        def taken():
            r = self.ask("POST", self.box, "/snapshots", {"name": f"s{n}"})
            if r and r.status == 201:
                return r.json()["id"]
            self.last = r
            listed = self.until("the list", "GET", self.box, "/snapshots").json()["snapshots"]
            return next((s["id"] for s in listed if s["name"] == f"s{n}"), None)
        self.snaps[n] = wait_for(taken, f"snapshot {n} of {self.box}", PATIENCE)
        self.counts["snapshots"] += 1

    def restore(self):
        n, snap = self.random.choice(list(self.snaps.items()))
        self.until("the restore", "POST", self.box, "/restore", {"snapshot": snap})
        self.counts["restores"] += 1
        self.verify(self.box, n)

    def fork(self):
        n, snap = self.random.choice(list(self.snaps.items()))
        new = f"{self.box}-fork"
        # 409: it was made by a request whose answer was lost.
        self.until("the fork", "PUT", new, "", {"from": {"snapshot": snap}}, right=(200, 201, 409))
        self.counts["forks"] += 1
        self.verify(new, n)
        self.until("the end", "DELETE", new, right=(200, 204, 404))

    def drop_oldest(self):
        while len(self.snaps) > KEPT:
            self.until("the deletion", "DELETE", self.box, f"/snapshots/{self.snaps.pop(min(self.snaps))}", right=(200, 204, 404))

    def round(self, n):
        self.write(n)
        self.take(n)
        if self.random.random() < 0.25:
            self.restore()
        if self.random.random() < 0.25:
            self.fork()
        self.drop_oldest()

    def run(self):
        try:
            for n in range(1, self.rounds + 1):
                self.round(n)
        except Exception as e:  # pylint: disable=broad-except
            self.wrong.append(f"{e!r}, the last refusal: {self.last}")

    def verify_all(self):
        """Everything that was kept is whole, and nothing else is listed but what a lost answer left."""
        listed = {s["id"] for s in self.daemon_.request("GET", box_path(self.box, "/snapshots")).json()["snapshots"]}
        if not set(self.snaps.values()) <= listed:
            self.wrong.append(f"{self.box}: lost {set(self.snaps.values()) - listed}")
        for n, snap in self.snaps.items():
            self.until("the restore", "POST", self.box, "/restore", {"snapshot": snap})
            self.verify(self.box, n)


def kill_storer(daemon):
    """The warden's helper for everything that takes as long as the disk does."""
    for entry in Path("/proc").iterdir():
        with contextlib.suppress(OSError, ValueError):
            if (entry / "comm").read_text() == "atoll-storer\n" and f"\nPPid:\t{daemon.warden_pid}\n" in (entry / "status").read_text():
                os.kill(int(entry.name), signal.SIGKILL)
                return


def kill_at_random(daemon, stop, rng, counts):
    while not stop.wait(rng.uniform(0.2, 2) * KILL_EVERY):
        victim = rng.choice(["atolld", "warden", "gate", "storer"])
        with contextlib.suppress(KeyError, ProcessLookupError, AssertionError):
            if victim == "storer":
                kill_storer(daemon)
            else:
                daemon._kill_and_await(victim)  # pylint: disable=protected-access
            counts[victim] = counts.get(victim, 0) + 1


def test_soak_of_snapshots_with_kills():
    missing = fixtures.what_is_missing()
    if missing:
        pytest.skip(missing)
    first, stop, counts = seed(7), threading.Event(), {}
    with lib.Instance({"ATOLL_ZYGOTE": "off"}) as daemon:
        pool = daemon.request("GET", "/v1/health").json()["host"]["pool"]
        if pool["kind"] == "plain":
            pytest.skip(f"no pool on this host: {pool['reason']}")
        keepers = [Keeper(daemon, f"soak{i}", SNAPSHOTS // BOXES, first + i) for i in range(BOXES)]
        for k in keepers:
            daemon.execute(k.box, "true")
        killer = threading.Thread(target=kill_at_random, args=(daemon, stop, random.Random(first), counts))
        killer.start()
        for k in keepers:
            k.start()
        for k in keepers:
            k.join()
        stop.set()
        killer.join()
        daemon.await_warden()
        for k in keepers:
            k.verify_all()
        done = {name: sum(k.counts[name] for k in keepers) for name in keepers[0].counts}
        print(f"done: {done}, kills: {counts}")
        assert not [w for k in keepers for w in k.wrong]
        assert done["snapshots"] == SNAPSHOTS // BOXES * BOXES
