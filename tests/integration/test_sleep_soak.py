"""Many cycles of sleep and wake while every program is killed with -9: files and memory stay what they were, and nothing is lost.

ATOLL_SLEEP_SOAK=10000 makes it ten thousand cycles (the default is small)."""

import contextlib
import os
import random
import threading

import atoll as lib
import fixtures
import pytest
import swap
from atoll import box_path, seed, wait_for

ALONE = "a soak"

CYCLES = int(os.environ.get("ATOLL_SLEEP_SOAK", "80"))
BOXES = 4
KILL_EVERY = 0.3 if CYCLES < 1000 else 1.0  # seconds
pytestmark = pytest.mark.limit(7200)

# Holds memory that nobody else knows; says its checksum when asked.
KEEPER = """
import hashlib, os
b = os.urandom(8 << 20)
first = hashlib.md5(b).hexdigest()
for p in ('/tmp/ask', '/tmp/answer'):
    os.mkfifo(p)
open('/tmp/up', 'w').close()
while True:
    open('/tmp/ask').read()
    with open('/tmp/answer', 'w') as f:
        f.write('same' if hashlib.md5(b).hexdigest() == first else 'changed')
"""


class Sleeper(threading.Thread):
    def __init__(self, daemon, name, cycles, first):
        super().__init__()
        self.daemon_, self.box, self.cycles, self.wrong = daemon, name, cycles, []
        self.random = random.Random(first)
        self.done = 0

    def ask(self, method, rest, body=None):
        """A request whose daemon or warden may be killed under it. None: nobody knows what became of it."""
        with contextlib.suppress(OSError, lib.http.client.HTTPException):
            return self.daemon_.request(method, box_path(self.box, rest), body)
        return None

    def run_command(self, command):
        def ran():
            r = self.ask("POST", "/api/execute", {"command": command, "sessionId": "__DISABLE_SESSION__"})
            return r and r.status == 200 and r.json()
        return wait_for(ran, f"{command} in {self.box}", 120)

    def prepare(self):
        self.daemon_.execute(self.box, "cat >/tmp/keep.py; head -c 2000000 /dev/urandom >/root/f; md5sum /root/f >/root/sum", stdin=KEEPER)
        self.daemon_.request("POST", box_path(self.box, "/api/process/start"), {"command": "exec python3 /tmp/keep.py", "processId": "keeper"})
        wait_for(lambda: self.daemon_.execute(self.box, "test -e /tmp/up")["exitCode"] == 0, "the keeper is up")
        self.pid = self.daemon_.request("GET", box_path(self.box, "/api/process/keeper")).json()["process"]["pid"]

    def verify(self):
        # One asker at a time: a command whose daemon died still holds the pipes.
        said = self.run_command("exec 9>/tmp/lock; flock 9; echo >/tmp/ask; cat /tmp/answer; echo; md5sum -c --status /root/sum && echo intact")
        if said["stdout"].split() != ["same", "intact"]:
            self.wrong.append(said)
        r = wait_for(lambda: (a := self.ask("GET", "/api/process/keeper")) and a.status == 200 and a, "the keeper is shown", 120)
        if r.json()["process"]["pid"] != self.pid:
            self.wrong.append(r.json())

    def cycle(self):
        self.ask("POST", "/sleep")
        if self.random.random() < 0.02:
            wait_for(lambda: (r := self.ask("GET", "")) and r.status == 200, "it is shown", 60)
        if self.random.random() < 0.3:
            self.ask("POST", "/wake")
        if self.random.random() < 0.2:
            self.verify()
        else:
            said = self.run_command("echo here")
            if said["stdout"] != "here\n":
                self.wrong.append(said)

    def run(self):
        try:
            for _ in range(self.cycles):
                self.cycle()
                self.done += 1
            self.verify()
        except Exception as e:  # pylint: disable=broad-except
            self.wrong.append(repr(e))


def kill_at_random(daemon, stop, rng, counts):
    while not stop.wait(rng.uniform(0.2, 2) * KILL_EVERY):
        victim = rng.choice(["atolld", "warden", "gate"])
        with contextlib.suppress(KeyError, ProcessLookupError, AssertionError):
            daemon._kill_and_await(victim)  # pylint: disable=protected-access
            counts[victim] = counts.get(victim, 0) + 1


def test_soak_of_sleep_and_wake_with_kills():
    missing = fixtures.what_is_missing()
    if missing:
        pytest.skip(missing)
    first, stop, counts = seed(7), threading.Event(), {}
    with swap.swap():
        with lib.Instance({"ATOLL_ZYGOTE": "off", "ATOLL_PAGE_OUT_AFTER": "1s"}) as daemon:
            users = [Sleeper(daemon, f"soak{i}", CYCLES // BOXES, first + i) for i in range(BOXES)]
            for u in users:
                u.prepare()
            killer = threading.Thread(target=kill_at_random, args=(daemon, stop, random.Random(first), counts))
            killer.start()
            for u in users:
                u.start()
            for u in users:
                u.join()
            stop.set()
            killer.join()
            daemon.await_warden()
            print(f"cycles: {sum(u.done for u in users)}, kills: {counts}")
            assert not [w for u in users for w in u.wrong]
            assert all(u.done == CYCLES // BOXES for u in users)
