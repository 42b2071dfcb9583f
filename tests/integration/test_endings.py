"""Commands that are ended from outside while a program of them ignores the signal: nothing lives on unseen, no status is early."""

import pytest
from atoll import wait_for
from boxapi import NO_SESSION
from test_process_kill import ended, get, in_thread, kill, start

# Survives every signal but SIGKILL, until /tmp/go is there; then it ends with 7.
DEAF = "trap '' HUP INT QUIT USR1 USR2 ALRM TERM; touch /tmp/up; until [ -e /tmp/go ]; do sleep 0.05; done; exit 7"
# The program itself, under a shell, under a shell with a session of its own.
FORMS = ["bash /workspace/deaf.sh", "cd /tmp; bash /workspace/deaf.sh; true", "setsid bash /workspace/deaf.sh & wait"]


@pytest.fixture
def deaf(api):
    """The script is there, and so is the shell of the session "s"."""
    api.put("/workspace/deaf.sh", DEAF.encode())
    api.ok("/api/execute", command="cd /workspace", sessionId="s")


def at_work(api):
    wait_for(lambda: api.run("test -e /tmp/up")["exitCode"] == 0, "the script is at work")


def left(api):
    return api.run("pgrep -f '^bash /workspace/deaf.sh'")["exitCode"] == 0


def shell_gone(api, pid):
    wait_for(lambda: api.run(f"kill -0 {get(api, pid)['pid']}")["exitCode"], "the shell above the program has ended")


@pytest.mark.parametrize("signal", ["HUP", "QUIT", "USR1", "ALRM"])
def test_a_process_whose_shell_dies_of_a_signal_runs_on_with_its_program(api, deaf, signal):
    pid = start(api, "bash /workspace/deaf.sh", sessionId="s")
    at_work(api)
    assert kill(api, pid, f"?signal={signal}").status == 200
    shell_gone(api, pid)
    assert left(api) and get(api, pid)["status"] == "running"
    api.sh("touch /tmp/go")
    p = ended(api, pid)
    assert (p["status"], p["exitCode"]) == ("failed", 7) and not left(api)


def test_such_a_process_can_still_be_killed(api, deaf):
    pid = start(api, "bash /workspace/deaf.sh", sessionId="s")
    at_work(api)
    for signal in ("USR1", "USR2", "HUP", "ALRM") * 5:  # the shell dies of one while others come
        assert kill(api, pid, f"?signal={signal}").status == 200
    shell_gone(api, pid)  # one that still waits for the program would reap it, and then die of the first signal
    assert kill(api, pid, "?signal=KILL").status == 200
    assert not left(api)
    assert (get(api, pid)["status"], get(api, pid)["exitCode"]) == ("killed", 137)


def test_a_shell_that_handles_a_signal_ends_as_it_likes(api):
    """Also when it leaves a child behind."""
    pid = start(api, "trap 'x=1' USR1; touch /tmp/up; until [ \"$x\" ]; do sleep 0.02; done; sleep 300 & exit 3", sessionId=NO_SESSION)
    at_work(api)
    assert kill(api, pid, "?signal=USR1").status == 200
    p = ended(api, pid)
    assert (p["status"], p["exitCode"]) == ("failed", 3)
    wait_for(lambda: api.run("pgrep -x sleep")["exitCode"] == 0, "the child that was left behind")  # it may be on its way to exec


@pytest.mark.parametrize("session", ["s", "new", NO_SESSION])
@pytest.mark.parametrize("command", FORMS)
def test_the_command_of_a_cancelled_stream_ends(api, deaf, session, command):
    with api.stream("/api/execute/stream", command=command, sessionId=session):
        at_work(api)
    wait_for(lambda: not left(api), "nothing of the command is left")


@pytest.mark.parametrize("session", ["s", NO_SESSION])
def test_a_command_cleans_up_when_its_stream_is_cancelled(api, deaf, session):
    # Programs that its trap starts do not get the signal. The many others take the agent a while, in which the trap is at work.
    trap = "for i in $(seq 40); do /bin/rm /tmp/mess/$i || exit; done; /bin/rmdir /tmp/mess; exit"
    command = f"trap '{trap}' HUP; mkdir /tmp/mess; (cd /tmp/mess; touch $(seq 40)); " \
              "for i in $(seq 150); do sleep 300 & done; touch /tmp/up; wait"
    api.put("/workspace/mess.sh", command.encode())
    with api.stream("/api/execute/stream", command="bash /workspace/mess.sh", sessionId=session):
        at_work(api)
    wait_for(lambda: api.run("test -e /tmp/mess")["exitCode"], "the command has cleaned up")


@pytest.mark.parametrize("command", FORMS)
def test_a_deleted_session_ends_its_streams(api, deaf, command):
    with api.stream("/api/execute/stream", command=command, sessionId="s") as s, \
            api.stream("/api/execute/stream", command="echo up; read x", sessionId="other") as other:
        at_work(api)
        other.until(lambda e: e["type"] == "stdout")
        api.ok("/api/session/delete", sessionId="s")
        last = s.until(lambda e: e["type"] != "start")[-1]
        assert (last["type"], last["error"]) == ("error", "Session 's' was destroyed") and not left(api)


@pytest.mark.parametrize("session", ["s", "new"])
@pytest.mark.parametrize("command", FORMS)
def test_a_deleted_session_ends_its_command(api, deaf, session, command):
    t, answer = in_thread(lambda: api.call("/api/execute", {"command": command, "sessionId": session}))
    at_work(api)
    api.ok("/api/session/delete", sessionId=session)
    t.join()
    assert (answer[0].status, answer[0].json()["code"]) == (410, "SESSION_DESTROYED")
    wait_for(lambda: not left(api), "nothing of the command is left")


def test_jobs_of_earlier_commands_that_asked_to_stay_do(api, deaf):
    api.ok("/api/execute", command="nohup sleep 301 >/dev/null 2>&1 &", sessionId="s")
    wait_for(lambda: api.run("pgrep -fx 'sleep 301'")["exitCode"] == 0, "the job runs")
    t, _ = in_thread(lambda: api.call("/api/execute", {"command": "bash /workspace/deaf.sh", "sessionId": "s"}))
    at_work(api)
    api.ok("/api/session/delete", sessionId="s")
    t.join()
    wait_for(lambda: not left(api), "the command has ended")
    assert api.run("pgrep -fx 'sleep 301'")["exitCode"] == 0
