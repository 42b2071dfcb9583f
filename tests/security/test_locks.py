"""File locks are charged to nobody: a box that holds too many of them is ended, and only that one; so is the one with
most of them when all hold too many."""
import re

import atoll as lib

OWN_DAEMON = "counts the locks of all boxes of the daemon"

LIMITS = (lib.ROOT / "src/warden/limits.h").read_text()
LOCKS_MAX, LOCKS_ALL = (int(re.search(rf"#define {name}\s+(\d+)", LIMITS)[1]) for name in ("LOCKS_MAX", "LOCKS_ALL"))

# Locks every other byte of some files, in two processes that each print a dot and stay.
HOLD = """
import fcntl, os, signal, sys
total, files = int(sys.argv[1]), []
for part in range(2):
    if os.fork() == 0:
        for n in range(total // 2):
            if n % 128 == 0:
                files.append(open(f"/tmp/locked-{part}-{n}", "w"))
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


def holds(daemon, box, process):
    log = daemon.request("GET", lib.box_path(box, f"/api/process/{process}/logs")).json()
    return log["stdout"].count(".") == 2


def runs(daemon, box):
    return daemon.request("GET", lib.box_path(box)).json()["state"] == "running"


def ended(daemon, box, why):
    lib.wait_for(lambda: not runs(daemon, box), f"{box} has ended")
    lib.wait_for(lambda: any(why in line and box in line for line in daemon.log_path.read_text().splitlines()), "a line in the log", 20)


def test_one_box_with_too_many(daemon):
    daemon.request("PUT", lib.box_path("few-locks"), {})
    process = hold(daemon, "few-locks", LOCKS_MAX - 24)
    lib.wait_for(lambda: holds(daemon, "few-locks", process), "all locks are held")
    # More looks than one come while this box holds them: the other one is ended by a look.
    daemon.request("PUT", lib.box_path("many-locks"), {})
    hold(daemon, "many-locks", LOCKS_MAX + 2)
    ended(daemon, "many-locks", "it holds too many file locks")
    assert runs(daemon, "few-locks") and holds(daemon, "few-locks", process)
    reply = daemon.request("POST", lib.box_path("many-locks", "/api/execute"), {"command": "ls /tmp/hold.py /tmp/locked-0-0"})
    assert reply.json()["stdout"].split() == ["/tmp/hold.py", "/tmp/locked-0-0"], "the files of an ended box stay"


def test_a_box_sees_no_locks(daemon):
    """The list holds those of the host and of other boxes too, and who reads it holds up all who take locks."""
    text = daemon.execute_alone("no-list", "flock /tmp/x cat /proc/locks; stat -c %t,%T /proc/locks")["stdout"]
    assert text == "1,3\n"


def test_all_boxes_together(daemon):
    each = LOCKS_MAX - 24
    count = LOCKS_ALL // each
    boxes = [f"shares-{n}" for n in range(count)]
    held = {box: hold(daemon, box, each) for box in boxes}
    for box, process in held.items():
        lib.wait_for(lambda: holds(daemon, box, process), "all locks are held")
    daemon.destroy("few-locks")
    assert each * count <= LOCKS_ALL < each * count + LOCKS_MAX
    hold(daemon, "most", LOCKS_MAX)
    ended(daemon, "most", "it holds most")
    assert all(runs(daemon, box) for box in boxes)


def test_the_watch_is_started_again(daemon):
    def watch():
        return [pid for pid in lib.leaks.children(daemon.warden_pid) if lib.Path(f"/proc/{pid}/comm").read_text() == "atoll-locks\n"]

    (first,) = watch()
    lib.os.kill(first, 9)
    lib.wait_for(lambda: [pid for pid in watch() if pid != first], "another one")
    daemon.request("PUT", lib.box_path("after"), {})
    hold(daemon, "after", LOCKS_MAX + 2)
    ended(daemon, "after", "it holds too many file locks")
