"""The end of a box takes as long as the box wants: a hundred thousand files in its memory are freed one by one when its
mount namespace goes. That is the closer's work (src/warden/reaper.c). Here the closer is stopped, which is an end that
takes forever, and everybody else must go on. Whether the mounts are still there is told by inotify: the kernel says
IN_UNMOUNT when the file system of a watched file ends, and a watch does not keep it."""
import contextlib
import ctypes
import os
import re
import select
import signal
import threading

import atoll as lib
import leaks
import pytest

POOL = "its limits end with the box"

IN_UNMOUNT = 0x2000
libc = ctypes.CDLL(None, use_errno=True)


def child(warden, name):
    for pid in leaks.children(warden):
        with contextlib.suppress(OSError):
            if open(f"/proc/{pid}/comm").read().strip() == name:
                return pid
    return None


def first_process(daemon, box):
    """The host's pid of the box's agent."""
    marker = f"marker-{box}"
    daemon.execute(box, f"touch /dev/shm/{marker}")
    for pid in leaks.agents(daemon.cgroup):
        if os.path.exists(f"/proc/{pid}/root/dev/shm/{marker}"):
            return pid
    raise AssertionError("the box has no agent")


class Mounts:
    """The box's /dev/shm as its memory sees it."""

    def __init__(self, pid):
        self.namespace = os.readlink(f"/proc/{pid}/ns/mnt")
        self.fd = libc.inotify_init1(os.O_CLOEXEC)
        path = f"/proc/{pid}/root/dev/shm".encode()
        assert libc.inotify_add_watch(self.fd, path, IN_UNMOUNT) >= 0, os.strerror(ctypes.get_errno())

    def gone(self, seconds=0):
        return bool(select.select([self.fd], [], [], seconds)[0])

    def held_by(self, pid):
        found = 0
        for fd in os.listdir(f"/proc/{pid}/fd"):
            with contextlib.suppress(OSError):
                found += os.readlink(f"/proc/{pid}/fd/{fd}") == self.namespace
        return found


class Dying:
    """A box whose first process is dead, while the closer stands still."""

    def __init__(self, daemon):
        self.daemon, self.warden = daemon, daemon.warden_pid
        self.closer = lib.wait_for(lambda: child(self.warden, "atoll-closer"), "the closer runs")
        daemon.execute("dying", "echo kept >/root/file; cd /dev/shm; for i in $(seq 500); do echo $i >$i; done")
        pid = first_process(daemon, "dying")
        self.mounts = Mounts(pid)
        assert self.mounts.held_by(self.warden) == 1
        os.kill(self.closer, signal.SIGSTOP)
        os.kill(pid, signal.SIGKILL)
        lib.wait_for(lambda: daemon.inspect("dying")["state"] == "stopped", "the box is dead")

    def go_on(self):
        with contextlib.suppress(ProcessLookupError):
            os.kill(self.closer, signal.SIGCONT)

    def start_again(self):
        """A request that starts the box on its files, under way in the warden. Returns its thread and its answers."""
        out = []
        t = threading.Thread(target=lambda: out.append(self.daemon.execute("dying", "cat /root/file")["stdout"]))
        t.start()
        lib.wait_for(lambda: self.daemon.inspect("dying")["state"] == "creating", "the box is on its way")
        return t, out


@pytest.fixture
def dying(own_daemon):
    d = Dying(own_daemon)
    yield d
    d.go_on()


def test_the_warden_closes_no_mounts(dying):
    assert dying.mounts.held_by(dying.warden) == 0, "the warden still holds the dead box's mounts"
    assert not dying.mounts.gone(), "somebody who must not wait took the mounts down"
    for i in range(20):  # more than are kept ready
        assert dying.daemon.execute(f"other{i}", "echo fine")["stdout"] == "fine\n"
    for i in range(20):
        assert dying.daemon.destroy(f"other{i}").status < 300
    assert not dying.mounts.gone()
    dying.go_on()
    assert dying.mounts.gone(lib.DEADLINE), "nobody took the mounts down"


def system_ticks(pid):
    """The processor time that the kernel has spent for this process."""
    return int(open(f"/proc/{pid}/stat").read().rsplit(")", 1)[1].split()[12])


def test_the_closer_takes_the_mounts_down_not_the_warden(own_daemon):
    """Both hold the namespace for a moment, and the kernel frees the files in whoever closes it last."""
    warden = own_daemon.warden_pid
    closer = lib.wait_for(lambda: child(warden, "atoll-closer"), "the closer runs")
    spent = {warden: 0, closer: 0}
    # On one processor, and the closer runs the moment it is woken: before the warden's next step.
    for pid in spent:
        os.sched_setaffinity(pid, {min(os.sched_getaffinity(0))})
    os.setpriority(os.PRIO_PROCESS, closer, -20)
    for _ in range(8):
        own_daemon.execute("full", "cd /dev/shm; seq 40000 | xargs touch")
        pid = first_process(own_daemon, "full")
        mounts = Mounts(pid)
        before = {who: system_ticks(who) for who in spent}
        os.kill(pid, signal.SIGKILL)
        assert mounts.gone(lib.DEADLINE)
        lib.wait_for(lambda: own_daemon.inspect("full")["state"] == "stopped", "the box is dead")
        for who in spent:
            spent[who] += system_ticks(who) - before[who]
    assert spent[warden] * 4 < spent[closer], spent


def test_a_box_waits_for_its_own_layer(dying):
    """Two overlays on one layer would spoil it."""
    t, out = dying.start_again()
    assert dying.daemon.execute("other", "echo fine")["stdout"] == "fine\n"
    assert not out and not dying.mounts.gone()
    dying.go_on()
    t.join(lib.DEADLINE)
    assert out == ["kept\n"] and dying.mounts.gone()


def test_a_destroy_does_not_wait(dying):
    assert dying.daemon.destroy("dying").status < 300
    assert dying.daemon.execute("dying", "ls /root")["stdout"] == "", "a new box on new files"
    assert not dying.mounts.gone()


def test_the_closer_is_killed(dying):
    """What it had is closed by its end; whoever waits goes on; another closer comes."""
    t, out = dying.start_again()
    os.kill(dying.closer, signal.SIGKILL)
    t.join(lib.DEADLINE)
    assert out == ["kept\n"] and dying.mounts.gone(lib.DEADLINE)
    lib.wait_for(lambda: child(dying.warden, "atoll-closer"), "another closer")
    again = Dying(dying.daemon)
    assert not again.mounts.gone()
    again.go_on()
    assert again.mounts.gone(lib.DEADLINE)


def test_the_warden_is_killed(dying):
    """Its closer lives on with the mounts. The next warden makes no box before they are gone."""
    dying.daemon.kill_warden()
    assert not dying.mounts.gone()
    assert not dying.daemon.request("GET", "/v1/health").json()["warden"]
    dying.go_on()
    dying.daemon.await_warden()
    assert dying.mounts.gone(), "a warden that serves before the mounts of its predecessor are gone"
    assert dying.daemon.execute("dying", "cat /root/file")["stdout"] == "kept\n"


def test_destroyed_boxes_wait_for_the_closer_in_a_bounded_row(own_daemon):
    """Past WARDEN_CLOSING_MAX no more boxes are prepared: creates slow down, memory does not grow."""
    text = (lib.ROOT / "src/warden/limits.h").read_text()
    limit = int(re.search(r"#define WARDEN_CLOSING_MAX +(\d+)u", text)[1])
    closer = lib.wait_for(lambda: child(own_daemon.warden_pid, "atoll-closer"), "the closer runs")
    warden = own_daemon.warden_pid
    own_daemon.execute("stays", "true")

    def held():
        return len(os.listdir(f"/proc/{warden}/fd"))

    before = held()

    os.kill(closer, signal.SIGSTOP)
    try:
        made = 0
        while made < 2000:
            t = threading.Thread(target=own_daemon.request, args=("PUT", f"/v1/sandboxes/x{made}"))
            t.start()
            while t.is_alive() and held() < limit:
                t.join(0.05)  # slow, not stopped
            t.join(2)  # what is ready is still given out
            if t.is_alive():
                break
            own_daemon.destroy(f"x{made}")
            made += 1
        assert made >= 16, "creates wait although hardly anything waits for the closer"
        assert t.is_alive(), "creates go on for ever while nothing is closed"
        assert held() <= before + limit + 16, (before, held())  # a box that was on its way adds its few
        assert own_daemon.execute("stays", "echo fine")["stdout"] == "fine\n"
    finally:
        os.kill(closer, signal.SIGCONT)
    t.join(lib.DEADLINE)
    assert not t.is_alive(), "creates do not go on when the closer does"
