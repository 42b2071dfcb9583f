"""atoll-agent alone: what it answers, how it runs a command, how it ends."""

import contextlib
import json
import os
import signal
import socket
import subprocess
import threading

import pytest
from agentlib import AGENT, Agent, together
from atoll import alive, wait_for

pytestmark = pytest.mark.skipif(not os.access(AGENT, os.X_OK), reason=f"{AGENT} is not built")
SESSIONLESS = "__DISABLE_SESSION__"


@pytest.fixture
def own_agent():
    a = Agent()
    yield a
    a.close()


# ---- surroundings


def test_root_answers_so_that_probes_see_it_is_up(agent):
    r = agent.call("GET", "/", headers={"Host": "containerstarthealthcheck"})
    assert r.status == 200 and r.headers["Content-Type"].startswith("text/plain")


def test_ping_and_version_have_upstreams_shape(agent):
    ping = agent.call("GET", "/api/ping").json()
    assert ping["success"] is True and ping["status"] == "healthy" and ping["timestamp"].endswith("Z")
    version = agent.call("GET", "/api/version").json()
    assert version["success"] is True and version["version"] == "0.12.10"


def test_every_command_knows_the_version(agent):
    assert agent.run("echo $SANDBOX_VERSION")["stdout"] == "0.12.10\n"
    assert agent.run("echo $SANDBOX_VERSION", sessionId="__DISABLE_SESSION__")["stdout"] == "0.12.10\n"


def test_version_is_what_the_image_says():
    a = Agent(env={"SANDBOX_VERSION": "9.9.9"})
    try:
        assert a.call("GET", "/api/version").json()["version"] == "9.9.9"
    finally:
        a.close()


def test_unknown_path_is_upstreams_404(agent):
    r = agent.call("GET", "/api/nope")
    e = r.json()
    assert r.status == 404 and e["code"] == "UNKNOWN_ERROR" and e["httpStatus"] == 404
    assert e["message"] == "The requested endpoint was not found" and e["context"] == {}


def test_wrong_method_is_405_with_allow(agent):
    r = agent.call("GET", "/api/execute")
    assert r.status == 405 and r.headers["Allow"] == "POST" and r.json()["code"] == "METHOD_NOT_ALLOWED"


def test_head_is_answered_like_get(agent):
    r = agent.call("HEAD", "/api/ping")
    assert r.status == 200 and r.body == b""


@pytest.mark.parametrize("text, where", [('{"command":\n  x}', "line 2 column 3"), ("", "line 1"), ("[1", "line 1")])
def test_bad_json_names_line_and_column(agent, text, where):
    r = agent.post("/api/execute", text)
    assert r.status == 400 and r.json()["code"] == "INVALID_JSON" and where in r.json()["message"]


def test_json_that_is_no_object_is_refused(agent):
    assert agent.post("/api/execute", "[1]").status == 400


@pytest.mark.parametrize("body, code, status", [
    ({}, "INVALID_COMMAND", 400),
    ({"command": ""}, "INVALID_COMMAND", 400),
    ({"command": " \n\t"}, "INVALID_COMMAND", 400),
    ({"command": "a\0b"}, "INVALID_COMMAND", 400),
    ({"command": 7}, "VALIDATION_FAILED", 400),
    ({"command": "true", "timeoutMs": -1}, "VALIDATION_FAILED", 400),
    ({"command": "true", "timeoutMs": "1"}, "VALIDATION_FAILED", 400),
    ({"command": "true", "timeoutMs": 1e18}, "VALIDATION_FAILED", 400),
    ({"command": "true", "cwd": 1}, "VALIDATION_FAILED", 400),
    ({"command": "true", "cwd": "/a\0b"}, "VALIDATION_FAILED", 400),
    ({"command": "true", "cwd": "/" + "a" * 4096}, "VALIDATION_FAILED", 400),
    ({"command": "true", "env": []}, "VALIDATION_FAILED", 400),
    ({"command": "true", "env": {"A": 1}}, "VALIDATION_FAILED", 400),
    ({"command": "true", "env": {"A": "x\0y"}}, "VALIDATION_FAILED", 400),
    ({"command": "true", "env": {"A-B": "1"}}, "COMMAND_EXECUTION_ERROR", 500),
    ({"command": "true", "env": {"": "1"}}, "COMMAND_EXECUTION_ERROR", 500),
    ({"command": "true", "sessionId": "s" * 257}, "VALIDATION_FAILED", 400),
    ({"command": "true", "stdin": "*", "stdinEncoding": "base64"}, "VALIDATION_FAILED", 400),
    ({"command": "true", "encoding": "latin1"}, "VALIDATION_FAILED", 400),
    ({"command": "true", "background": "yes"}, "VALIDATION_FAILED", 400),
])
def test_a_bad_member_is_refused_by_name(agent, body, code, status):
    r = agent.post("/api/execute", body)
    assert (r.status, r.json()["code"]) == (status, code), r.body
    if code == "VALIDATION_FAILED":
        field = list(body)[1] if len(body) > 1 else "command"
        assert [v["field"] for v in r.json()["context"]["validationErrors"]] == [field], r.body


def test_a_page_of_another_origin_is_refused(agent):
    assert agent.call("GET", "/", headers={"Sec-Fetch-Site": "cross-site"}).status == 403
    assert agent.call("GET", "/", headers={"Sec-Fetch-Site": "same-origin"}).status == 200


# ---- results


def test_result_has_upstreams_shape(agent):
    r = agent.run("echo out; echo err >&2; exit 3", sessionId=SESSIONLESS)
    assert r["success"] is False and r["exitCode"] == 3 and r["stdout"] == "out\n" and r["stderr"] == "err\n"
    assert r["command"] == "echo out; echo err >&2; exit 3" and r["sessionId"] == SESSIONLESS
    assert isinstance(r["duration"], int) and r["timestamp"].endswith("Z") and r["outcome"] == "exited"


@pytest.mark.parametrize("headers, query, want", [
    ({}, "", "default"),
    ({"X-Session-Id": "hx"}, "", "hx"),
    ({"Authorization": "Bearer ab", "X-Session-Id": "hx"}, "", "ab"),
    ({}, "?session=q%201", "q 1"),
    ({}, "?sessionId=q2", "q2"),
])
def test_session_id_comes_from_head_or_query_when_the_body_has_none(agent, headers, query, want):
    r = agent.post("/api/execute" + query, {"command": "/bin/true"}, headers=headers)
    assert r.json()["sessionId"] == want


def test_duration_is_the_time_it_took(agent):
    assert agent.run("sleep 0.2")["duration"] >= 200


def test_output_is_byte_exact(agent):
    assert agent.run("printf 'no newline'")["stdout"] == "no newline"
    assert agent.run("printf 'a\\r\\n\\n'")["stdout"] == "a\r\n\n"


def test_bytes_that_are_no_text_survive_as_base64_and_become_fffd_as_text(agent):
    command = "printf 'a\\000b\\377\\303c'"
    assert agent.run(command)["stdout"] == "a\0b\ufffd\ufffdc"
    r = agent.run(command, encoding="base64")
    assert r["stdout"] == "YQBi/8Nj" and r["encoding"] == "base64"


def test_stdin_is_empty_unless_given(agent):
    assert agent.run("cat")["stdout"] == ""
    assert agent.run("cat", stdin="hé\n")["stdout"] == "hé\n"
    assert agent.run("od -An -tx1", stdin="AP8=", stdinEncoding="base64")["stdout"] == " 00 ff\n"


def test_a_large_stdin_reaches_a_command_that_reads_slowly(agent):
    text = "x" * 1_000_000
    assert agent.run("sleep 0.1; wc -c", stdin=text)["stdout"].strip() == "1000000"


def test_stdin_that_nobody_reads_harms_nobody(agent):
    assert agent.run("true", stdin="x" * 1_000_000)["exitCode"] == 0


def test_env_is_for_one_command_and_null_unsets(agent):
    r = agent.run("echo $A-$HOME-$LANG", env={"A": "a b", "HOME": None}, sessionId=SESSIONLESS)
    assert r["stdout"] == "a b--C.UTF-8\n"
    assert agent.run("echo -$A-", sessionId=SESSIONLESS)["stdout"] == "--\n"


def test_cwd_is_for_one_command(agent):
    assert agent.run("pwd", cwd="/usr")["stdout"] == "/usr\n"
    assert agent.run("/bin/pwd", cwd="/usr")["stdout"] == "/usr\n"


@pytest.mark.parametrize("command", ["pwd", "/bin/pwd"])
@pytest.mark.parametrize("session", ["cwd-missing", SESSIONLESS])
def test_a_missing_cwd_fails_in_upstreams_words(agent, command, session):
    r = agent.run(command, cwd="/nope", sessionId=session)
    assert r["exitCode"] == 1 and r["stderr"] == "Failed to change directory to '/nope'\n" and r["stdout"] == ""


def test_unknown_command_is_127(agent):
    r = agent.run("no-such-program")
    assert r["exitCode"] == 127 and "command not found" in r["stderr"]


def test_death_by_signal_is_128_and_more(agent):
    r = agent.run("kill -SEGV $$", sessionId=SESSIONLESS)
    assert r["exitCode"] == 139 and r["outcome"] == "killed" and r["signal"] == "SIGSEGV"


def test_a_program_that_dies_by_signal_without_a_shell_between(agent):
    r = agent.run("/usr/bin/python3 -c import.os,signal", sessionId=SESSIONLESS)
    assert r["exitCode"] == 1
    r = agent.run("/usr/bin/timeout -s KILL 0.05 sleep 5", sessionId=SESSIONLESS)
    assert r["exitCode"] == 137


def test_children_get_three_descriptors_and_default_signals(agent):
    assert agent.run("ls /proc/self/fd", sessionId=SESSIONLESS)["stdout"] == "0\n1\n2\n3\n"
    for command in ("grep -E Sig(Blk|Ign|Cgt) /proc/self/status", "cat /proc/self/status"):
        status = agent.run(command, sessionId=SESSIONLESS)["stdout"]
    fields = dict(line.split(":\t") for line in status.splitlines() if line.startswith("Sig"))
    assert int(fields["SigBlk"], 16) == 0 and int(fields["SigIgn"], 16) == 0


def test_plain_commands_see_what_bash_would_show_them(agent):
    env = dict(line.split("=", 1) for line in agent.run("env", sessionId=SESSIONLESS, cwd="/usr")["stdout"].splitlines())
    shell = dict(line.split("=", 1) for line in
                 agent.run("env; true", sessionId=SESSIONLESS, cwd="/usr")["stdout"].splitlines())
    assert env.pop("_") == "/usr/bin/env"
    shell.pop("_")
    shell.pop("OLDPWD", None)
    assert env == shell


def test_a_script_without_interpreter_line_runs_as_in_bash(agent):
    path = os.path.join(agent.dir, "script")
    with open(path, "w", encoding="ascii") as f:
        f.write("echo from script $1\n")
    os.chmod(path, 0o755)
    assert agent.run(f"{path} one")["stdout"] == "from script one\n"
    os.chmod(path, 0o644)
    r = agent.run(path)
    assert r["exitCode"] == 126 and "Permission denied" in r["stderr"]


# ---- time


def test_timeout_in_a_session_is_upstreams_error_with_what_was_printed(agent):
    r = agent.post("/api/execute", {"command": "echo before; sleep 60", "timeoutMs": 1000, "sessionId": "t-o"})
    e = r.json()
    assert r.status == 500 and e["code"] == "COMMAND_EXECUTION_ERROR" and "timeout after 1000ms" in e["message"]
    assert e["context"]["stdout"] == "before\n" and e["context"]["outcome"] == "timeout"


def test_timeout_without_a_session_is_exit_124(agent):
    r = agent.run("echo before; sleep 60", timeoutMs=1000, sessionId=SESSIONLESS)
    assert r["exitCode"] == 124 and r["stderr"] == "Command timed out after 1000ms\n" and r["stdout"] == "before\n"
    assert r["outcome"] == "timeout" and 990 <= r["duration"] < 60_000


def test_a_timeout_may_have_a_fraction_as_numbers_of_javascript_do(agent):
    r = agent.run("sleep 61", sessionId="__DISABLE_SESSION__", timeoutMs=100.5)
    assert (r["exitCode"], r["stderr"]) == (124, "Command timed out after 101ms\n")
    assert agent.run("echo ok", timeoutMs=60000.25)["stdout"] == "ok\n"


def test_timeout_kills_everything_the_command_started(agent):
    pidfile = os.path.join(agent.dir, "pids")
    command = (f"for i in 1 2; do sleep 61 & echo $! >>{pidfile}; done; (sleep 61 & echo $! >>{pidfile}); "
               f"setsid sh -c 'echo $$ >>{pidfile}; exec sleep 61' & trap '' TERM INT HUP; wait; sleep 61; sleep 61")
    r = agent.run(command, timeoutMs=2000, sessionId=SESSIONLESS)
    assert r["outcome"] == "timeout"
    with open(pidfile, encoding="ascii") as f:
        pids = [int(p) for p in f.read().split()]
    assert len(pids) == 4
    wait_for(lambda: not any(alive(p) for p in pids))


def test_no_timeout_when_it_is_zero_or_null(agent):
    assert agent.run("sleep 0.05", timeoutMs=0)["exitCode"] == 0
    assert agent.run("sleep 0.05", timeoutMs=None)["exitCode"] == 0


# ---- output


def test_two_hundred_megabytes_in_constant_memory(own_agent):
    size = 200_000_000
    own_agent.run("true")
    c = own_agent.connect()
    c.request("POST", "/api/execute", json.dumps({"command": f"head -c {size} /dev/zero | tr '\\0' x"}))
    r = c.getresponse()
    seen = 0
    while chunk := r.read(1 << 20):
        seen += chunk.count(b"x")
    c.close()
    assert seen - size in range(0, 10)  # the command's own text holds a few
    assert own_agent.rss_kb("VmHWM") < 2048


def test_stdout_and_stderr_both_long(agent):
    r = agent.run("for i in 1 2 3; do head -c 100000 /dev/zero | tr '\\0' o; head -c 100000 /dev/zero | tr '\\0' e >&2; done")
    assert r["stdout"] == "o" * 300000 and r["stderr"] == "e" * 300000


def test_utf8_is_whole_across_pieces_of_long_output(agent):
    r = agent.run("/usr/bin/python3 -c 'print(\"x\" + \"é€😀\" * 50000, end=\"\")'")
    assert r["stdout"] == "x" + "é€😀" * 50000


def test_a_background_child_does_not_hold_the_answer_and_lives_on(agent):
    done, go = (os.path.join(agent.dir, name) for name in ("bg", "bg-go"))
    r = agent.run(f"(until [ -e {go} ]; do sleep 0.01; done; echo late; echo late; echo done >{done}) & echo now", sessionId=SESSIONLESS)
    assert r["stdout"] == "now\n"
    open(go, "w", encoding="ascii").close()
    wait_for(lambda: os.path.exists(done))  # writing to the pipe did not kill it


def test_a_client_that_goes_away_does_not_stop_the_command(agent):
    begun, go, done = (os.path.join(agent.dir, name) for name in ("gone-begun", "gone-go", "gone"))
    body = json.dumps({"command": f": >{begun}; until [ -e {go} ]; do sleep 0.01; done; echo x >{done}"}).encode()
    s = socket.create_connection(("127.0.0.1", agent.port))
    s.sendall(b"POST /api/execute HTTP/1.1\r\nHost: x\r\nContent-Length: %d\r\n\r\n" % len(body) + body)
    wait_for(lambda: os.path.exists(begun))
    s.close()
    assert agent.run("echo ok", sessionId=SESSIONLESS)["stdout"] == "ok\n"
    open(go, "w", encoding="ascii").close()
    wait_for(lambda: os.path.exists(done))
    assert agent.run("echo ok")["stdout"] == "ok\n"


# ---- the supervisor


def command_of(pid):
    with contextlib.suppress(OSError), open(f"/proc/{pid}/comm", encoding="utf-8") as f:
        return f.read().strip()


def test_orphans_are_reaped(own_agent):
    own_agent.run("for i in 1 2 3 4 5; do (setsid sleep 61 >/dev/null 2>&1 &) ; done", sessionId=SESSIONLESS)
    # They become children of the agent, and of nobody else.
    wait_for(lambda: [command_of(pid) for pid in own_agent.children()] == ["sleep"] * 5)
    for pid in own_agent.children():
        os.kill(pid, signal.SIGTERM)
    wait_for(lambda: own_agent.children() == [])  # a zombie would be among them


def test_a_hundred_at_once(agent):
    """All are there together: each waits until the last has begun."""
    begun, gate = os.path.join(agent.dir, "begun"), os.path.join(agent.dir, "gate")
    os.mkdir(begun)
    os.mkfifo(gate)
    fd = os.open(gate, os.O_RDWR)

    def one(i):
        return agent.run(f"echo {i}; : >{begun}/{i}; read -r <{gate}", sessionId=SESSIONLESS)["stdout"]

    def release():
        wait_for(lambda: len(os.listdir(begun)) == 100)
        os.write(fd, b"\n" * 100)

    results = together([*(lambda i=i: one(i) for i in range(100)), release])
    os.close(fd)
    assert results[:100] == [f"{i}\n" for i in range(100)]


def test_nothing_is_left_open_after_work(own_agent):
    own_agent.run("true", sessionId=SESSIONLESS)
    before = own_agent.fds()
    for i in range(50):
        own_agent.run("echo $RANDOM; sleep 0.2 &" if i % 10 == 0 else "/bin/true", sessionId=SESSIONLESS)
    wait_for(lambda: own_agent.fds() <= before and own_agent.children() == [])


def test_idle_memory_is_small(own_agent):
    own_agent.run("/bin/true", sessionId=SESSIONLESS)
    assert own_agent.rss_kb() < 2048


def test_it_cannot_be_traced_by_others(agent):
    status = subprocess.run(["setpriv", "--reuid=65534", "--regid=65534", "--clear-groups", "ls", f"/proc/{agent.pid}/fd"],
                            capture_output=True, check=False)
    assert status.returncode != 0
    assert os.stat(f"/proc/{agent.pid}/mem").st_uid == 0


@pytest.mark.parametrize("sig", [signal.SIGTERM, signal.SIGINT])
def test_a_stop_signal_ends_commands_in_order_and_exits_0(sig):
    a = Agent()
    said = os.path.join(a.dir, "said")
    started = os.path.join(a.dir, "started")
    threading.Thread(target=lambda: a.call("POST", "/api/execute", {
        "command": f"trap 'echo term >{said}; exit' TERM; echo >{started}; while :; do sleep 0.02; done",
        "sessionId": SESSIONLESS}), daemon=True).start()
    wait_for(lambda: os.path.exists(started))
    a.process.send_signal(sig)
    assert a.process.wait(60) == 0
    with open(said, encoding="ascii") as f:
        assert f.read() == "term\n"
    a.close()


def test_what_ignores_the_stop_signal_is_killed():
    a = Agent()
    pidfile = os.path.join(a.dir, "pid")
    threading.Thread(target=lambda: pytest.raises(Exception, a.call, "POST", "/api/execute", {
        "command": f"trap '' TERM HUP; echo $$ >{pidfile}; while :; do sleep 1; done", "sessionId": SESSIONLESS}),
        daemon=True).start()
    pid = int(wait_for(lambda: os.path.exists(pidfile) and open(pidfile, encoding="ascii").read()))
    a.process.send_signal(signal.SIGTERM)
    a.process.send_signal(signal.SIGTERM)  # the second one does not wait
    assert a.process.wait(60) == 0
    wait_for(lambda: not alive(pid))
    a.close()


def test_other_signals_are_forwarded_to_what_runs():
    a = Agent()
    said, started = os.path.join(a.dir, "said"), os.path.join(a.dir, "started")
    threading.Thread(target=lambda: a.call("POST", "/api/execute", {
        "command": f"trap 'echo usr1 >{said}; exit' USR1; echo >{started}; while :; do sleep 0.02; done",
        "sessionId": SESSIONLESS}), daemon=True).start()
    wait_for(lambda: os.path.exists(started))
    a.process.send_signal(signal.SIGUSR1)
    wait_for(lambda: os.path.exists(said))
    assert a.close() == 0


def test_bad_arguments_say_what_is_wrong():
    for args, text in ((["serve", "--bogus"], "unknown argument '--bogus'"), (["serve", "--port"], "missing"), ([], "usage")):
        r = subprocess.run([AGENT, *args], capture_output=True, text=True, check=False)
        assert r.returncode == 2 and text in r.stderr
    r = subprocess.run([AGENT, "serve", "--port", "99999"], capture_output=True, text=True, check=False)
    assert r.returncode == 1 and r.stderr.startswith("atoll-agent: ")
    r = subprocess.run([AGENT, "--help"], capture_output=True, text=True, check=False)
    assert r.returncode == 0 and "serve" in r.stdout


def test_a_port_in_use_is_said_in_one_sentence(agent):
    r = subprocess.run([AGENT, "serve", "--port", str(agent.port)], capture_output=True, text=True, check=False)
    assert r.returncode == 1 and "in use" in r.stderr and r.stderr.count("\n") == 1
