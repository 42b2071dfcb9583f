"""What comes along: services and secrets of snapshots and forks, everything but processes over a restart of the host."""

import contextlib
import os
import signal

import leaks
from atoll import Instance, box_path, wait_for
from test_service import LOOP, get, log, running, start
from test_storage import MIB, pool, post, put, read  # noqa: F401  (pool: nothing here runs without one)


def test_services_run_again_after_a_restore_and_in_a_fork(daemon, box):
    start(daemon, box, LOOP, service=True, processId="web", env={"WORD": "hello"})
    start(daemon, box, LOOP, processId="plain")
    wait_for(lambda: log(daemon, box, "web").startswith("hello from "), "its first line")
    post(daemon, box, "/snapshots", {"name": "s"})
    fork = post(daemon, box, "/fork", {"count": 1})["sandboxes"][0]["id"]
    post(daemon, box, "/restore", {"snapshot": "s"})
    for one in (box, fork):
        assert running(daemon, one, "web")["service"] is True
        assert get(daemon, one, "plain") == {}
        wait_for(lambda: log(daemon, one, "web").startswith("hello from "), "its line again")  # noqa: B023
    daemon.destroy(fork)


def test_a_fork_has_the_secrets_of_its_parent_under_placeholders_of_its_own(daemon, box):
    value = os.urandom(16).hex()
    made = daemon.request("PUT", "/v1/secrets/along", {"value": value, "hosts": ["api.example"], "env": "ALONG_KEY"})
    assert made.status in (200, 201), made
    try:
        put(daemon, box, secrets=["along"])
        mine = daemon.execute(box, "echo $ALONG_KEY")["stdout"].strip()
        post(daemon, box, "/snapshots", {"name": "s"})
        fork = post(daemon, box, "/fork", {"count": 1})["sandboxes"][0]["id"]
        other = f"{box}-other"
        put(daemon, other, **{"from": {"snapshot": daemon.request("GET", box_path(box, "/snapshots")).json()["snapshots"][0]["id"]}})
        seen = {mine}
        for one in (fork, other):
            assert daemon.request("GET", box_path(one)).json()["secrets"] == ["along"]
            seen.add(daemon.execute(one, "echo $ALONG_KEY")["stdout"].strip())
        assert len(seen) == 3 and "" not in seen and value not in seen, seen
        # No placeholder of the parent lies in the files of the others.
        found = daemon.execute(fork, f"grep -rls {mine} /etc /root /var /workspace /run /opt 2>/dev/null; true")["stdout"]
        assert found == "", found
        for one in (fork, other):
            daemon.destroy(one)
    finally:
        daemon.request("DELETE", "/v1/secrets/along")


def test_after_a_restart_of_the_host_sandboxes_are_stopped_and_all_but_processes_comes_back():
    with Instance({"ATOLL_ZYGOTE": "off"}) as one:
        put(one, "a", env={"WORD": "kept"}, labels={"l": "1"}, limits={"disk": 64 * MIB, "memory": 256 * MIB}, sleepAfter="1h")
        one.execute("a", "echo here > /root/f; sync /root/f")
        start(one, "a", LOOP, service=True, processId="web")
        port = one.request("POST", box_path("a", "/ports/8080"), {"token": "same_token"}).json()
        snap = post(one, "a", "/snapshots", {"name": "s"})
        put(one, "b")
        post(one, "b", "/stop")
        before = one.request("GET", box_path("a")).json()
        assert one.interrupt() == 0
        for pid, _ in leaks.processes(one.cgroup):  # the host takes the boxes with it
            with contextlib.suppress(ProcessLookupError):  # one's end is the end of others
                os.kill(pid, signal.SIGKILL)
        wait_for(lambda: not list(leaks.processes(one.cgroup)), "no box is left")
        one.start()
        one.await_warden()
        states = {s["id"]: s["state"] for s in one.request("GET", "/v1/sandboxes").json()["sandboxes"]}
        assert states == {"a": "stopped", "b": "stopped"}
        assert read(one, "a", "/root/f") == "here\n"
        assert one.execute("a", "echo $WORD")["stdout"] == "kept\n"
        after = one.request("GET", box_path("a")).json()
        for same in ("labels", "limits", "sleepAfter", "envNames", "image", "createdAt"):
            assert after[same] == before[same], same
        assert after["disk"]["allowed"] == 64 * MIB
        running(one, "a", "web")
        listed = one.request("GET", box_path("a", "/ports")).json()["ports"]
        assert [(p["port"], p["url"]) for p in listed] == [(8080, port["url"])]
        assert one.request("GET", box_path("a", "/snapshots")).json()["snapshots"] == [snap]
