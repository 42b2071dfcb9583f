"""Work and log lines that a box can cause in others: both are bounded. The box's agent is taken over by holding its
descriptors: what it writes into its asking pipe, and how often, is up to it."""
import contextlib
import fcntl
import os
import re
import struct
import termios

import atoll as lib
import pytest
from test_closing import first_process

ALONE = "it judges what a flood does to others"

ZYGOTE = True
LIMITS = "".join(file.read_text() for file in lib.ROOT.glob("src/*/limits.h"))


def limit(name):
    return int(re.search(rf"#define {name}\s+(\d+)", LIMITS)[1])


class Asking:
    """A box's way to the zygote, held by the test in the agent's place."""

    def __init__(self, daemon, box):
        self.warden = daemon.warden_pid
        agent = first_process(daemon, box)
        ours = self.links(self.warden)
        fd, self.pipe = next((fd, name) for name, fd in self.links(agent).items() if name.endswith(".ask") and name in ours)
        self.fd = os.open(f"/proc/{agent}/fd/{fd}", os.O_WRONLY)

    @staticmethod
    def links(pid):
        """What the process has open, and as which descriptor."""
        found = {}
        for fd in os.listdir(f"/proc/{pid}/fd"):
            with contextlib.suppress(OSError):
                found[os.readlink(f"/proc/{pid}/fd/{fd}")] = fd
        return found

    def heard(self):
        """Does the warden still have its end?"""
        return self.pipe in self.links(self.warden)

    def ask(self, times):
        """Returns how many the pipe took; all of them have been answered when it returns."""
        for i in range(times):
            try:
                os.write(self.fd, struct.pack("=I", 0xfffffff0))
            except BrokenPipeError:
                return i
            if i % 256 == 255:
                self.await_answers()
        self.await_answers()
        return times

    def await_answers(self):
        def empty():
            return not self.heard() or struct.unpack("=i", fcntl.ioctl(self.fd, termios.FIONREAD, b"\0" * 4))[0] == 0
        lib.wait_for(empty, "the warden has read the pipe")


@pytest.fixture
def without_zygote():
    """Every request for a context is refused."""
    instance = lib.Instance({"ATOLL_ZYGOTE": "off"}).start()
    yield instance
    assert instance.close() == []


def test_a_box_that_only_asks_is_not_heard_any_more(without_zygote):
    daemon, most = without_zygote, limit("ZYGOTE_REFUSALS")
    for box in ("loud", "quiet"):
        daemon.execute(box, "true")
    loud, quiet = Asking(daemon, "loud"), Asking(daemon, "quiet")
    assert loud.ask(most) == most and loud.heard(), "refused at the limit, not past it"
    # It empties at ZYGOTE_RATE a second, so how many more it takes depends on the machine; not on the box.
    loud.ask(4 * most)
    assert not loud.heard()
    with pytest.raises(BrokenPipeError):
        os.write(loud.fd, b"\0\0\0\0")
    assert quiet.ask(16) == 16 and quiet.heard(), "another box is not concerned"
    lib.wait_for(lambda: daemon.logged("is not heard any more") == 1, "it is told once")
    # Its contexts start plainly, as they did before.
    r = daemon.request("POST", lib.box_path("loud", "/api/contexts"), {"language": "python"})
    assert r.status == 200, r


def test_a_record_that_is_no_number_ends_the_pipe(without_zygote):
    without_zygote.execute("odd", "true")
    odd = Asking(without_zygote, "odd")
    os.write(odd.fd, b"abc")
    lib.wait_for(lambda: not odd.heard(), "the pipe is closed")


def test_failures_that_a_box_causes_are_logged_in_bounds(daemon, box):
    """A port where nothing listens: one line in the log for each request, up to LOG_BURST at once."""
    burst, asked = limit("LOG_BURST"), 0
    for _ in range(burst + 40):
        asked += daemon.request("GET", lib.box_path(box, "/proxy/8080/")).status == 502
    assert asked == burst + 40

    def lines():
        return daemon.logged('msg="request" route')

    def suppressed():
        text = daemon.log_path.read_text()
        return sum(map(int, re.findall(r'msg="lines suppressed" of="request" count=(\d+)', text)))

    def all_told():
        daemon.request("GET", lib.box_path(box, "/proxy/8080/"))
        told.append(1)
        return suppressed() > 0

    told = []
    lib.wait_for(all_told, "a line that says how many were left out")
    assert burst <= lines() < asked + len(told)
    assert lines() + suppressed() <= asked + len(told)
