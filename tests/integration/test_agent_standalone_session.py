"""Sessions of atoll-agent: one shell each that stays, and nothing that can wedge it."""

import json
import os
import shlex
import signal

import pytest
from agentlib import AGENT, Agent, Session, together
from atoll import alive, wait_for

pytestmark = pytest.mark.skipif(not os.access(AGENT, os.X_OK), reason=f"{AGENT} is not built")


@pytest.fixture
def s(agent, request):
    """A session of its own, whose shell already runs."""
    session = Session(agent, request.node.name)
    session.run(":;:")
    return session


# ---- what persists


def test_directory_variables_functions_and_options_stay(s):
    s.run("cd /usr; export A=1; B=2; f() { echo f $B; }; set -o pipefail; shopt -s nullglob; umask 077; ulimit -n 64")
    assert s.out("pwd; echo $A $B; f; false | true; echo $?; shopt nullglob; umask; ulimit -n; env | grep ^A=") == \
        "/usr\n1 2\nf 2\n1\nnullglob       \ton\n0077\n64\nA=1\n"


def test_the_last_status_stays(s):
    for status in (0, 1, 2, 7, 127, 255):
        s.run(f"(exit {status})")
        assert s.out("echo $?") == f"{status}\n"


def test_the_last_status_of_a_direct_command_reaches_the_shell(agent):
    s = Session(agent, "direct-status")
    assert s.run("/bin/false")["exitCode"] == 1
    assert s.out("echo $?") == "1\n"


def test_plain_commands_come_first_and_the_shell_only_when_needed(agent):
    s = Session(agent, "lazy")
    before = len(agent.children())
    assert s.out("/bin/echo one two") == "one two\n"
    assert s.out("uname") == "Linux\n"
    assert len(agent.children()) == before
    assert s.out("echo $((1+1))") == "2\n"
    assert len(agent.children()) == before + 1


def test_source_and_heredoc(s):
    path = os.path.join(s.agent.dir, "sourced")
    assert s.out(f"cat >{path} <<'END'\nSOURCED='it'\"'\"'s'\nEND\nsource {path}; echo \"$SOURCED\"") == "it's\n"
    assert s.out("echo $SOURCED; cat <<< word") == "it's\nword\n"


def test_a_session_is_not_another(agent):
    a, b = Session(agent, "one"), Session(agent, "other")
    a.run("X=a; cd /usr")
    b.run("X=b; cd /etc")
    assert a.out("echo $X; pwd") == "a\n/usr\n" and b.out("echo $X; pwd") == "b\n/etc\n"


def test_env_of_one_command_does_not_stay(s):
    s.run("export A=old; unset B")
    assert s.out("echo $A $B; env | grep -c '^[AB]='; A=inner; echo $A", env={"A": "new", "B": "b'\n$x"}) == \
        "new b' $x\n2\ninner\n"
    assert s.out("echo $A ${B-unset}") == "old unset\n"


def test_null_unsets_a_variable_for_one_command(s):
    s.run("export A='it''s' C=3; D=(1 2)")
    assert s.out("echo ${A-unset} ${C-unset} ${D-unset}; env | grep -c '^[AC]='", env={"A": None, "C": None, "D": None}) == \
        "unset unset unset\n0\n"
    assert s.out("echo $A $C ${D[1]}; env | grep ^C=; declare -p __atoll_undo 2>&1 | grep -c 'not found'") == \
        "its 3 2\nC=3\n1\n"


def test_cwd_of_one_command_does_not_stay(s):
    s.run("cd /usr; cd /var")
    assert s.out("pwd; cd /; /bin/pwd", cwd="/etc") == "/etc\n/\n"
    assert s.out("pwd; /bin/pwd; echo $OLDPWD $PWD") == "/var\n/var\n/usr /var\n"
    assert s.out("pwd", cwd="log/..") == "/var\n"
    assert s.run("pwd", cwd="nope")["stderr"] == "Failed to change directory to 'nope'\n"


def test_env_cwd_and_stdin_together_and_status(s):
    r = s.run("cat; echo $A; pwd; exit_code() { return 3; }; exit_code", env={"A": "1"}, cwd="/etc", stdin="in\n")
    assert r["stdout"] == "in\n1\n/etc\n" and r["exitCode"] == 3
    assert s.out("echo $?") == "3\n"


def test_nothing_of_ours_is_in_the_users_shell(s):
    s.run("trap 'echo bye' EXIT; trap 'echo hup' HUP; cleanup() { :; }")
    s.run("true")
    assert s.out("trap -p") == "trap -- 'echo bye' EXIT\ntrap -- 'echo hup' SIGHUP\n"
    assert s.out("declare -F") == "declare -f cleanup\n"
    assert s.out("set | grep -c __atoll") == "0\n"
    assert s.out("alias; jobs") == ""


def test_children_inherit_three_descriptors(s):
    assert s.out("ls /proc/self/fd") == "0\n1\n2\n3\n"
    assert s.out("ls /proc/self/fd", cwd="/", env={"A": "1"}, timeoutMs=60_000) == "0\n1\n2\n3\n"


# ---- hard cases


@pytest.mark.parametrize("command, text", [
    ("echo )", "syntax error near unexpected token `)'"),
    ("if true; then", "syntax error: unexpected end of file"),
    ('echo "open', "unexpected EOF while looking for matching"),
    ("echo 'open", "unexpected EOF while looking for matching"),
    ("for", "syntax error"),
    ("}", "syntax error near unexpected token `}'"),
    ("&& true", "syntax error near unexpected token `&&'"),
])
def test_a_syntax_error_fails_that_command_only(s, command, text):
    s.run("X=kept")
    r = s.run(command)
    assert r["exitCode"] == 2 and text in r["stderr"] and r["stdout"] == "" and "bash: " in r["stderr"]
    assert s.out("echo $X") == "kept\n"


def test_lines_before_a_syntax_error_run_as_in_bash(s):
    r = s.run("echo one\necho )\necho three")
    assert r["exitCode"] == 2 and r["stdout"] == "one\n"


@pytest.mark.parametrize("command, out", [
    ("cat <<END\nunfinished", "unfinished\n"),
    ("echo a \\", "a \\\n"),
    ("# only a comment", ""),
    ("shopt -s extglob\necho !(x) | wc -w | tr -d 0-9", "\n"),
    ("echo one # comment", "one\n"),
    ("echo 'a\nb'", "a\nb\n"),
    ("{ echo group; }", "group\n"),
    ("echo '}'; echo '{'", "}\n{\n"),
    ("echo $'tab\\there'", "tab\there\n"),
    ("echo \"it's\" '\"quoted\"' \\\"", "it's \"quoted\" \"\n"),
    ("printf '%s\\n' \"$(printf 'x%.0s' {1..50000})\" | wc -c", "50001\n"),
])
def test_odd_texts_do_what_bash_does(s, command, out):
    r = s.run(command)
    assert r["stdout"] == out and r["exitCode"] == 0, r


def test_a_long_command(s):
    text = "x" * 1_000_000
    assert s.out(f": {text}; echo ok") == "ok\n"


@pytest.mark.parametrize("command", ["${unset:?message}; echo no", "set -u; echo $unset; echo no", "echo $((1/0)); echo no",
                                     "readonly R=1; R=2; echo no"])
def test_an_expansion_error_ends_the_command_not_the_session(s, command):
    s.run("X=kept")
    r = s.run(command)
    assert r["exitCode"] == 1 and r["stdout"] == "" and r["stderr"] != ""
    assert s.out("set +u; echo $X") == "kept\n"


def test_return_ends_the_command(s):
    assert s.run("echo a; return 5; echo b")["exitCode"] == 5
    assert s.out("echo $?") == "5\n"


@pytest.mark.parametrize("command, code", [("exit 3", 3), ("exit", 0), ("set -e; false; echo no", 1), ("exec /bin/true", 0),
                                           ("exec bash -c 'exit 9'", 9), ("kill -9 $$", 137)])
def test_the_end_of_the_shell_is_session_terminated_and_the_next_is_fresh(s, command, code):
    s.run("X=old; cd /usr")
    r = s.post(f"echo before; {command}")
    e = r.json()
    assert r.status == 410 and e["code"] == "SESSION_TERMINATED" and e["context"]["exitCode"] == code, e
    assert e["context"]["sessionId"] == s.name and e["context"]["stdout"] == "before\n"
    assert s.out("echo -$X-") == "--\n"


def test_set_e_spares_what_bash_spares(s):
    s.run("set -e; X=1")
    assert s.run("false && true")["exitCode"] == 1
    assert s.run("if false; then :; fi; ! true")["exitCode"] == 1
    assert s.run("false || true")["exitCode"] == 0
    assert s.run("false && true", env={"A": "1"}, cwd="/")["exitCode"] == 1
    assert s.out("echo $X") == "1\n"


def test_a_background_job_does_not_hold_the_call_and_lives(s):
    pid = int(s.out("sleep 61 & echo $!"))
    assert alive(pid)
    assert "sleep 61" in s.out("jobs")
    s.run("kill %1; wait")
    wait_for(lambda: not alive(pid))


def test_output_of_background_jobs_never_gets_into_later_commands(s):
    done = os.path.join(s.agent.dir, "noise-done")
    s.run(f"for i in 1 2 3; do (for j in $(seq 50); do echo noise$i; echo noise >&2; sleep 0.005; done; echo >>{done}) & done")
    for i in range(30):
        r = s.run(f"echo {i}; echo e{i} >&2")
        assert (r["stdout"], r["stderr"]) == (f"{i}\n", f"e{i}\n")
    wait_for(lambda: os.path.exists(done) and os.stat(done).st_size == 3)  # nobody died of SIGPIPE
    assert s.out("wait; echo quiet") == "quiet\n"


def test_a_background_job_that_prints_without_end_harms_nobody(s):
    s.run("yes & Y=$!")
    assert s.out("echo ok") == "ok\n"
    assert s.out("kill $Y; wait 2>/dev/null; echo gone") == "gone\n"


def test_a_kept_descriptor_does_not_mix_outputs(s):
    s.run("exec 3>&1")
    assert s.out("echo to three >&3; echo to one") == "to one\n"
    assert s.out("exec 3>&-; echo ok") == "ok\n"


def test_a_daemon_survives(s):
    pidfile = os.path.join(s.agent.dir, "daemon")
    s.run(f"setsid sh -c 'echo $$ >{pidfile}; exec sleep 61' >/dev/null 2>&1 </dev/null &")
    pid = int(wait_for(lambda: os.path.exists(pidfile) and open(pidfile, encoding="ascii").read()))
    assert s.out("echo ok") == "ok\n" and alive(pid)
    os.kill(pid, signal.SIGKILL)


def test_two_hundred_megabytes(s):
    c = s.agent.connect()
    c.request("POST", "/api/execute", json.dumps({"command": "X=1; head -c 200000000 /dev/zero | tr '\\0' y", "sessionId": s.name}))
    r, seen = c.getresponse(), 0
    while chunk := r.read(1 << 20):
        seen += chunk.count(b"y")
    c.close()
    assert 200_000_000 <= seen < 200_000_020
    assert s.agent.rss_kb() < 4096
    assert s.out("echo $X") == "1\n"


def test_nul_bytes_and_no_newline(s):
    assert s.run("printf 'a\\0b'")["stdout"] == "a\0b"


def test_a_command_that_reads_stdin_finds_none(s):
    assert s.run("read x; echo $?; cat; head -1")["stdout"] == "1\n"


def test_what_reads_the_shells_own_input_cannot_wedge_it(s):
    s.run("X=1")
    r = s.post("for fd in $(ls /proc/$$/fd); do timeout 0.2 cat <&$fd >/dev/null 2>&1; done; echo survived")
    assert r.status in (200, 410)
    assert s.run("echo ok")["stdout"] == "ok\n"


@pytest.mark.parametrize("evil", ["exec 42>&-", "for i in {3..255}; do eval \"exec $i>&-\"; done 2>/dev/null",
                                  "builtin() { :; }", "enable -n printf", "exec <&-", "exec 40>&- 41>&- 43>&-",
                                  "printf() { echo no; }; eval() { echo no; }", "set -r", "set -n", "set -v", "set -x",
                                  "PS1='$(kill $$)'", "PROMPT_COMMAND='sleep 60'", "trap 'echo dbg' DEBUG", "trap : ERR CHLD",
                                  "exec >/dev/null 2>&1", "set -t", "TMOUT=1", "IFS=0123456789", "unset PWD OLDPWD PATH HOME",
                                  "shopt -s failglob nullglob; set -fCk", "LC_ALL=C; LANG=", "set -o posix", "kill -STOP $$",
                                  "ulimit -n 20", "unset LINENO; SECONDS=x", "readonly PWD OLDPWD __atoll"])
def test_self_harm_never_wedges_the_session(s, evil):
    first = s.post(evil, timeoutMs=4000)
    assert first.status in (200, 410, 500), first.body

    def works():
        r = s.post("echo ok", timeoutMs=4000)
        return r.status == 200 and r.json()["stdout"] == "ok\n"
    wait_for(works, "whatever it did to itself, soon there is a shell that works")


# ---- time limits


@pytest.mark.parametrize("command", [
    "sleep 61; echo no", "while :; do :; done", "while :; do sleep 0.01; done", "while :; do (trap '' INT TERM; sleep 61); done",
    "sleep 61 | sleep 61; echo no", "(trap '' INT; sleep 61); echo no", "sleep 61 & wait; echo no", "V=$(sleep 61); echo no",
    "read V < <(sleep 61); echo no", "f() { sleep 61; echo no; }; f; echo no", "if sleep 61; then echo no; else echo no; fi",
    "for i in 1 2 3; do bash -c 'trap \"\" INT TERM; sleep 61'; done; echo no", "cat /dev/zero >/dev/null; echo no",
    "kill -STOP $BASHPID; echo no",
])
def test_a_timed_out_command_ends_whole_and_the_session_goes_on_with_its_state(s, command):
    s.run("cd /usr; X=kept; f() { :; }")
    pid = s.pid
    r = s.post(f"echo before; {command}", timeoutMs=1000)
    e = r.json()
    assert r.status == 500 and e["code"] == "COMMAND_EXECUTION_ERROR" and "Command timeout after 1000ms" in e["message"]
    assert e["context"]["stdout"] == "before\n" and e["context"]["outcome"] == "timeout"
    assert e["context"]["stderr"] == ""
    assert e["context"]["duration"] >= 1000
    assert s.out("echo $X; pwd; declare -F; echo $$; echo $-") == f"kept\n/usr\ndeclare -f f\n{pid}\nhiBs\n"


def test_the_stderr_of_a_timed_out_command_is_its_own(s):
    r = s.post("echo Killed >&2; printf half >&2; sleep 61", timeoutMs=1000)
    assert (r.status, r.json()["context"]["stderr"]) == (500, "Killed\nhalf")


def test_a_timeout_spares_older_jobs_and_kills_what_the_command_left_behind(s):
    old = int(s.out("sleep 61 & echo $!"))
    pidfile = os.path.join(s.agent.dir, "left")
    s.post(f"(sleep 62 & echo $! >{pidfile}); sleep 62 & echo $! >>{pidfile}; sleep 62", timeoutMs=2000)
    with open(pidfile, encoding="ascii") as f:
        left = [int(p) for p in f.read().split()]
    assert len(left) == 2
    wait_for(lambda: not any(alive(p) for p in left))
    assert alive(old)
    s.run("kill %1; wait")


def test_a_timeout_spares_what_older_jobs_start_meanwhile(s):
    ticks = os.path.join(s.agent.dir, "ticks")
    s.run(f"(while sleep 0.01; do echo >>{ticks}; done || echo died >>{ticks}.dead) &")
    wait_for(lambda: os.path.exists(ticks))
    for _ in range(5):
        assert s.post("sleep 61", timeoutMs=60).status == 500
    before = os.stat(ticks).st_size
    wait_for(lambda: os.stat(ticks).st_size > before)
    assert not os.path.exists(ticks + ".dead")
    s.run("kill %1; wait")


def test_a_shell_that_ignores_interrupts_is_replaced_and_the_answer_says_so(s):
    s.run("X=1")
    r = s.post("trap '' INT; while :; do sleep 0.1; done", timeoutMs=1000)
    assert r.status == 500 and "Command timeout after 1000ms" in r.json()["message"]
    assert r.json()["message"].endswith("the session begins afresh")
    assert s.out("echo -$X-") == "--\n"


@pytest.mark.parametrize("trap", ["", "echo it's; echo \"got\"\n", "exit 3"])
def test_a_trap_of_the_session_does_not_save_a_command_whose_time_is_up(s, trap):
    s.run(f"X=kept; trap {shlex.quote(trap)} INT")
    before = s.out("trap -p")
    r = s.post("while :; do sleep 0.1; done; echo no", timeoutMs=100)
    assert r.status == 500 and r.json()["context"]["stdout"] == ""
    assert s.out("echo $X; trap -p") == "kept\n" + before
    assert s.out("echo short", timeoutMs=60000) == "short\n"
    assert s.out("trap -p") == before
    s.run("trap 'echo other' INT", timeoutMs=60000)  # what the command itself does with traps stays
    assert s.out("trap -p") == "trap -- 'echo other' SIGINT\n"


def test_a_limit_of_the_session(agent):
    assert agent.post("/api/session/create", {"id": "limited", "commandTimeoutMs": 150}).status == 200
    s = Session(agent, "limited")
    r = s.post("sleep 61")
    assert r.status == 500 and "after 150ms" in r.json()["message"]
    assert s.out("sleep 0.3; echo own", timeoutMs=60_000) == "own\n"


def test_a_limit_of_the_box():
    a = Agent(env={"COMMAND_TIMEOUT_MS": "150"})
    try:
        r = a.post("/api/execute", {"command": "sleep 61"})
        assert r.status == 500 and "after 150ms" in r.json()["message"]
    finally:
        a.close()


# ---- order


def send(agent, session, command):
    """A command whose answer is not waited for: when this returns the agent has it. Gives the connection."""
    c = agent.connect()
    c.request("POST", "/api/execute", json.dumps({"command": command, "sessionId": session}))
    assert agent.call("GET", "/api/ping").status == 200  # came later, and has been read
    return c


def answer(c):
    r = c.getresponse()
    body = json.loads(r.read())
    c.close()
    return r.status, body


@pytest.fixture
def gate(agent):
    """A pipe: who reads it waits until it is written to."""
    path = f"{agent.dir}/gate"
    os.mkfifo(path)
    yield path
    os.unlink(path)


def test_commands_of_a_session_run_in_order_and_sessions_side_by_side(agent, gate):
    waiting = [send(agent, "slow", f"read X < {gate}")]
    waiting += [send(agent, "slow", f"X=$((X*10+{i}))") for i in range(1, 8)]
    assert Session(agent, "quick").out("echo now; :") == "now\n"
    with open(gate, "w") as f:
        f.write("0\n")
    assert [answer(c)[0] for c in waiting] == [200] * 8
    assert Session(agent, "slow").out("echo $X") == "1234567\n"


def test_commands_that_wait_in_a_session_are_limited(agent, gate):
    waiting = [send(agent, "full", f"read X < {gate}")] + [send(agent, "full", "n=$((n+1))") for _ in range(256)]
    status, error = answer(send(agent, "full", "n=never"))
    assert status == 429 and error["code"] == "LIMIT_REACHED" and "256" in error["message"]
    r = agent.post("/api/execute/stream", {"command": "n=never", "sessionId": "full"})
    assert r.status == 429
    with open(gate, "w") as f:
        f.write("0\n")
    assert {answer(c)[0] for c in waiting} == {200}
    assert Session(agent, "full").out("echo $n") == "256\n"


def test_sixty_four_sessions_at_once(agent):
    def one(i):
        s = Session(agent, f"many{i}")
        s.run(f"X={i}; cd /usr")
        return s.out("echo $X; pwd")

    assert together(lambda i=i: one(i) for i in range(64)) == [f"{i}\n/usr\n" for i in range(64)]
    for i in range(64):
        assert agent.post("/api/session/delete", {"sessionId": f"many{i}"}).status == 200


# ---- create, list, delete


def test_create_gives_env_and_cwd(agent):
    r = agent.post("/api/session/create", {"id": "made", "env": {"A": "1", "HOME": None}, "cwd": "/usr"})
    body = r.json()
    assert r.status == 200 and body["success"] is True and body["containerPlacementId"] is None and body["data"]["id"] == "made"
    assert "env" not in body["data"] and body["timestamp"].endswith("Z")
    s = Session(agent, "made")
    assert s.out("echo $A ${HOME-unset}; pwd") == "1 unset\n/usr\n"
    assert s.out("/usr/bin/env | grep ^A=") == "A=1\n"


def test_direct_commands_get_the_sessions_env_and_cwd_too(agent):
    agent.post("/api/session/create", {"id": "made2", "env": {"A": "1"}, "cwd": "/usr"})
    s = Session(agent, "made2")
    assert s.out("printenv A PWD") == "1\n/usr\n"


def test_create_twice_is_409(agent):
    agent.post("/api/session/create", {"id": "twice"})
    r = agent.post("/api/session/create", {"id": "twice"})
    e = r.json()
    assert r.status == 409 and e["code"] == "SESSION_ALREADY_EXISTS" and e["context"]["sessionId"] == "twice"


@pytest.mark.parametrize("body", ["", "nonsense", "{}"])
def test_create_without_a_name_makes_one(agent, body):
    r = agent.post("/api/session/create", body)
    assert r.status == 200 and r.json()["data"]["id"].startswith("session_")


@pytest.mark.parametrize("body", [{"id": "__DISABLE_SESSION__"}, {"id": "x" * 257}, {"id": 1}, {"id": "y", "env": {"A": 1}},
                                  {"id": "y", "commandTimeoutMs": -1}, {"id": "y", "cwd": 5}])
def test_create_refuses_bad_members(agent, body):
    r = agent.post("/api/session/create", body)
    assert r.status == 400 and r.json()["code"] == "VALIDATION_FAILED"


def test_create_with_a_missing_directory_falls_back_to_home(agent):
    agent.post("/api/session/create", {"id": "nodir", "cwd": "/nope"})
    assert Session(agent, "nodir").out("pwd;:") == agent.dir + "\n"


def test_list_names_all(agent):
    agent.post("/api/session/create", {"id": "listed"})
    r = agent.call("GET", "/api/session/list").json()
    assert r["success"] is True and "listed" in r["data"]


def test_delete_ends_the_shell_and_its_jobs_but_not_what_asked_to_stay(agent):
    s = Session(agent, "deleted")
    job, stays = (int(p) for p in s.out("sleep 61 & echo $!; nohup sleep 62 >/dev/null 2>&1 & echo $!").split())
    shell = s.pid
    wait_for(lambda: open(f"/proc/{stays}/cmdline", "rb").read().startswith(b"sleep"))  # nohup has done its work
    r = agent.post("/api/session/delete", {"sessionId": "deleted"})
    assert r.status == 200 and r.json()["sessionId"] == "deleted"
    wait_for(lambda: not alive(shell) and not alive(job))
    assert alive(stays)
    os.kill(stays, signal.SIGKILL)
    assert "deleted" not in agent.call("GET", "/api/session/list").json()["data"]


def test_delete_of_a_busy_session_answers_what_waits_with_410(agent):
    s = Session(agent, "busy")
    s.run("X=1;:")
    own = f"61.{agent.pid}"  # other agents on this machine sleep, too
    sent = [send(agent, "busy", f"sleep {own}; echo $X") for _ in range(3)]
    wait_for(lambda: agent.run(f"pgrep -fc '^sleep {own}$' || true;:", sessionId="probe")["stdout"].strip() != "0")
    assert agent.post("/api/session/delete", {"sessionId": "busy"}).status == 200
    for c in sent:
        r = c.getresponse()
        e = json.loads(r.read())
        assert (r.status, e["code"], e["context"]["sessionId"]) == (410, "SESSION_DESTROYED", "busy")
        assert "outcome" not in e["context"] and "exitCode" not in e["context"]  # nobody knows
        c.close()


def test_a_shell_that_was_stopped_goes_on(s):
    assert s.out("cd /usr; kill -STOP $$; echo after") == "after\n"
    # By something in the background, where $$ is the session's shell, too; and while nobody asks anything of it.
    for job in ("(kill -STOP $$)", "{ sleep 0.05; kill -STOP $$; } & sleep 0.2"):
        s.run(job)
        assert s.out("pwd") == "/usr\n"


def test_delete_of_nothing(agent):
    r = agent.post("/api/session/delete", {"sessionId": "never"})
    assert r.status == 500 and r.json()["code"] == "INTERNAL_ERROR" and "Session 'never' not found" in r.json()["message"]
    r = agent.post("/api/session/delete", {})
    assert r.status == 400 and r.json()["context"]["validationErrors"][0]["field"] == "sessionId"


def test_nothing_is_left_after_many_sessions():
    a = Agent()
    try:
        a.run("true;:", sessionId="warm")
        a.post("/api/session/delete", {"sessionId": "warm"})
        wait_for(lambda: a.children() == [])
        before, rss = a.fds(), a.rss_kb()
        for i in range(20):
            s = Session(a, f"s{i}")
            s.run("X=1; sleep 1 & sleep 0.01 &")
            s.post("sleep 61", timeoutMs=50) if i % 5 == 0 else s.post("exit 1") if i % 5 == 1 else s.run("echo $X")
            a.post("/api/session/delete", {"sessionId": f"s{i}"})
        wait_for(lambda: a.children() == [] and a.fds() <= before)
        assert a.rss_kb() < rss + 400
        assert not [f for d in ("/tmp", "/dev/shm") for f in os.listdir(d) if f.startswith(f".atoll-{a.pid}-")]
    finally:
        assert a.close() == 0


def test_relative_paths_of_file_calls_start_where_the_session_is(agent):
    s = Session(agent, "relative")
    s.run(f"mkdir -p {agent.dir}/sub; cd {agent.dir}/sub; echo content >file")
    r = agent.post("/api/read", {"path": "file", "sessionId": "relative"}).json()
    assert r["content"] == "content\n"
    assert agent.post("/api/exists", {"path": "sub/file", "sessionId": "relative"}).json()["exists"] is False
