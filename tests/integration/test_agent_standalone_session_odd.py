"""Sessions of atoll-agent in odd states: what a command leaves behind in its shell must not change what the next one means."""

import os
import signal
from concurrent.futures import ThreadPoolExecutor

import pytest
from agentlib import AGENT, Agent, Session, joined, open_events
from atoll import wait_for

pytestmark = pytest.mark.skipif(not os.access(AGENT, os.X_OK), reason=f"{AGENT} is not built")


@pytest.fixture
def own_agent():
    a = Agent()
    yield a
    assert a.close() == 0


@pytest.fixture
def s(agent, request):
    """A session of its own, whose shell already runs."""
    session = Session(agent, request.node.name)
    session.run("cd /usr; X=kept; :")
    return session


# ---- variables and directory of one command


@pytest.mark.parametrize("before", ["set -o posix", "eval() { echo mine; }", "set -uo pipefail", "exec() { echo mine; }",
                                    "cd() { echo mine; }; unset() { echo mine; }; test() { echo mine; }"])
@pytest.mark.parametrize("command", ["echo $A; pwd", "echo $A; pwd; return 0", "echo $A; pwd; x=$((0/0))"])
def test_variables_and_directory_of_one_command_never_stay(s, before, command):
    s.run(before)
    r = s.run(command, env={"A": "1", "B": None}, cwd="/etc")
    assert r["stdout"] == "1\n/etc\n"
    assert s.run("echo -${A-}- $X; pwd; echo ${OLDPWD-}")["stdout"] == f"-- kept\n/usr\n{s.agent.dir}\n"


def test_a_variable_that_makes_bash_strict_does_not_stay_either(s):
    assert s.out("echo $A", env={"POSIXLY_CORRECT": "1", "A": "1"}) == "1\n"
    assert s.out("echo -$A-$POSIXLY_CORRECT-; [[ -o posix ]] || echo off") == "---\noff\n"


@pytest.mark.parametrize("declared", ["declare -A V=([k]=\"v\" )", "declare -a V=([5]=\"x\")", "declare -ai V=([0]=\"7\")",
                                      "declare -x V=\"it's\"", "declare -r V=\"1\""])
def test_a_variable_that_is_unset_for_one_command_comes_back_as_it_was(s, declared):
    s.run(declared)
    before = s.out("declare -p V")
    s.run("echo $V", env={"V": None})
    assert s.out("declare -p V") == before


def test_a_session_whose_directory_is_gone_does_not_end_up_in_a_commands_own(s, tmp_path):
    s.run(f"mkdir {tmp_path}/gone; cd {tmp_path}/gone; rmdir {tmp_path}/gone; set -e")
    assert s.out("pwd", cwd="/etc") == "/etc\n"
    assert s.out("readlink /proc/$$/cwd") == f"{tmp_path}/gone (deleted)\n"
    assert s.post("sleep 61", cwd="/etc", timeoutMs=100).status == 500
    assert s.out("readlink /proc/$$/cwd; echo $X") == f"{tmp_path}/gone (deleted)\nkept\n"


def test_a_session_whose_directory_has_another_name_now_goes_back_to_it(s, tmp_path):
    s.run(f"mkdir {tmp_path}/a; cd {tmp_path}/a; mv {tmp_path}/a {tmp_path}/b; mkdir {tmp_path}/a")
    assert s.out("pwd", cwd="/etc") == "/etc\n"
    assert s.out("readlink /proc/$$/cwd") == f"{tmp_path}/b\n"
    s.run("cd /usr; PWD=/var")
    assert s.out("pwd", cwd="/etc") == "/etc\n"
    assert s.out("readlink /proc/$$/cwd") == "/usr\n"


def test_the_way_back_is_not_seen_by_the_command(s):
    assert s.out("ls /proc/self/fd", cwd="/etc") == "0\n1\n2\n3\n"
    before = s.out("echo /proc/$$/fd/*")
    s.run("pwd", cwd="/etc")
    assert s.out("echo /proc/$$/fd/*") == before


@pytest.mark.parametrize("command", ["echo a; }; { echo b", "echo a; } >/dev/null; { echo b", "echo a\n}; exit 3; {\necho b"])
def test_a_text_that_closes_the_group_it_is_put_into_is_an_error_as_in_bash(s, command):
    r = s.run(command, env={"A": "1"})
    assert r["exitCode"] == 2 and "syntax error near unexpected token `}'" in r["stderr"] and "b" not in r["stdout"], r
    assert s.out("echo $X") == "kept\n"


def test_a_job_that_ended_before_is_not_announced_by_a_command_with_a_time_limit(s):
    pid = int(s.out("sleep 0.01 & echo $!"))
    wait_for(lambda: not os.path.exists(f"/proc/{pid}"))
    assert s.run("/bin/true; (exit 3); echo $?", timeoutMs=60000)["stderr"] == ""
    assert s.out(f"wait {pid}; echo $? $-", timeoutMs=60000) == s.out(f"set -m; wait {pid}; echo $? $-; set +m")


# ---- streams


@pytest.mark.parametrize("before,command,out", [
    ("eval() { echo mine; }; exec() { echo mine; }; read() { echo mine; }", "echo $X; exit 3", "kept\n"),
    ("shopt -s expand_aliases; alias greet='echo hello'; set -u", "greet $X; exit 3", "hello kept\n"),
    ("set -o posix; set -e", "echo $X; (exit 3); echo no", "kept\n"),
    ("trap 'echo trapped' DEBUG ERR INT EXIT; set -v", "echo $X; exit 3", "kept\n"),
])
def test_a_stream_has_the_output_of_its_command_whatever_the_session_has_defined(s, before, command, out):
    s.run(before)
    with open_events(s.agent, "POST", "/api/execute/stream", {"command": command, "sessionId": s.name}) as stream:
        events = list(stream)
    assert joined(events, "stdout") == out, events
    assert (events[-1]["type"], events[-1]["exitCode"]) == ("complete", 3), events


# ---- how the shell ended


@pytest.mark.parametrize("command,code,outcome,words", [
    ("exit 137", 137, "exited", "its shell exited (exit code: 137)"),
    ("kill -9 $$", 137, "killed", "its shell was killed by SIGKILL (exit code: 137)"),
    ("kill -SEGV $$", 139, "killed", "its shell was killed by SIGSEGV (exit code: 139)"),
    ("ulimit -f 0; echo x >file", 153, "killed", "its shell was killed by SIGXFSZ (exit code: 153)"),
])
def test_an_exit_is_not_a_signal(s, command, code, outcome, words):
    s.run(f"cd {s.agent.dir}")
    r = s.post(command)
    e = r.json()
    assert (r.status, e["code"]) == (410, "SESSION_TERMINATED") and e["message"].endswith(words), e
    assert (e["context"]["exitCode"], e["context"]["outcome"]) == (code, outcome)
    assert e["context"].get("signal") == (None if outcome == "exited" else signal.Signals(code - 128).name)
    assert s.out("echo -$X-") == "--\n"


def create(agent, name, **members):
    return agent.post("/api/session/create", {"id": name, **members})


@pytest.mark.parametrize("end, code", [("exit 5", 5), ("kill -9 $$", 137)])
def test_a_session_whose_shell_ended_is_gone_with_its_environment(agent, end, code):
    name = f"gone-{code}"
    assert create(agent, name, env={"MINE": "1"}, cwd="/usr", commandTimeoutMs=60000).status == 200
    s = Session(agent, name)
    assert s.out("echo $MINE; pwd") == "1\n/usr\n"
    r = s.post(end)
    assert (r.status, r.json()["code"]) == (410, "SESSION_TERMINATED") and f"exit code: {code}" in r.json()["message"], r.body
    assert name not in agent.call("GET", "/api/session/list").json()["data"]
    assert s.out("echo -$MINE-; pwd") == f"--\n{agent.dir}\n"
    assert create(agent, name).status == 409
    assert agent.post("/api/session/delete", {"sessionId": name}).status == 200


def test_the_name_of_a_session_that_ended_is_free(agent):
    assert create(agent, "again", env={"MINE": "1"}).status == 200
    s = Session(agent, "again")
    assert s.post("exit 1").status == 410
    assert create(agent, "again", env={"MINE": "2"}, cwd="/etc").status == 200
    assert s.out("echo $MINE; pwd") == "2\n/etc\n"


def test_a_command_that_waits_behind_an_exit_runs_in_a_new_session(agent):
    assert create(agent, "queue", env={"MINE": "1"}, cwd="/usr").status == 200
    s = Session(agent, "queue")
    s.run("cd /usr; :")
    gate = os.path.join(agent.dir, "gate")
    os.mkfifo(gate)
    with ThreadPoolExecutor(2) as pool:
        first = pool.submit(s.post, f"read V <{gate}; exit 5")
        with open(gate, "w", encoding="ascii") as f:  # opens when the command reads
            second = pool.submit(s.post, "echo -$MINE-; pwd")
            third = Session(agent, "other")
            third.run(":")
            f.write("go\n")
        assert first.result().status == 410
        assert second.result().json()["stdout"] == f"--\n{agent.dir}\n"


@pytest.mark.parametrize("members", [{"timeoutMs": 60000}, {"env": {"B": None}}])
def test_a_command_that_did_not_run_has_no_result(s, members):
    s.run("readonly __atoll_undo=mine")
    r = s.post("echo hi", **members)
    assert (r.status, r.json()["code"], r.json()["context"]["outcome"]) == (410, "SESSION_TERMINATED", "lost"), r.body
    assert s.out("echo hi", **members) == "hi\n"


def start_stream(s):
    return s.agent.post("/api/execute/stream", {"command": "touch ran", "sessionId": s.name})


def start_process(s):
    return s.agent.post("/api/process/start", {"command": "touch ran", "sessionId": s.name})


@pytest.mark.parametrize("ask", [lambda s: s.post("touch ran"), start_stream, start_process],
                         ids=["execute", "stream", "process"])
def test_a_shell_that_ended_between_two_commands_is_told_before_anything_runs_elsewhere(s, ask, tmp_path):
    s.run(f"cd {tmp_path}")
    pid = s.pid
    os.kill(pid, signal.SIGKILL)
    wait_for(lambda: not os.path.exists(f"/proc/{pid}"))  # the agent knows
    r = ask(s)
    e = r.json()
    assert (r.status, e["code"]) == (410, "SESSION_TERMINATED"), e
    assert "was killed by SIGKILL (exit code: 137) before this command, which was not run" in e["message"]
    assert (e["context"]["sessionId"], e["context"]["exitCode"]) == (s.name, 137)
    assert s.out("echo -$X-; pwd; ls ran 2>&1 | grep -c 'No such'") == f"--\n{s.agent.dir}\n1\n"


def test_what_waited_when_the_shell_died_is_told_once(s):
    pid = s.pid
    os.kill(pid, signal.SIGKILL)
    statuses = [s.post("echo ok").status for _ in range(3)]
    assert statuses == [410, 200, 200]


def test_a_shell_that_dies_before_it_began_a_command_leaves_no_pipe_behind(own_agent):
    a, s = own_agent, Session(own_agent, "s")
    assert s.run("echo warm; :")["exitCode"] == 0
    a.post("/api/session/delete", {"sessionId": "s"})
    wait_for(lambda: not a.children())
    before = a.fds()
    for _ in range(5):
        pid = s.pid
        os.kill(pid, signal.SIGSTOP)
        c = a.connect()
        c.request("POST", "/api/execute", '{"command": "echo never", "sessionId": "s"}')
        assert a.call("GET", "/api/ping").status == 200  # it has been given to the shell
        os.kill(pid, signal.SIGKILL)
        r = c.getresponse()
        assert r.status == 410 and r.read()
        c.close()
    wait_for(lambda: a.fds() <= before)


# ---- variables


def test_many_variables_are_quick_and_bounded(agent):
    env = {f"V{i}": str(i) for i in range(8192)}
    for session in ("many", "__DISABLE_SESSION__"):
        r = agent.run("echo $V0 $V9 $V10 $V8191; env | grep -c ^V", sessionId=session, env=env)
        assert r["stdout"] == "0 9 10 8191\n8192\n"
    r = agent.post("/api/execute", {"command": "true", "env": {**env, "ONE_MORE": "1"}})
    assert r.status == 400 and r.json()["code"] == "VALIDATION_FAILED" and "8192" in r.json()["message"]


def test_names_that_begin_alike_are_different_variables(agent):
    env = {"A": "1", "A1": "2", "A_": "3", "AA": "4", "A10": "5"}
    command = "echo $A $A1 $A_ $AA $A10"
    for session in ("alike", "__DISABLE_SESSION__"):
        assert agent.run(command, sessionId=session, env=env)["stdout"] == "1 2 3 4 5\n"
        assert agent.run(command, sessionId=session, env={**env, "A1": None})["stdout"] == "1 3 4 5\n"
