"""Ends of background processes that were asked for: which signal, the whole tree, also before the start, and many at once."""

import threading
import urllib.parse

import pytest
from atoll import wait_for
from boxapi import NO_SESSION, check_error


def start(api, command, **fields):
    return api.ok("/api/process/start", command=command, **fields)["processId"]


def get(api, pid):
    return api.call(f"/api/process/{urllib.parse.quote(pid, safe='')}", method="GET").json()["process"]


def kill(api, pid, query=""):
    return api.call(f"/api/process/{pid}{query}", method="DELETE")


def ended(api, pid):
    with api.get_stream(f"/api/process/{pid}/stream") as s:
        s.until(lambda e: e["type"] == "exit")
    return get(api, pid)


def in_thread(call):
    """Runs it beside; the answer is in the list once the thread has ended."""
    answer = []
    t = threading.Thread(target=lambda: answer.append(call()))
    t.start()
    return t, answer


@pytest.fixture
def busy(api):
    """A session whose shell is at work until /tmp/go is there."""
    api.ok("/api/execute", command="cd /", sessionId="busy")
    t, _ = in_thread(lambda: api.call("/api/execute", {"command": "touch /tmp/at-work; until [ -e /tmp/go ]; do sleep 0.02; done",
                                                       "sessionId": "busy"}))
    wait_for(lambda: api.run("test -e /tmp/at-work")["exitCode"] == 0, "the session is at work")
    yield "busy"
    api.sh("touch /tmp/go")
    t.join()


def waiting(api, session, pid, **fields):
    """A process that waits for its turn in a session: the thread that starts it, and what the start will answer."""
    t, answer = in_thread(lambda: api.call("/api/process/start", {"command": "sleep 300", "sessionId": session, "processId": pid, **fields}))
    wait_for(lambda: api.call(f"/api/process/{pid}", method="GET").status == 200, "it is known")
    assert get(api, pid)["status"] == "starting"
    return t, answer


@pytest.mark.parametrize("query, code", [("", 143), ("?signal=KILL", 137), ("?signal=SIGINT", 130)])
def test_one_that_has_not_started_yet_never_will(api, busy, query, code):
    t, answer = waiting(api, busy, "late")
    with api.get_stream("/api/process/late/stream") as s:
        assert kill(api, "late", query).status == 200
        assert s.until(lambda e: e["type"] == "exit")[-1]["exitCode"] == code
    t.join()
    check_error(answer[0], "PROCESS_ERROR", 500)
    p = get(api, "late")
    assert (p["status"], p["exitCode"], p["outcome"]) == ("killed", code, "killed")
    api.sh("touch /tmp/go")
    assert api.ok("/api/execute", command="pgrep -x sleep | wc -l", sessionId=busy)["stdout"] == "0\n"


def test_kill_all_takes_those_that_wait_too(api, busy):
    running = start(api, "sleep 300", sessionId=NO_SESSION)
    t, answer = waiting(api, busy, "late")
    assert api.call("/api/process/kill-all", method="DELETE").json()["cleanedCount"] == 2
    t.join()
    check_error(answer[0], "PROCESS_ERROR", 500)
    assert {get(api, p)["status"] for p in (running, "late")} == {"killed"}


def test_who_follows_one_that_cannot_start_sees_why(api, busy):
    t, answer = waiting(api, busy, "nowhere", cwd="/nope")
    with api.get_stream("/api/process/nowhere/stream") as s:
        s.until(lambda e: e["type"] == "process_info")
        api.sh("touch /tmp/go")
        seen = s.until(lambda e: e["type"] == "exit")
    t.join()
    error = check_error(answer[0], "PROCESS_ERROR", 500)
    assert [e["data"] for e in seen if e["type"] == "stderr"] == [error["message"] + "\n"]
    p = get(api, "nowhere")
    assert (p["status"], p["exitCode"], p["outcome"]) == ("error", 1, "lost")


def test_a_deaf_child_with_a_session_of_its_own_is_killed_with_its_parent(api):
    # SIGTERM ends the parent at once: from then on nothing but our memory ties the child to it.
    pid = start(api, "setsid sh -c 'trap \"\" TERM; echo $$; while :; do sleep 0.05; done' & wait")
    child = wait_for(lambda: api.call(f"/api/process/{pid}/logs", method="GET").json()["stdout"].strip(), "the child runs")
    assert kill(api, pid).status == 200
    assert api.run(f"kill -0 {child}")["exitCode"] != 0


def test_an_orphan_in_the_session_of_a_descendant_is_killed_with_it(api):
    pid = start(api, "setsid bash -c '(sleep 301 &); echo up; sleep 302' & wait", sessionId=NO_SESSION)
    wait_for(lambda: api.call(f"/api/process/{pid}/logs", method="GET").json()["stdout"] == "up\n", "it runs")
    assert kill(api, pid).status == 200
    assert api.run("pgrep -x sleep")["exitCode"] != 0


@pytest.mark.parametrize("signal, status, code", [("INT", "killed", 130), ("sighup", "killed", 129), ("3", "killed", 131),
                                                  ("64", "killed", 192)])
def test_one_that_dies_of_the_signal_it_was_sent_was_killed(api, signal, status, code):
    pid = start(api, "sleep 300", sessionId=NO_SESSION)  # executed directly: a bash before its exec ignores SIGQUIT
    assert kill(api, pid, f"?signal={signal}").status == 200
    p = ended(api, pid)
    assert (p["status"], p["exitCode"]) == (status, code)


@pytest.mark.parametrize("signal", ["0", "65", "-9", "9x", "SIG", "SIGNOPE", "%20"])
def test_what_is_no_signal_kills_nobody(api, signal):
    pid = start(api, "exec sleep 300")
    check_error(kill(api, pid, f"?signal={signal}"), "VALIDATION_FAILED", 400)
    assert get(api, pid)["status"] == "running"


def test_two_hundred_are_killed_at_once(api):
    for i in range(200):
        start(api, "exec sleep 300", processId=f"p{i}", sessionId=NO_SESSION)
    assert api.call("/api/process/kill-all", method="DELETE").json()["cleanedCount"] == 200
    assert api.sh("pgrep -x sleep | wc -l") == "0\n"
    assert api.call("/api/process/cleanup").json()["cleanedCount"] == 200


@pytest.mark.parametrize("bad", ["a\0b", "a/b", ".", "..", "list", "kill-all", "start", "cleanup", "x" * 129])
def test_ids_without_an_address_are_refused(api, bad):
    api.invalid("/api/process/start", "processId", command="true", processId=bad)
    assert api.call("/api/process/list", method="GET").json()["processes"] == []


@pytest.mark.parametrize("odd", [" ", "ü", "%2f", "a?b", "a#b", "'\"\\", "\n", "-", "x" * 128])
def test_odd_ids_have_one(api, odd):
    assert start(api, "echo hi; exec sleep 300", processId=odd) == odd
    where = "/api/process/" + urllib.parse.quote(odd, safe="")
    wait_for(lambda: api.call(where + "/logs", method="GET").json()["stdout"] == "hi\n", "its output")
    assert get(api, odd)["id"] == odd
    assert api.call(where, method="DELETE").status == 200


# ---- the end is the end of everything, with the code of the program

STUBBORN = "trap '' TERM; touch /tmp/up; while :; do sleep 0.2; done"
ORDERLY = "trap 'trap : TERM; echo going; sleep 0.3; echo gone; exit 7' TERM; touch /tmp/up; while :; do sleep 0.02; done"


def script(api, text):
    """A process of a session whose shell exists runs the script, and the script is at work."""
    api.put("/workspace/t.sh", text.encode())
    api.ok("/api/execute", command="cd /workspace", sessionId="s")
    pid = start(api, "bash /workspace/t.sh", sessionId="s")
    wait_for(lambda: api.run("test -e /tmp/up")["exitCode"] == 0, "the script is at work")
    return pid


def left(api):
    return api.run("pgrep -f t.sh")["exitCode"] == 0


def test_a_process_runs_until_nothing_of_it_is_left(api):
    pid = script(api, STUBBORN)
    t, answer = in_thread(lambda: kill(api, pid))
    wait_for(lambda: get(api, pid)["status"] != "running", "it is killed")
    assert not left(api)
    t.join()
    assert answer[0].status == 200
    p = get(api, pid)
    assert (p["status"], p["exitCode"], p["outcome"]) == ("killed", 137, "killed")


def test_the_code_and_the_last_words_are_those_of_the_program(api):
    pid = script(api, ORDERLY)
    assert kill(api, pid).status == 200
    p = get(api, pid)
    assert (p["status"], p["exitCode"]) == ("killed", 7) and not left(api)
    assert api.call(f"/api/process/{pid}/logs", method="GET").json()["stdout"] == "going\ngone\n"


def test_the_end_of_the_stream_comes_with_the_end_of_the_program(api):
    pid = script(api, ORDERLY)
    with api.get_stream(f"/api/process/{pid}/stream") as s:
        t, _ = in_thread(lambda: kill(api, pid))
        events = s.until(lambda e: e["type"] == "exit")
        t.join()
    assert events[-1]["exitCode"] == 7
    assert "".join(e["data"] for e in events if e["type"] == "stdout") == "going\ngone\n"


def test_kill_all_waits_for_programs_under_a_shell(api):
    pid = script(api, ORDERLY)
    assert api.call("/api/process/kill-all", method="DELETE").json()["cleanedCount"] == 1
    assert (get(api, pid)["status"], get(api, pid)["exitCode"], left(api)) == ("killed", 7, False)


def test_one_that_starts_children_keeps_its_own_code(api):
    """The process is the program itself: no child speaks for it."""
    pid = start(api, "python3 -c 'import subprocess,time; open(\"/tmp/up\",\"w\"); subprocess.run([\"sh\",\"-c\",\"trap \\\"exit 9\\\" TERM; "
                "while :; do sleep 0.02; done\"])'", sessionId=NO_SESSION)
    wait_for(lambda: api.run("test -e /tmp/up")["exitCode"] == 0, "it is at work")
    assert kill(api, pid).status == 200
    assert (get(api, pid)["status"], get(api, pid)["exitCode"]) == ("killed", 143)


# ---- with its session


def test_a_deleted_session_takes_its_processes_along(api):
    mine = script(api, ORDERLY)
    other = start(api, "sleep 300", sessionId="other")
    assert api.ok("/api/session/delete", sessionId="s")["sessionId"] == "s"
    assert (get(api, mine)["status"], get(api, mine)["exitCode"], left(api)) == ("killed", 7, False)
    assert get(api, other)["status"] == "running"
    assert kill(api, other).status == 200


def test_a_deleted_session_takes_those_along_that_wait_for_it(api, busy):
    t, answer = waiting(api, busy, "late")
    assert api.call("/api/session/delete", {"sessionId": busy}).status == 200
    t.join()
    assert answer[0].status == 410 and answer[0].json()["code"] == "SESSION_DESTROYED", answer[0]
