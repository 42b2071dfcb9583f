"""Services: background processes that are started again when they end and when their box starts."""

import json
import os
import signal

import pytest
from atoll import box_path, wait_for
from boxapi import check_error
from test_daemon_lifecycle import init_of

FILE = "/var/lib/atoll-agent/services.json"
LOOP = "echo $WORD from $PWD; while sleep 0.05; do :; done"


def api(daemon, box, method, path, body=None):
    return daemon.request(method, box_path(box, "/api/" + path), body)


def start(daemon, box, command, **fields):
    r = api(daemon, box, "POST", "process/start", {"command": command, **fields})
    assert r.status == 200, r
    return r.json()["processId"]


def get(daemon, box, pid):
    return api(daemon, box, "GET", f"process/{pid}").json().get("process") or {}


def log(daemon, box, pid):
    return api(daemon, box, "GET", f"process/{pid}/logs").json().get("stdout", "")


def running(daemon, box, pid):
    return wait_for(lambda: (p := get(daemon, box, pid)).get("status") == "running" and p, f"{pid} runs")


def stop(daemon, box):
    assert daemon.request("POST", box_path(box, "/stop")).json()["state"] == "stopped"


def test_a_service_comes_back_with_its_box(daemon, box):
    daemon.request("PUT", box_path(box), {"env": {"FROM_BOX": "yes"}})
    api(daemon, box, "POST", "session/create", {"id": "s", "env": {"OF_SESSION": "also"}, "cwd": "/opt"})
    pid = start(daemon, box, "echo $FROM_BOX $OF_SESSION $OWN $PWD; while sleep 0.05; do :; done", service=True,
                env={"OWN": "a=b c"}, sessionId="s", processId="web")
    assert pid == "web"
    wait_for(lambda: log(daemon, box, "web") == "yes also a=b c /opt\n", "its first line")
    start(daemon, box, LOOP, processId="plain")
    for _ in range(2):
        stop(daemon, box)
        assert [p["id"] for p in api(daemon, box, "GET", "process/list").json()["processes"]] == ["web"]
        shown = running(daemon, box, "web")
        assert (shown["service"], shown["restarts"]) == (True, 0)
        wait_for(lambda: log(daemon, box, "web") == "yes also a=b c /opt\n", "the same line")


def test_a_service_comes_back_when_its_box_was_killed(daemon, box):
    start(daemon, box, LOOP, service=True, processId="web")
    os.kill(init_of(daemon, box), signal.SIGKILL)
    wait_for(lambda: daemon.inspect(box)["state"] == "stopped", "its end is noticed")
    running(daemon, box, "web")


@pytest.mark.parametrize("how", ["kill -9", "exit 1", "exit 0"])
def test_a_service_that_ends_is_started_again(daemon, box, how):
    command = "echo run; while ! rm /tmp/end 2>/dev/null; do sleep 0.02; done; " + ("kill -9 $$" if "kill" in how else how)
    start(daemon, box, command, service=True, processId="s")
    for runs in (1, 2, 3):
        wait_for(lambda n=runs: log(daemon, box, "s") == "run\n" * n, f"run {runs}, with the log of those before")
        running(daemon, box, "s")
        assert get(daemon, box, "s")["restarts"] == runs - 1
        daemon.execute(box, "touch /tmp/end")


def test_a_service_that_runs_out_of_memory_is_started_again(daemon, box):
    daemon.request("PUT", box_path(box), {"limits": {"memory": 64 << 20}})
    start(daemon, box, "echo run; while ! rm /tmp/eat 2>/dev/null; do sleep 0.02; done; exec tail /dev/zero", service=True, processId="s")
    wait_for(lambda: log(daemon, box, "s") == "run\n", "it runs")
    daemon.execute(box, "touch /tmp/eat")
    wait_for(lambda: log(daemon, box, "s") == "run\nrun\n", "it runs again")


def test_a_kill_ends_a_service(daemon, box):
    start(daemon, box, LOOP, service=True, processId="s")
    assert api(daemon, box, "DELETE", "process/s").status == 200
    assert get(daemon, box, "s")["status"] == "killed"
    assert "service" not in get(daemon, box, "s")
    assert json.loads(daemon.execute(box, f"cat {FILE}")["stdout"]) == {"services": []}
    stop(daemon, box)
    assert api(daemon, box, "GET", "process/list").json()["processes"] == []


def test_a_service_that_waits_for_its_next_start_can_be_killed(daemon, box):
    start(daemon, box, "exit 1", service=True, processId="s")
    wait_for(lambda: get(daemon, box, "s").get("status") == "failed", "it has ended")
    assert api(daemon, box, "DELETE", "process/s").status == 200
    assert "service" not in get(daemon, box, "s")
    check_error(api(daemon, box, "DELETE", "process/s"), "COMMAND_NOT_FOUND", 404)


def test_kill_all_ends_all_services(daemon, box):
    for i in range(3):
        start(daemon, box, LOOP, service=True, processId=f"s{i}")
    assert api(daemon, box, "DELETE", "process/kill-all").json()["cleanedCount"] == 3
    assert json.loads(daemon.execute(box, f"cat {FILE}")["stdout"]) == {"services": []}


def test_at_most_64_services(daemon, box):
    daemon.request("PUT", box_path(box), {"limits": {"pids": 1000}})
    for i in range(64):
        start(daemon, box, "exec sleep 1000", service=True, processId=f"s{i}")
    check_error(api(daemon, box, "POST", "process/start", {"command": "sleep 1000", "service": True}), "LIMIT_REACHED", 429)
    assert len(json.loads(daemon.execute(box, f"cat {FILE}")["stdout"])["services"]) == 64
    start(daemon, box, "exec sleep 1000", processId="plain")


def test_a_bad_list_harms_nobody(daemon, box):
    good = {"id": "good", "command": "echo good; sleep 1000", "cwd": "/", "env": {}, "keepAlive": False}
    bad = [1, {}, {**good, "id": "a/b"}, {**good, "id": "x", "cwd": "relative"}, {**good, "id": "y", "env": 3},
           {**good, "id": "z", "command": ""}, {**good, "id": "kill-all"}, good, good]
    daemon.execute(box, f"mkdir -p $(dirname {FILE}); cat >{FILE}", stdin=json.dumps({"services": bad}))
    stop(daemon, box)
    assert [p["id"] for p in api(daemon, box, "GET", "process/list").json()["processes"]] == ["good"]
    for text in ("", "not json", "[]", '{"services": 7}', '{"services": [' + '[' * 1000, "x" * (1 << 20)):
        daemon.execute(box, f"cat >{FILE}", stdin=text)
        stop(daemon, box)
        assert daemon.execute(box, "echo well")["stdout"] == "well\n"
    daemon.execute(box, f"rm {FILE}; mkfifo {FILE}")
    stop(daemon, box)
    assert daemon.execute(box, "echo well")["stdout"] == "well\n"


def test_a_service_whose_directory_is_gone_waits_for_it(daemon, box):
    daemon.execute(box, "mkdir /opt/app")
    start(daemon, box, LOOP, service=True, processId="s", cwd="/opt/app")
    daemon.execute(box, "rmdir /opt/app")
    stop(daemon, box)
    daemon.execute(box, "mkdir /opt/app")
    running(daemon, box, "s")


def test_the_fields_must_be_booleans(daemon, box):
    for field in ("service", "keepAlive"):
        check_error(api(daemon, box, "POST", "process/start", {"command": "true", field: "yes"}), "VALIDATION_FAILED", 400)
