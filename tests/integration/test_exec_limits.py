"""Commands in a box that is at its limits: what can still be answered is, and what cannot is said."""

from atoll import box_path, wait_for
from boxapi import check_error


def test_a_session_that_may_start_no_process_still_runs_builtins(api):
    api.ok("/api/session/create", id="s")
    api.ok("/api/execute", command="X=kept; f() { return 77; }; :", sessionId="s")
    api.call("/api/execute", {"command": "ulimit -u 1; f", "sessionId": "s"})
    assert api.ok("/api/execute", command="echo $? $X", sessionId="s")["stdout"] == "77 kept\n"


FILL = """import os, time
while True:  # whoever ends makes room for one more
    try:
        if os.fork() == 0:
            time.sleep(600)
    except OSError:
        time.sleep(0.001)
"""


def test_a_box_full_of_processes_says_so_and_deleting_the_session_helps(api):
    api.ok("/api/write", path="/workspace/fill.py", content=FILL)
    api.ok("/api/execute", command="python3 fill.py & :", sessionId="full")

    def answer():
        return api.call("/api/execute", {"command": "/bin/true", "sessionId": "__DISABLE_SESSION__"})

    reply = wait_for(lambda: (r := answer()).status != 200 and r, "the box is full")
    error = check_error(reply, "COMMAND_EXECUTION_ERROR", 500)
    assert "as many processes as it may have" in error["message"], error
    assert api.ok("/api/execute", command="echo builtin", sessionId="full")["stdout"] == "builtin\n"
    api.ok("/api/session/delete", sessionId="full")
    wait_for(lambda: answer().status == 200, "its processes have gone with the session")


def test_a_time_limit_among_the_boxs_variables(daemon, box, api):
    daemon.request("PUT", box_path(box), {"env": {"COMMAND_TIMEOUT_MS": "200"}})
    error = api.fails("/api/execute", "COMMAND_EXECUTION_ERROR", 500, command="sleep 61", sessionId="s")
    assert "Command timeout after 200ms" in error["message"]
    api.ok("/api/session/create", id="own", commandTimeoutMs=300)
    error = api.fails("/api/execute", "COMMAND_EXECUTION_ERROR", 500, command="sleep 61", sessionId="own")
    assert "Command timeout after 300ms" in error["message"]
    assert api.ok("/api/execute", command="sleep 0.5; echo own", sessionId="own", timeoutMs=60000)["stdout"] == "own\n"
    daemon.request("PUT", box_path(box), {"envChanges": {"COMMAND_TIMEOUT_MS": None}})
    assert api.ok("/api/execute", command="sleep 0.5; echo none", sessionId="s")["stdout"] == "none\n"
