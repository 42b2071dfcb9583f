"""Daemon and warden are killed at any moment, under load. Boxes do not notice, and every one is found again."""

import contextlib
import json
import os
import selectors
import signal
import socket
import threading
import time
from concurrent.futures import ThreadPoolExecutor

import leaks
import pytest
from atoll import DEADLINE, box_path, wait_for

POOL = "a new warden takes it over"

COUNTER = "echo >/tmp/ticks; (while :; do echo >>/tmp/ticks; sleep 0.05; done) >/dev/null 2>&1 & echo $!"


def start_counter(daemon, box):
    """A process in the box that never stops counting. Returns its pid inside."""
    return daemon.execute_alone(box, COUNTER)["stdout"].strip()


def ticks(daemon, box, pid):
    """How far it has counted; fails when it is not the same process any more."""
    r = daemon.execute_alone(box, f"kill -0 {pid} && wc -l </tmp/ticks")
    assert r["exitCode"] == 0, f"the counter in {box} has died: {r}"
    return int(r["stdout"])


def still_counts(daemon, box, pid, since):
    assert ticks(daemon, box, pid) >= since
    now = ticks(daemon, box, pid)
    wait_for(lambda: ticks(daemon, box, pid) > now, f"the counter in {box} goes on")


def agents(daemon):
    return leaks.agents(daemon.cgroup)


def kill_up(daemon):
    daemon.kill_up()
    daemon.start()


def kill_both(daemon):
    old = daemon.daemon_pid, daemon.warden_pid
    for pid in old:
        os.kill(pid, signal.SIGKILL)
    wait_for(lambda: daemon.daemon_pid not in (0, old[0]) and daemon.warden_pid not in (0, old[1]), "both are back")


VICTIMS = {"atolld": lambda d: d.kill_daemon(), "warden": lambda d: d.kill_warden(), "both": kill_both, "up": kill_up}


class Load:
    """Clients that make boxes and run commands until told to stop. They may be refused while something is down, but an
    answer that they get must be the true one."""

    def __init__(self, daemon, threads=6):
        self.daemon, self.stop = daemon, threading.Event()
        self.made, self.wrong, self.done = set(), [], 0
        self.lock = threading.Lock()
        self.pool = ThreadPoolExecutor(threads)
        self.work = [self.pool.submit(self.client, i) for i in range(threads)]

    def client(self, number):
        for turn in range(10 ** 9):
            if self.stop.is_set():
                return
            # Half of the work goes to boxes of its own, half makes new ones.
            box = f"load-{number}-{turn // 8}"
            with contextlib.suppress(OSError, json.JSONDecodeError):
                self.one(box, f"{number}.{turn}")

    def one(self, box, word):
        command = {"command": f"echo {word}; exit 3", "sessionId": "__DISABLE_SESSION__"}
        r = self.daemon.request("POST", box_path(box, "/api/execute"), command)
        with self.lock:
            if r.status == 200:
                self.done += 1
                self.made.add(box)
                result = r.json()
                if (result["stdout"], result["exitCode"]) != (word + "\n", 3):
                    self.wrong.append(r)
            elif r.status < 500:
                self.wrong.append(r)

    def wait_for_more(self, n):
        goal = self.done + n
        wait_for(lambda: self.done >= goal, f"{n} more commands are done")

    def finish(self):
        self.stop.set()
        self.pool.shutdown()
        for work in self.work:
            work.result()


@pytest.mark.parametrize("victim", VICTIMS)
def test_killed_under_load_every_box_is_found_again(own_daemon, victim):
    counters = {}
    for i in range(4):
        pid = start_counter(own_daemon, f"count-{i}")
        counters[f"count-{i}"] = pid, ticks(own_daemon, f"count-{i}", pid)
    load = Load(own_daemon)
    try:
        load.wait_for_more(20)
        for _ in range(3):
            VICTIMS[victim](own_daemon)
            load.wait_for_more(20)
    finally:
        load.finish()
    assert not load.wrong
    for box, (pid, since) in counters.items():
        still_counts(own_daemon, box, pid, since)
    known = {b["id"]: b["state"] for b in own_daemon.request("GET", "/v1/sandboxes").json()["sandboxes"]}
    assert load.made | set(counters) <= set(known), "a box that had answered is not known any more"
    assert set(known.values()) == {"running"}
    # No half-made box lives on unknown to the daemon.
    wait_for(lambda: len(agents(own_daemon)) == len(known), "one agent for each box that is known")


def test_killed_many_times_while_boxes_are_made(own_daemon):
    """Kills hit creates at every stage; whatever became of each, nothing is half-made afterwards."""
    def create(name):
        with contextlib.suppress(OSError):
            return name, own_daemon.request("PUT", box_path(name), {}).status
        return name, None
    with ThreadPoolExecutor(4) as pool:
        work = []
        for turn in range(8):
            work += [pool.submit(create, f"made-{turn}-{i}") for i in range(8)]
            own_daemon.kill_warden() if turn % 2 else own_daemon.kill_daemon()
        results = dict(w.result() for w in work)
    own_daemon.await_warden()
    known = {b["id"]: b["state"] for b in own_daemon.request("GET", "/v1/sandboxes").json()["sandboxes"]}
    assert {n for n, status in results.items() if status in (200, 201)} <= set(known)
    for name in known:
        assert own_daemon.execute_alone(name, "echo alive")["stdout"] == "alive\n"
    wait_for(lambda: len(agents(own_daemon)) == len(own_daemon.boxes()), "one agent for each box")


def test_a_command_does_not_notice_that_the_warden_dies(own_daemon, own_box):
    own_daemon.execute_alone(own_box, "mkfifo /tmp/go")
    with ThreadPoolExecutor(1) as pool:
        waiting = pool.submit(own_daemon.execute_alone, own_box, "touch /tmp/begun; cat /tmp/go; exit 9")
        wait_for(lambda: own_daemon.execute_alone(own_box, "test -e /tmp/begun")["exitCode"] == 0, "it runs")
        own_daemon.kill_warden()
        own_daemon.execute_alone(own_box, "echo went >/tmp/go")
        result = waiting.result()
    assert (result["stdout"], result["exitCode"]) == ("went\n", 9)


def test_a_command_whose_daemon_dies_is_not_given_a_made_up_result(own_daemon, own_box):
    own_daemon.execute_alone(own_box, "true")
    p = own_daemon.cli_start("exec", own_box, "sh", "-c", "echo ready; exec sleep 600")
    assert p.stdout.readline() == b"ready\n"
    own_daemon.kill_daemon()
    assert p.wait(DEADLINE) == 125 and b"not known" in p.stderr.read()


def test_a_box_that_died_meanwhile_is_reported_and_keeps_its_files(own_daemon, own_box):
    own_daemon.execute_alone(own_box, "echo kept >/workspace/file")
    own_daemon.execute_alone("other", "true")
    before = set(agents(own_daemon))
    [agent] = [p for p in before if own_box in inside(own_daemon, p)]
    own_daemon.kill_up()
    os.kill(agent, signal.SIGKILL)
    own_daemon.start()
    box = own_daemon.inspect(own_box)
    assert box["state"] == "stopped" and box["reason"]
    # Its row may still say `creating`: it is written up to 100 ms after the first answer.
    wait_for(lambda: own_daemon.inspect("other")["state"] == "running", "the other box, which lives")
    assert own_daemon.execute_alone(own_box, "cat /workspace/file")["stdout"] == "kept\n"
    assert own_daemon.inspect(own_box)["state"] == "running"


def inside(daemon, agent):
    """The box whose PID 1 this is: asked by a mark that every box is told to leave in its own /tmp."""
    for box in daemon.boxes():
        daemon.execute_alone(box, f"echo {box} >/tmp/name")
    with open(f"/proc/{agent}/root/tmp/name", encoding="ascii") as f:
        return f.read()


def test_a_box_that_dies_while_all_runs_is_reported(own_daemon, own_box):
    own_daemon.execute_alone(own_box, "true")
    [agent] = agents(own_daemon)
    os.kill(agent, signal.SIGKILL)
    wait_for(lambda: own_daemon.inspect(own_box)["state"] == "stopped", "its end is noticed")
    assert agents(own_daemon) == []
    assert own_daemon.execute_alone(own_box, "echo again")["stdout"] == "again\n" and agents(own_daemon) not in ([], [agent])


def test_a_thousand_first_requests_make_one_box(own_daemon, own_box):
    """All connect first, then all send at once; ping makes the box and starts no process in it."""
    n = 1000
    request = f"GET {box_path(own_box, '/api/ping')} HTTP/1.1\r\nHost: x\r\nConnection: close\r\n\r\n".encode()
    selector = selectors.DefaultSelector()
    replies = {}
    with contextlib.ExitStack() as stack:
        for _ in range(n):
            s = stack.enter_context(socket.socket(socket.AF_UNIX))
            s.connect(own_daemon.socket)
            s.setblocking(False)
            selector.register(s, selectors.EVENT_READ)
            replies[s] = b""
        for s in replies:
            assert s.send(request) == len(request)
        end = time.monotonic() + DEADLINE
        while selector.get_map() and time.monotonic() < end:
            for key, _ in selector.select(1):
                chunk = key.fileobj.recv(65536)
                replies[key.fileobj] += chunk
                if not chunk:
                    selector.unregister(key.fileobj)
    statuses = {r.split(b"\r\n")[0] for r in replies.values()}
    assert statuses == {b"HTTP/1.1 200 OK"}
    assert own_daemon.boxes() == [own_box]
    assert len(agents(own_daemon)) == 1


def test_a_graceful_stop_lets_requests_finish(own_daemon, own_box):
    own_daemon.execute_alone(own_box, "mkfifo /tmp/go")
    with ThreadPoolExecutor(2) as pool:
        waiting = pool.submit(own_daemon.execute_alone, own_box, "touch /tmp/begun; cat /tmp/go; echo end")
        wait_for(lambda: own_daemon.execute_alone(own_box, "test -e /tmp/begun")["exitCode"] == 0, "it runs")
        # What ends the command comes after the stop has begun, and past the daemon, which takes nothing more.
        (agent,) = agents(own_daemon)
        stopped = pool.submit(own_daemon.interrupt)
        wait_for(lambda: own_daemon.logged('program=atolld msg="stopping"'), "the stop has begun")
        with open(f"/proc/{agent}/root/tmp/go", "w", encoding="ascii") as go:
            go.write("went\n")
        assert stopped.result() == 0
        assert waiting.result()["stdout"] == "went\nend\n"


def test_stopped_and_started_many_times(own_daemon, own_box):
    pid = start_counter(own_daemon, own_box)
    since = ticks(own_daemon, own_box, pid)
    for _ in range(20 if os.environ.get("ATOLL_NIGHTLY") == "1" else 5):
        assert own_daemon.interrupt() == 0
        own_daemon.start()
    still_counts(own_daemon, own_box, pid, since)


def test_after_a_restart_of_the_host_everything_comes_back_with_the_first_request(own_daemon, own_box):
    """All processes end at once, as with the host. Settings, ports, files and services are there again."""
    own_daemon.request("PUT", box_path(own_box), {"env": {"A": "kept"}, "limits": {"pids": 99}, "labels": {"l": "1"}, "sleepAfter": "1h"})
    own_daemon.execute(own_box, "echo file >/root/f")
    url = own_daemon.request("POST", box_path(own_box, "/ports/8080")).json()["url"]
    own_daemon.request("POST", box_path(own_box, "/api/process/start"),
                       {"command": "echo $A; exec python3 -m http.server 8080", "processId": "web", "service": True})
    own_daemon.execute(own_box + "x", "true")
    wait_for(lambda: own_daemon.request("POST", box_path(own_box + "x", "/sleep")).status == 200, "it sleeps")
    own_daemon.kill_up()
    for pid, _ in leaks.processes(own_daemon.cgroup):
        with contextlib.suppress(ProcessLookupError):
            os.kill(pid, signal.SIGKILL)
    wait_for(lambda: not leaks.processes(own_daemon.cgroup), "all is gone")
    own_daemon.start()
    own_daemon.await_warden()
    assert {own_daemon.inspect(b)["state"] for b in (own_box, own_box + "x")} == {"stopped"}
    assert own_daemon.execute(own_box, "cat /root/f; echo $A")["stdout"] == "file\nkept\n"
    shown = own_daemon.inspect(own_box)
    assert (shown["limits"]["pids"], shown["labels"], shown["sleepAfter"]) == (99, {"l": "1"}, 3600)
    assert own_daemon.request("GET", box_path(own_box, "/ports")).json()["ports"][0]["url"] == url
    host = url.split("/")[2]
    wait_for(lambda: own_daemon.request("GET", "/", headers={"Host": host}, unix=False, token=False).status == 200, "the service answers")
    logs = own_daemon.request("GET", box_path(own_box, "/api/process/web/logs")).json()
    assert logs["stdout"].startswith("kept\n")
