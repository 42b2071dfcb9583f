"""Boxes that end while contexts are forked into them must not take the zygote away from the others.

Each round makes a box, asks for four contexts at once and ends the box within 20 ms: by a delete, by a kill of its PID 1, or by code in the
box that ends its own PID 1. The kernel then kills the zygote's go-between wherever it is. Afterwards the same zygote must serve contexts as
before. ATOLL_RACE_ROUNDS sets the number of rounds of each kind.
"""

import contextlib
import os
import random
import signal
import threading
import time

import atoll as lib
import boxapi
import escape
import pytest
from codeapi import Context
from zygotes import host_pid, zygotes

ZYGOTE = True
ROUNDS = int(os.environ.get("ATOLL_RACE_ROUNDS", "60"))
CLIENTS = 3
CONTEXTS = 4
WITHIN = 0.020
SLOWEST = 3.0
"""A context that the zygote does not serve waits for seconds before it starts plainly; the fork takes milliseconds."""


@pytest.fixture(scope="module")
def zygote(daemon):
    return host_pid(daemon)


def ask(daemon, box, route="/api/contexts", body="{}"):
    """Sends a request; nobody waits for its answer."""
    s = daemon.connect(unix=True)
    s.sendall(f"POST {lib.box_path(box, route)} HTTP/1.1\r\nHost: a\r\nContent-Type: application/json\r\nContent-Length: {len(body)}\r\n\r\n{body}".encode())
    return s


def one_round(daemon, box, end):
    assert daemon.request("PUT", lib.box_path(box), {}).status in (200, 201)
    init = escape.init_of(daemon, box) if end == "kill" else 0
    asked = [ask(daemon, box) for _ in range(CONTEXTS)]
    time.sleep(random.uniform(0, WITHIN))
    if end == "kill":
        with contextlib.suppress(ProcessLookupError):
            os.kill(init, signal.SIGKILL)
    elif end == "itself":
        # Memory that the agent cannot get ends it.
        asked.append(ask(daemon, box, "/api/execute", '{"command": "prlimit --pid 1 --as=4096"}'))
        time.sleep(random.uniform(0, 2 * WITHIN))
        asked += [ask(daemon, box) for _ in range(CONTEXTS)]
    daemon.destroy(box)
    for s in asked:
        s.close()


def race(daemon, end, rounds):
    failures = []

    def client(number):
        try:
            for n in range(number, rounds, CLIENTS):
                one_round(daemon, f"race-{end}-{n}", end)
        except BaseException as error:  # noqa: BLE001 (shown by the test's thread)
            failures.append(error)

    threads = [threading.Thread(target=client, args=(n,)) for n in range(CLIENTS)]
    for t in threads:
        t.start()
    for t in threads:
        t.join()
    assert not failures, failures


def served(daemon, box):
    """Seconds until the contexts of a new box ran code; all came from the zygote."""
    api = boxapi.Api(daemon, box)
    daemon.request("PUT", lib.box_path(box), {})
    times = []
    for _ in range(5):
        begin = time.monotonic()
        c = Context(api)
        times.append(time.monotonic() - begin)
        assert c("1 + 1").result["text"] == "2"
    listed = api.call("/api/contexts", method="GET").json()["contexts"]
    daemon.destroy(box)
    assert [c["preloaded"] for c in listed] == [True] * 5, listed
    return times


@pytest.mark.parametrize("end", ["delete", "kill", "itself"])
def test_boxes_that_end_during_a_start(daemon, zygote, end):
    before = served(daemon, "before")
    race(daemon, end, ROUNDS)
    after = served(daemon, "after")
    print(f"{end}: {ROUNDS} rounds; contexts before {sorted(before)[2] * 1e3:.1f} ms, after {sorted(after)[2] * 1e3:.1f} ms")
    assert zygotes(daemon) == [zygote], "it was replaced: something in the rounds stopped it"
    assert max(after) < SLOWEST, (before, after)
    assert sorted(os.listdir(f"/proc/{zygote}/fd")) == ["0", "1", "2", "3", "5"]
    assert lib.Path(f"/proc/{zygote}/task/{zygote}/children").read_text() == ""


def test_a_stuck_zygote_is_replaced(own_daemon):
    """Contexts start plainly meanwhile: the first when the warden notices, the others at once. None waits until its agent gives up."""
    agent_gives_up = 5.0
    stuck, started = host_pid(own_daemon), own_daemon.zygotes_started()
    own_daemon.execute("patient", "true")
    api = boxapi.Api(own_daemon, "patient")
    os.kill(stuck, signal.SIGSTOP)
    times = []
    for _ in range(3):
        begin = time.monotonic()
        c = Context(api)
        times.append(time.monotonic() - begin)
        assert c("1 + 1").result["text"] == "2"
    assert max(times) < agent_gives_up, times
    assert not any(c["preloaded"] for c in api.call("/api/contexts", method="GET").json()["contexts"])
    lib.wait_for(lambda: own_daemon.logged("a zygote is stuck and is replaced"), "the warden notices")
    own_daemon.await_zygote(after=started)
    assert stuck not in zygotes(own_daemon)
    c = Context(api)
    assert c.id in [c["id"] for c in api.call("/api/contexts", method="GET").json()["contexts"] if c["preloaded"]]
