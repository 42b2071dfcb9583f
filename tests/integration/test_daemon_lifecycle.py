"""The life of sandboxes: made once however many ask, asleep and awake, ended by themselves, destroyed under requests,
with the warden slow or away."""

import contextlib
import os
import resource
import signal
import time
from concurrent.futures import ThreadPoolExecutor

import leaks
import pytest
from atoll import DEADLINE, alive, box_path, wait_for

POOL = "boxes end in it"


def metric(daemon, name):
    for line in daemon.request("GET", "/metrics").text.splitlines():
        if line.rsplit(" ", 1)[0] == name:
            return float(line.rsplit(" ", 1)[1])
    return 0


def init_of(daemon, box):
    """The box's PID 1, outside: the process of the instance that sees the box's mark in its own /tmp."""
    daemon.execute(box, f"echo {box} >/tmp/whose")
    for pid, _ in leaks.processes(daemon.cgroup or leaks.cgroup_name(daemon.warden_pid)):
        with contextlib.suppress(OSError):
            with open(f"/proc/{pid}/root/tmp/whose", encoding="ascii") as f, open(f"/proc/{pid}/status", encoding="ascii") as s:
                inside = [line.split()[-1] for line in s if line.startswith("NSpid:")]
                if f.read().strip() == box and inside == ["1"]:
                    return pid
    raise AssertionError(f"no init of {box}")


@contextlib.contextmanager
def stopped(pid):
    """The process is held, as on a machine that is busy elsewhere."""
    os.kill(pid, signal.SIGSTOP)
    try:
        yield
    finally:
        os.kill(pid, signal.SIGCONT)


def start_waiting(daemon, box):
    """A command that runs until told; returns when it does."""
    daemon.execute(box, "mkfifo /tmp/go")
    pool = ThreadPoolExecutor(1)
    work = pool.submit(daemon.request, "POST", box_path(box, "/api/execute"),
                       {"command": "touch /tmp/begun; cat /tmp/go; (exit 7)", "sessionId": "waiting"})
    wait_for(lambda: daemon.execute(box, "test -e /tmp/begun")["exitCode"] == 0, "the command runs")
    return work


# ---- made once


def test_many_first_requests_of_every_kind_make_one_box(daemon, box):
    before = metric(daemon, "atoll_create_seconds_count")
    with ThreadPoolExecutor(60) as pool:
        work = [pool.submit(daemon.request, "POST", box_path(box, "/api/execute"), {"command": "hostname"}) for _ in range(40)]
        puts = [pool.submit(daemon.request, "PUT", box_path(box), {}) for _ in range(20)]
        statuses = [w.result().status for w in work]
        made = sorted(p.result().status for p in puts)
    assert statuses == [200] * 40
    assert made in ([200] * 20, [200] * 19 + [201])
    assert metric(daemon, "atoll_create_seconds_count") == before + 1


def test_puts_with_different_limits_end_in_one_of_them(daemon, box):
    with ThreadPoolExecutor(20) as pool:
        replies = list(pool.map(lambda n: daemon.request("PUT", box_path(box), {"limits": {"pids": n}}), range(100, 120)))
    assert {r.status for r in replies} <= {200, 201, 409}
    assert [r.status for r in replies].count(201) == 1
    shown = daemon.inspect(box)["limits"]["pids"]
    assert shown in range(100, 120)
    assert shown in [r.json()["limits"]["pids"] for r in replies if r.status < 300]


def test_boxes_of_different_names_are_made_side_by_side(daemon):
    names = [f"side-{i}" for i in range(25)]
    try:
        with ThreadPoolExecutor(25) as pool:
            out = list(pool.map(lambda n: daemon.execute(n, f"echo {n}")["stdout"].strip(), names))
        assert out == names
    finally:
        with ThreadPoolExecutor(25) as pool:
            assert {r.status for r in pool.map(daemon.destroy, names)} == {204}


def test_a_first_request_whose_client_leaves_harms_nobody(daemon, box):
    with daemon.connect(unix=True) as s:
        s.sendall(f"GET {box_path(box, '/api/ping')} HTTP/1.1\r\nHost: x\r\n\r\n".encode())
    assert daemon.execute(box, "echo ok")["stdout"] == "ok\n"


# ---- destroyed


def test_many_deletes_are_one(daemon, box):
    daemon.execute(box, "true")
    with ThreadPoolExecutor(10) as pool:
        statuses = [r.status for r in pool.map(lambda _: daemon.destroy(box), range(10))]
    assert set(statuses) <= {204, 404} and 204 in statuses
    assert daemon.inspect(box) is None


def test_requests_around_a_delete_go_to_the_old_box_or_a_new_one(daemon, box):
    daemon.execute(box, "touch /workspace/old")
    with ThreadPoolExecutor(30) as pool:
        work = []
        for i in range(60):
            work.append(pool.submit(daemon.request, "POST", box_path(box, "/api/execute"), {"command": "true"}))
            if i == 30:
                work.append(pool.submit(daemon.destroy, box))
        replies = [w.result() for w in work]
    for r in replies:
        assert r.status in (200, 204) or r.json()["code"] == "CONTAINER_LOST", r
    assert daemon.execute(box, "test -e /workspace/old")["exitCode"] == 1


def test_a_request_inside_a_destroyed_box_is_told_so(daemon, box):
    work = start_waiting(daemon, box)
    assert daemon.destroy(box).status == 204
    r = work.result()
    assert (r.status, r.json()["code"]) == (500, "CONTAINER_LOST")
    assert "destroyed" in r.json()["message"]


# ---- ended by itself


def test_a_box_that_ends_is_stopped_and_starts_again_with_its_files(daemon, box):
    daemon.request("PUT", box_path(box), {"env": {"WHO": "me"}, "limits": {"pids": 99}})
    daemon.execute(box, "echo kept >/workspace/file")
    work = start_waiting(daemon, box)
    os.kill(init_of(daemon, box), signal.SIGKILL)
    lost = work.result()
    assert (lost.status, lost.json()["code"]) == (500, "CONTAINER_LOST")
    wait_for(lambda: daemon.inspect(box)["state"] == "stopped", "its end is noticed")
    seen = daemon.inspect(box)
    assert "signal 9" in seen["reason"] and "usage" not in seen
    r = daemon.execute(box, "cat /workspace/file; echo $WHO")
    assert r["stdout"] == "kept\nme\n"
    seen = daemon.inspect(box)
    assert seen["state"] == "running" and "reason" not in seen and seen["limits"]["pids"] == 99


def test_the_next_request_does_not_fail_because_the_end_was_just_now(daemon, box):
    daemon.execute(box, "echo kept >/workspace/file")
    for _ in range(10):
        pid = init_of(daemon, box)
        os.kill(pid, signal.SIGKILL)
        wait_for(lambda p=pid: not alive(p), "it is dead")
        assert daemon.execute(box, "cat /workspace/file")["stdout"] == "kept\n"


def test_a_stopped_box_can_be_changed_and_destroyed(daemon, box):
    os.kill(init_of(daemon, box), signal.SIGKILL)
    wait_for(lambda: daemon.inspect(box)["state"] == "stopped", "its end is noticed")
    r = daemon.request("PUT", box_path(box), {"limits": {"pids": 77}})
    assert (r.status, r.json()["state"], r.json()["limits"]["pids"]) == (200, "stopped", 77)
    assert daemon.execute(box, "true")["exitCode"] == 0
    assert daemon.inspect(box)["limits"]["pids"] == 77
    os.kill(init_of(daemon, box), signal.SIGKILL)
    wait_for(lambda: daemon.inspect(box)["state"] == "stopped", "its end is noticed")
    assert daemon.destroy(box).status == 204
    assert daemon.inspect(box) is None


# ---- asleep


COUNTER = "(while :; do echo >>/tmp/ticks; sleep 0.02; done) >/dev/null 2>&1 & echo $!"


def ticks(daemon, box):
    return int(daemon.execute(box, "wc -l </tmp/ticks")["stdout"])


def test_an_idle_box_sleeps_and_wakes_where_it_was(daemon, box):
    daemon.request("PUT", box_path(box), {"sleepAfter": "1s"})
    pid = daemon.execute(box, COUNTER)["stdout"].strip()
    wait_for(lambda: daemon.inspect(box)["state"] == "asleep", "it sleeps")
    outside = init_of_sleeping(daemon)
    before = [ticks_outside(p) for p in outside]
    time.sleep(0.3)  # fifteen ticks: what must not happen has no event
    assert [ticks_outside(p) for p in outside] == before, "nothing runs while it sleeps"
    r = daemon.execute(box, f"kill -0 {pid} && echo same")
    assert r["stdout"] == "same\n"
    now = ticks(daemon, box)
    wait_for(lambda: ticks(daemon, box) > now, "it goes on counting")


def init_of_sleeping(daemon):
    return [pid for pid, _ in leaks.processes(daemon.cgroup or leaks.cgroup_name(daemon.warden_pid))]


def ticks_outside(pid):
    with contextlib.suppress(OSError):
        return os.stat(f"/proc/{pid}/root/tmp/ticks").st_size
    return None


def test_a_box_with_a_request_inside_does_not_sleep(daemon, box):
    daemon.request("PUT", box_path(box), {"sleepAfter": 1})
    work = start_waiting(daemon, box)
    time.sleep(1.6)  # longer than sleepAfter: what must not happen has no event
    assert daemon.inspect(box)["state"] == "running"
    daemon.execute(box, "echo went >/tmp/go")
    assert work.result().json()["exitCode"] == 7


def test_keep_alive_and_zero_mean_never(daemon, box):
    daemon.request("PUT", box_path(box), {"sleepAfter": "1s", "keepAlive": True})
    daemon.execute(box, "true")
    time.sleep(1.4)  # longer than sleepAfter, as above
    assert daemon.inspect(box)["state"] == "running"
    daemon.request("PUT", box_path(box), {"keepAlive": False})
    wait_for(lambda: daemon.inspect(box)["state"] == "asleep", "it sleeps when it may")
    assert daemon.request("PUT", box_path(box), {"sleepAfter": 0}).json()["sleepAfter"] is None


def test_a_sleeping_box_can_be_destroyed(daemon, box):
    daemon.request("PUT", box_path(box), {"sleepAfter": "1s"})
    wait_for(lambda: daemon.inspect(box)["state"] == "asleep", "it sleeps")
    assert daemon.destroy(box).status == 204


# ---- the warden slow or away


def test_a_box_has_room_for_4096_who_wait(own_daemon, own_box):
    limit, most = resource.getrlimit(resource.RLIMIT_NOFILE)
    if most < 6000:
        pytest.skip(f"only {most} descriptors are allowed")
    resource.setrlimit(resource.RLIMIT_NOFILE, (most, most))
    request = f"GET {box_path(own_box, '/api/ping')} HTTP/1.1\r\nHost: x\r\n\r\n".encode()
    conns = []
    try:
        with stopped(own_daemon.warden_pid):
            for _ in range(4096):
                conns.append(own_daemon.connect(unix=True))
                conns[-1].sendall(request)
            wait_for(lambda: metric(own_daemon, "atoll_connections") - metric(own_daemon, "atoll_connections_idle") >= 4096,
                     "all wait")
            r = own_daemon.request("GET", box_path(own_box, "/api/ping"))
            assert (r.status, r.json()["code"]) == (503, "CONTAINER_UNAVAILABLE")
            assert "4096 requests wait" in r.json()["message"]
        assert {s.recv(15) for s in conns} == {b"HTTP/1.1 200 OK"}
    finally:
        for s in conns:
            s.close()
        resource.setrlimit(resource.RLIMIT_NOFILE, (limit, most))


def test_a_held_warden_delays_creates_and_nothing_else(own_daemon):
    own_daemon.execute("old", "true")
    with ThreadPoolExecutor(1) as pool:
        with stopped(own_daemon.warden_pid):
            work = pool.submit(own_daemon.execute, "new", "echo made")
            assert own_daemon.execute("old", "echo served")["stdout"] == "served\n"
            assert own_daemon.request("GET", "/v1/health").status == 200
            assert "usage" not in own_daemon.inspect("old")  # told without it, after a while
            assert not work.done()
        assert work.result()["stdout"] == "made\n"
    assert own_daemon.inspect("old")["usage"]["memory"] > 0


def test_a_warden_that_is_killed_while_a_box_is_made(own_daemon):
    """The create is found out about, or made again by the next warden; its client gets the one true answer."""
    own_daemon.execute("old", "true")
    for turn in range(5):
        with ThreadPoolExecutor(4) as pool:
            os.kill(own_daemon.warden_pid, signal.SIGSTOP)
            work = [pool.submit(own_daemon.execute, f"new-{turn}-{i}", "echo made") for i in range(4)]
            own_daemon.kill_warden()
            assert [w.result()["stdout"] for w in work] == ["made\n"] * 4
    assert own_daemon.execute("old", "echo served")["stdout"] == "served\n"
    assert len(own_daemon.boxes()) == 21
    assert set(s["state"] for s in own_daemon.request("GET", "/v1/sandboxes").json()["sandboxes"]) == {"running"}


def test_without_a_warden_creates_fail_with_a_sentence_and_boxes_go_on(own_daemon):
    own_daemon.execute("old", "true")
    assert own_daemon.request("PUT", box_path("old"), {"labels": {"a": "b"}}).status == 200  # all of it is written now
    (own_daemon.run / "warden.sock").rename(own_daemon.run / "hidden.sock")
    own_daemon.kill_daemon()  # its successor finds no warden at all
    try:
        health = own_daemon.request("GET", "/v1/health").json()
        assert (health["status"], health["warden"]) == ("degraded", False)
        r = own_daemon.request("POST", box_path("new", "/api/execute"), {"command": "true"})
        assert (r.status, r.json()["code"]) == (503, "CONTAINER_UNAVAILABLE")
        assert "the warden is not running" in r.json()["message"]
        assert own_daemon.inspect("new") is None
        assert own_daemon.inspect("old")["state"] == "running"
    finally:
        (own_daemon.run / "hidden.sock").rename(own_daemon.run / "warden.sock")
    wait_for(lambda: own_daemon.request("GET", "/v1/health").json()["warden"], "the warden is found")
    assert own_daemon.execute("old", "echo served")["stdout"] == "served\n"
    assert own_daemon.execute("new", "echo made")["stdout"] == "made\n"


# ---- stop


def test_sigterm_lets_exchanges_end_and_a_second_one_does_not(own_daemon, own_box):
    work = start_waiting(own_daemon, own_box)
    pid = own_daemon.daemon_pid
    os.kill(pid, signal.SIGTERM)
    wait_for(lambda: own_daemon.logged('program=atolld msg="stopping"'), "it begins to stop")
    assert alive(pid)
    os.kill(pid, signal.SIGTERM)
    wait_for(lambda: not alive(pid), "it ends at once")
    assert work.exception(DEADLINE) or work.result().status != 200, "it was cut off, so it has no result"
    assert own_daemon.execute(own_box, "echo alive")["stdout"] == "alive\n"
