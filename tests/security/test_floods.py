"""Work and log lines that a box can cause in others: both are bounded."""
import re

import atoll as lib

LIMITS = (lib.ROOT / "src/base/limits.h").read_text()


def limit(name):
    return int(re.search(rf"#define {name}\s+(\d+)", LIMITS)[1])


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
