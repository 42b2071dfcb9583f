"""File locks are charged to nobody: a box that holds too many of them is ended, and only that one."""
import re

import atoll as lib

LIMITS = (lib.ROOT / "src/warden/limits.h").read_text()
LOCKS_MAX = int(re.search(r"#define LOCKS_MAX\s+(\d+)", LIMITS)[1])

# Locks every other byte of some files, in several processes that each print a dot and stay.
HOLD = """
import fcntl, os, signal, sys
total, files, per_file = int(sys.argv[1]), [], 512
for first in range(0, total, 2048):
    if os.fork() == 0:
        for begin in range(first, first + 2048, per_file):
            files.append(open(f"/tmp/locked-{begin}", "w"))
            for n in range(per_file):
                fcntl.lockf(files[-1], fcntl.LOCK_EX, 1, 2 * n)
        os.write(1, b".")
        signal.pause()
signal.pause()
"""


def hold(daemon, box, total):
    """Starts a process that holds so many locks, as a background process of the box."""
    daemon.request("POST", lib.box_path(box, "/api/write"), {"path": "/tmp/hold.py", "content": HOLD})
    reply = daemon.request("POST", lib.box_path(box, "/api/process/start"), {"command": f"exec python3 /tmp/hold.py {total}"})
    assert reply.status == 200, reply
    return reply.json()["processId"]


def locks_of(daemon, box, process):
    log = daemon.request("GET", lib.box_path(box, f"/api/process/{process}/logs")).json()
    return log["stdout"].count(".")


def runs(daemon, box):
    return daemon.request("GET", lib.box_path(box)).json()["state"] == "running"


def test_many_locks_are_held(daemon):
    daemon.request("PUT", lib.box_path("few-locks"), {})
    process = hold(daemon, "few-locks", LOCKS_MAX - 4096)
    lib.wait_for(lambda: locks_of(daemon, "few-locks", process) == (LOCKS_MAX - 4096) // 2048, "all locks are held")
    # More looks than one come while this box holds them: the other one is ended by a look.
    daemon.request("PUT", lib.box_path("many-locks"), {})
    hold(daemon, "many-locks", LOCKS_MAX + 2048)
    lib.wait_for(lambda: not runs(daemon, "many-locks"), "the box with too many locks has ended")
    assert runs(daemon, "few-locks")
    assert locks_of(daemon, "few-locks", process) == (LOCKS_MAX - 4096) // 2048
    lib.wait_for(lambda: any("holds too many file locks" in line and "many-locks" in line for line in daemon.log_path.read_text().splitlines()),
                 "a line in the log")
    reply = daemon.request("POST", lib.box_path("many-locks", "/api/execute"), {"command": "ls /tmp/hold.py /tmp/locked-0"})
    assert reply.json()["stdout"].split() == ["/tmp/hold.py", "/tmp/locked-0"], "the files of an ended box stay"
