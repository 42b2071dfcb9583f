"""File locks are charged to nobody: a box that holds too many of them is ended, and only that one; so is the one with
most of them when all hold too many. Locks count for the box that has their files, also when the process that took them
has ended."""
import re
import time

import atoll as lib
import pytest

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


# A child takes flock() on files that its parent keeps open, and ends: the locks stay. Prints the child's number.
LEAVE = """
import fcntl, os, signal, sys
kind, total = sys.argv[1], int(sys.argv[2])
if kind == "memfd":
    files = [os.memfd_create(str(n)) for n in range(total)]
else:
    files = [os.open(f"{kind}/left-{n}", os.O_RDWR | os.O_CREAT) for n in range(total)]
child = os.fork()
if child == 0:
    for n in files:
        fcntl.flock(n, fcntl.LOCK_EX)
    os._exit(0)
os.waitpid(child, 0)
os.write(1, b"..")
signal.pause()
"""

# Always has many children that wait, and starts new ones, until /tmp/keep exists.
CHURN = """
import os, signal, time
children = []
while not os.path.exists("/tmp/keep"):
    child = os.fork()
    if child == 0:
        signal.pause()
    children.append(child)
    if len(children) > 60:
        os.kill(children[0], 9)
        os.waitpid(children.pop(0), 0)
    time.sleep(0.01)
os.write(1, b"..")
signal.pause()
"""


def start(daemon, box, program, *arguments):
    """Starts a program of the box in the background."""
    daemon.request("POST", lib.box_path(box, "/api/write"), {"path": "/tmp/hold.py", "content": program})
    command = " ".join(("exec python3 /tmp/hold.py", *(str(one) for one in arguments)))
    reply = daemon.request("POST", lib.box_path(box, "/api/process/start"), {"command": command})
    assert reply.status == 200, reply
    return reply.json()["processId"]


def hold(daemon, box, total):
    """Starts a process that holds so many locks, as a background process of the box."""
    return start(daemon, box, HOLD, total)


def holds(daemon, box, process):
    log = daemon.request("GET", lib.box_path(box, f"/api/process/{process}/logs")).json()
    return log["stdout"].count(".") == 2


def watch(daemon):
    return [pid for pid in lib.leaks.children(daemon.warden_pid) if lib.Path(f"/proc/{pid}/comm").read_text() == "atoll-locks\n"]


def wait_for_looks(daemon, count):
    """Waits until the watch has read the whole list so often."""
    (pid,) = watch(daemon)

    def read():
        return int(lib.Path(f"/proc/{pid}/io").read_text().split()[1])

    end = read() + count * len(lib.Path("/proc/locks").read_bytes())
    lib.wait_for(lambda: read() > end, f"{count} looks at the locks", 120)


def locks_of(pid):
    return sum(line.split()[4] == str(pid) for line in lib.Path("/proc/locks").read_text().splitlines() if "->" not in line)


def dead_taker():
    """The process that took most locks."""
    pids = [line.split()[4] for line in lib.Path("/proc/locks").read_text().splitlines() if " FLOCK " in line]
    return max(set(pids), key=pids.count)


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


@pytest.mark.parametrize("place", ["/tmp", "/dev/shm"])
def test_the_taker_has_ended(daemon, place):
    """flock() stays with the open file: nothing but the device says whose it is."""
    box = "left" + place.replace("/", "-")
    daemon.request("PUT", lib.box_path(box), {})
    start(daemon, box, LEAVE, place, LOCKS_MAX + 2)
    ended(daemon, box, "it holds too many file locks")


def test_another_process_gets_the_number_of_the_taker(daemon):
    """Files without a name are of no box's device: their locks count for no box when their taker has ended, above all for
    none that gets the number of the taker."""
    last = lib.Path("/proc/sys/kernel/ns_last_pid")
    if not last.exists():
        pytest.skip("this kernel cannot choose the number of a process (CONFIG_CHECKPOINT_RESTORE)")
    daemon.request("PUT", lib.box_path("innocent"), {})
    daemon.request("PUT", lib.box_path("leaves"), {})
    left = start(daemon, "leaves", LEAVE, "memfd", LOCKS_MAX + 2)
    lib.wait_for(lambda: holds(daemon, "leaves", left), "the locks are left behind")
    pid = dead_taker()
    assert locks_of(pid) == LOCKS_MAX + 2 and not lib.Path(f"/proc/{pid}").exists()
    wait_for_looks(daemon, 2)
    churn = start(daemon, "innocent", CHURN)

    def is_reused():
        try:
            return "hold.py" in lib.Path(f"/proc/{pid}/cmdline").read_text()
        except OSError:
            last.write_text(str(int(pid) - 1))
            return False
    lib.wait_for(is_reused, "the neighbour has the number", 60)
    daemon.request("POST", lib.box_path("innocent", "/api/write"), {"path": "/tmp/keep", "content": ""})
    lib.wait_for(lambda: holds(daemon, "innocent", churn), "its processes stay")
    wait_for_looks(daemon, 3)
    assert runs(daemon, "innocent") and lib.Path(f"/proc/{pid}").exists()


def test_all_boxes_together(daemon):
    for box in ("leaves", "innocent", "few-locks"):
        daemon.destroy(box)
    each = LOCKS_MAX - 24
    count = LOCKS_ALL // each
    boxes = [f"shares-{n}" for n in range(count)]
    held = {box: hold(daemon, box, each) for box in boxes}
    for box, process in held.items():
        lib.wait_for(lambda: holds(daemon, box, process), "all locks are held")
    warden_reads_no_locks(daemon)
    assert each * count <= LOCKS_ALL < each * count + LOCKS_MAX
    hold(daemon, "most", LOCKS_MAX)
    ended(daemon, "most", "it holds most")
    assert all(runs(daemon, box) for box in boxes)


def warden_reads_no_locks(daemon):
    """While the list is long, the warden needs less processor time for a create and some looks than one read of the
    list takes."""
    def spent():
        return int(lib.Path(f"/proc/{daemon.warden_pid}/schedstat").read_text().split()[0]) / 1e9

    before = spent()
    daemon.request("PUT", lib.box_path("created"), {})
    assert daemon.execute_alone("created", "true")["exitCode"] == 0
    wait_for_looks(daemon, 2)
    warden, began = spent() - before, time.thread_time()
    lib.Path("/proc/locks").read_bytes()
    assert warden < time.thread_time() - began


def test_the_watch_is_started_again(daemon):
    (first,) = watch(daemon)
    lib.os.kill(first, 9)
    lib.wait_for(lambda: [pid for pid in watch(daemon) if pid != first], "another one")
    daemon.request("PUT", lib.box_path("after"), {})
    hold(daemon, "after", LOCKS_MAX + 2)
    ended(daemon, "after", "too many file locks")  # the boxes of the test before may still hold theirs


def test_the_next_warden_knows_the_boxes(daemon):
    daemon.request("PUT", lib.box_path("older"), {})
    daemon.kill_warden()
    start(daemon, "older", LEAVE, "/tmp", LOCKS_MAX + 2)
    ended(daemon, "older", "it holds too many file locks")
