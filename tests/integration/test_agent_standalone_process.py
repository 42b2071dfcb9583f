"""Streams and background processes of atoll-agent."""

import contextlib
import os
import shutil
import subprocess
import time
from pathlib import Path

import pytest
from agentlib import AGENT, Agent, joined, open_events, together
from atoll import alive, still, wait_for

pytestmark = pytest.mark.skipif(not os.access(AGENT, os.X_OK), reason=f"{AGENT} is not built")
SESSIONLESS = "__DISABLE_SESSION__"


@pytest.fixture(scope="module")
def agent():
    a = Agent()
    yield a
    a.call("DELETE", "/api/process/kill-all")
    assert a.close() == 0


@pytest.fixture(params=["fresh", "shell", "none"])
def where(request, agent):
    """A session without a shell yet, one with a shell, and no session at all."""
    name = SESSIONLESS if request.param == "none" else f"{request.node.name}"
    if request.param == "shell":
        agent.run("MARK=1;:", sessionId=name)
    return name


def stream(agent, command, **members):
    with open_events(agent, "POST", "/api/execute/stream", {"command": command, **members}) as e:
        assert e.status == 200 and e.response.headers["Content-Type"].startswith("text/event-stream")
        return list(e)


# ---- streams


def test_events_come_in_order_and_the_end_comes_last(agent, where):
    got = stream(agent, "echo a; echo b >&2; sleep 0.05; echo c; exit 7", sessionId=where)
    assert got[0]["type"] == "start" and got[0]["command"].startswith("echo a") and got[0]["pid"] > 1
    assert joined(got, "stdout") == "a\nc\n" and joined(got, "stderr") == "b\n"
    assert got[-1]["type"] == "complete" and got[-1]["exitCode"] == 7
    assert all(e["timestamp"].endswith("Z") for e in got)


@pytest.mark.parametrize("command, code", [("exit 3", 3), ("set -e; false; echo no", 1), ("exec /bin/true", 0), ("kill -9 $BASHPID", 137),
                                           ("exec bash -c 'kill -TERM $$'", 143), ("/bin/false", 1), ("true", 0), ("no-such-program", 127)])
def test_every_way_to_end_ends_the_stream(agent, where, command, code):
    got = stream(agent, command, sessionId=where)
    assert got[-1]["type"] == "complete" and got[-1]["exitCode"] == code


def test_a_syntax_error_ends_the_stream_too(agent, where):
    got = stream(agent, "echo )", sessionId=where)
    assert got[-1]["exitCode"] != 0 and "syntax error" in joined(got, "stderr")


def test_a_missing_directory_ends_the_stream(agent, where):
    got = stream(agent, "pwd", cwd="/nope", sessionId=where)
    assert got[0]["type"] == "start" and got[-1] == {**got[-1], "type": "complete", "exitCode": 1}
    assert joined(got, "stderr") == "Failed to change directory to '/nope'\n"


def test_a_stream_has_the_sessions_state_and_gives_nothing_back(agent):
    agent.run("cd /usr; X=1; f() { echo f $X $?; }; export Y=2; (exit 4)", sessionId="state")
    got = stream(agent, "f; pwd; cd /; X=9; echo $Z; env | grep ^Y=", sessionId="state", env={"Z": "z"})
    assert joined(got, "stdout") == "f 1 4\n/usr\nz\nY=2\n"
    assert agent.run("echo $X $Z; pwd", sessionId="state")["stdout"] == "1\n/usr\n"


def test_env_cwd_stdin_and_base64(agent, where):
    got = stream(agent, "cat; echo $A ${HOME-unset}; pwd", sessionId=where, env={"A": "it's", "HOME": None}, cwd="/usr", stdin="in\n")
    assert joined(got, "stdout") == "in\nit's unset\n/usr\n"
    got = stream(agent, "printf 'a\\0\\377'", sessionId=where, encoding="base64")
    assert joined(got, "stdout") == "YQD/"


def test_a_session_is_held_only_until_the_stream_has_started(agent):
    agent.run("X=1;:", sessionId="held")
    with open_events(agent, "POST", "/api/execute/stream", {"command": "echo up; sleep 61", "sessionId": "held"}) as e:
        assert next(iter(e))["type"] == "start"
        assert agent.run("echo $X", sessionId="held")["stdout"] == "1\n"


def test_a_timeout_kills_and_is_told(agent, where):
    got = stream(agent, "echo x; sleep 61 & sleep 61; echo no", timeoutMs=1000, sessionId=where)
    assert joined(got, "stdout") == "x\n"
    if where == SESSIONLESS:
        assert got[-1]["type"] == "complete" and got[-1]["exitCode"] == 124
    else:
        assert got[-1]["type"] == "error" and "timeout after 1000ms" in got[-1]["error"]


def test_characters_are_never_cut(agent, where):
    got = stream(agent, "/usr/bin/python3 -c 'print(\"x\" + \"é€😀\" * 60000, end=\"\")'; printf '\\303'", sessionId=where)
    assert joined(got, "stdout") == "x" + "é€😀" * 60000 + "\ufffd"


def test_children_of_streams_and_processes_inherit_three_descriptors(agent, where):
    assert joined(stream(agent, "ls /proc/self/fd", sessionId=where), "stdout") == "0\n1\n2\n3\n"
    assert joined(stream(agent, "ls /proc/self/fd; :", sessionId=where, stdin="x"), "stdout") == "0\n1\n2\n3\n"


def test_a_process_can_be_killed_as_soon_as_it_is_known(agent, where):
    for _ in range(20):
        p = start(agent, "sleep 61 & sleep 61", sessionId=where)
        assert agent.call("DELETE", f"/api/process/{p['processId']}").status == 200
        done = get(agent, p["processId"])
        assert (done["status"], done["exitCode"]) == ("killed", 143), "by the signal, not after its grace"


def test_quick_commands_never_lose_their_end(agent):
    agent.run("X=1;:", sessionId="quick")
    for i in range(60):
        got = stream(agent, f"exit {i}", sessionId="quick")
        assert got[-1]["type"] == "complete" and got[-1]["exitCode"] == i


def test_ends_are_true_when_many_start_at_once(agent):
    """A process may have ended before the agent has heard that it began."""
    def one(k):
        session, wrong = f"crowd{k}", []
        agent.run("MARK=1;:", sessionId=session)
        for i in range(25):
            for command, end in ((f"exit {i}", (i, "exited", None)), ("kill -KILL $BASHPID", (137, "killed", "SIGKILL")),
                                 ("exec /bin/true", (0, "exited", None))):
                got = stream(agent, command, sessionId=session)[-1]
                if (got.get("exitCode"), got.get("outcome"), got.get("signal")) != end:
                    wrong.append((command, got))
        return wrong

    assert together(lambda k=k: one(k) for k in range(4)) == [[]] * 4


@pytest.mark.parametrize("trace, shown", [("set -x", "echo hi"), ("set -v", "echo hi"), ("trap 'echo dbg >&2' DEBUG; set -T", "dbg")])
def test_nothing_of_ours_shows_when_a_session_traces_itself(agent, trace, shown):
    session = f"traced {trace[:8]}"
    agent.run(f"{trace};:", sessionId=session)
    got = stream(agent, "echo hi", sessionId=session)
    assert joined(got, "stdout") == "hi\n"
    lines = joined(got, "stderr").splitlines()
    assert [line.lstrip("+ ") for line in lines] == [shown]


def test_forged_reports_harm_their_own_session_alone(agent):
    agent.run("MARK=1;:", sessionId="forger")
    agent.run("MARK=1;:", sessionId="bystander")
    victim = int(agent.run("sleep 61 >/dev/null & echo $!", sessionId="bystander")["stdout"])
    forge = f"for n in {{1..40}}; do printf 'p %d 1\\np %d {victim}\\ng %d 0\\ne %d 0\\n' $n $n $n $n; done"
    job = int(agent.run(f"while :; do {forge}; done >/proc/$$/fd/42 2>/dev/null & echo $!", sessionId="forger")["stdout"])
    for i in range(10):
        with open_events(agent, "POST", "/api/execute/stream", {"command": "echo x", "sessionId": "forger"}) as e:
            assert e.status in (200, 500)
        assert stream(agent, f"exit {i}", sessionId="bystander")[-1]["exitCode"] == i
    with contextlib.suppress(ProcessLookupError):  # gone if its shell was given up
        os.kill(job, 9)
    assert alive(victim)
    os.kill(victim, 9)
    wait_for(lambda: agent.post("/api/execute", {"command": "echo ok", "sessionId": "forger"}).json().get("stdout") == "ok\n")
    wait_for(lambda: not [f for d in ("/tmp", "/dev/shm") for f in os.listdir(d) if f.startswith(f".atoll-{agent.pid}-")])


def test_a_hundred_megabytes_through_a_stream_in_constant_memory(agent):
    agent.run("X=1;:", sessionId="big")
    seen = 0
    with open_events(agent, "POST", "/api/execute/stream", {"command": "head -c 100000000 /dev/zero | tr '\\0' z", "sessionId": "big"}) as e:
        while chunk := e.response.read(1 << 20):
            seen += chunk.count(b"z")
    assert 0 <= seen - 100_000_000 < 20
    assert agent.rss_kb() < 4096


def test_a_slow_reader_slows_the_command(agent, where):
    counted = os.path.join(agent.dir, "counted" + where)
    with open_events(agent, "POST", "/api/execute/stream",
                     {"command": f"while :; do head -c 65536 /dev/zero | tr '\\0' x; echo >>{counted}; done", "sessionId": where},
                     receive_buffer=4096):
        wait_for(lambda: os.path.exists(counted))

        assert still(lambda: os.stat(counted).st_size, "the command") < 100 and agent.rss_kb() < 4096


def test_a_client_that_goes_away_ends_its_command(agent, where):
    e = open_events(agent, "POST", "/api/execute/stream", {"command": "echo go; sleep 61; echo no", "sessionId": where})
    pid = next(iter(e))["pid"]
    e.close()
    # Over TCP the end of a silent client is seen when something is written to it.
    wait_for(lambda: not alive(pid))


# ---- processes


def start(agent, command, **members):
    r = agent.post("/api/process/start", {"command": command, **members})
    assert r.status == 200, r.body
    return r.json()


def get(agent, pid):
    return agent.call("GET", f"/api/process/{pid}").json()["process"]


def ended(agent, pid):
    return wait_for(lambda: (p := get(agent, pid))["status"] != "running" and p)


def test_the_life_of_a_process(agent, where):
    go = os.path.join(agent.dir, f"go{where}")
    os.mkfifo(go)
    p = start(agent, f"echo hello; echo oops >&2; read -r < {go}; exit 5", processId=f"life{where}", sessionId=where)
    assert p["processId"] == f"life{where}" and p["pid"] > 1 and p["success"] is True
    running = get(agent, p["processId"])
    assert running["status"] == "running" and running["pid"] == p["pid"] and "endTime" not in running and "exitCode" not in running
    with open(go, "w") as f:
        f.write("\n")
    done = ended(agent, p["processId"])
    assert done["status"] == "failed" and done["exitCode"] == 5 and done["endTime"] >= done["startTime"]
    logs = agent.call("GET", f"/api/process/{p['processId']}/logs").json()
    assert (logs["stdout"], logs["stderr"], logs["processId"]) == ("hello\n", "oops\n", p["processId"])


@pytest.mark.parametrize("command, status, code", [("true", "completed", 0), ("exit 1", "failed", 1), ("kill -TERM $BASHPID", "killed", 143),
                                                   ("kill -9 $BASHPID", "killed", 137), ("kill -SEGV $BASHPID", "failed", 139)])
def test_statuses(agent, where, command, status, code):
    p = start(agent, command, sessionId=where)
    done = ended(agent, p["processId"])
    assert (done["status"], done["exitCode"]) == (status, code)


def test_a_made_up_id_has_upstreams_form(agent):
    p = start(agent, "true")
    head, ms, tail = p["processId"].split("_")
    assert head == "proc" and abs(int(ms) / 1000 - time.time()) < 60 and len(tail) == 6


def test_background_true_of_execute_is_the_same(agent):
    r = agent.post("/api/execute", {"command": "exit 2", "background": True}).json()
    assert ended(agent, r["processId"])["exitCode"] == 2


def test_an_id_in_use_is_refused_and_that_of_an_ended_one_is_free(agent):
    start(agent, "sleep 61", processId="taken")
    r = agent.post("/api/process/start", {"command": "true", "processId": "taken"})
    assert r.status == 500 and r.json()["code"] == "PROCESS_ERROR"
    assert agent.call("DELETE", "/api/process/taken").status == 200
    assert start(agent, "true", processId="taken")["processId"] == "taken"


@pytest.mark.parametrize("body, status", [({"command": ""}, 400), ({"command": "true", "processId": "x" * 129}, 400),
                                          ({"command": "true", "processId": 1}, 400),
                                          ({"command": "true", "cwd": "/nope"}, 500), ({"command": "true", "env": {"A-B": ""}}, 500)])
def test_bad_starts_are_refused_and_leave_no_entry(agent, body, status):
    before = len(agent.call("GET", "/api/process/list").json()["processes"])
    assert agent.post("/api/process/start", body).status == status
    assert len(agent.call("GET", "/api/process/list").json()["processes"]) == before


def test_ids_with_odd_characters(agent):
    p = start(agent, "echo odd", processId="a b ü?")
    ended(agent, "a%20b%20%C3%BC%3F")
    assert agent.call("GET", "/api/process/a%20b%20%C3%BC%3F/logs").json()["stdout"] == "odd\n"
    assert p["processId"] == "a b ü?"


def test_list_filters_by_status_and_session(agent):
    start(agent, "sleep 61", processId="l1", sessionId="ls1")
    start(agent, "true", processId="l2", sessionId="ls2")
    ended(agent, "l2")

    def ids(query):
        return {p["id"] for p in agent.call("GET", "/api/process/list" + query).json()["processes"]}

    assert {"l1", "l2"} <= ids("") and "l1" in ids("?status=running") and "l2" not in ids("?status=running")
    assert ids("?sessionId=ls2") == {"l2"} and ids("?sessionId=ls1&status=completed") == set()
    agent.call("DELETE", "/api/process/l1")


def test_kill_takes_the_whole_tree(agent, where):
    pids = os.path.join(agent.dir, "tree" + where)
    start(agent, f"sleep 61 & echo $! >>{pids}; (sleep 61 & echo $! >>{pids}; wait) & wait", processId="tree", sessionId=where)
    wait_for(lambda: os.path.exists(pids) and len(open(pids, encoding="ascii").read().split()) == 2)
    members = [int(p) for p in open(pids, encoding="ascii").read().split()]
    r = agent.call("DELETE", "/api/process/tree")
    assert r.status == 200 and r.json()["processId"] == "tree"
    assert not any(alive(p) for p in members)
    done = get(agent, "tree")
    assert done["status"] == "killed" and done["exitCode"] == 143
    again = agent.call("DELETE", "/api/process/tree")
    assert again.status == 404 and again.json()["code"] == "COMMAND_NOT_FOUND" and "already completed" in again.json()["message"]


def test_what_ignores_sigterm_is_killed_after_the_grace(agent, where):
    """The signal comes first, and is heard; the loop goes on until the kill."""
    p = start(agent, "trap 'echo heard' TERM; echo ready; while :; do sleep 0.05; done", processId="deaf", sessionId=where)
    wait_for(lambda: agent.call("GET", "/api/process/deaf/logs").json()["stdout"])
    assert agent.call("DELETE", "/api/process/deaf").status == 200
    assert not alive(p["pid"]) and get(agent, "deaf")["exitCode"] == 137
    assert agent.call("GET", "/api/process/deaf/logs").json()["stdout"].startswith("ready\nheard\n")


def test_kill_honours_its_signal(agent, where):
    start(agent, "trap 'echo got; exit 9' USR1; echo ready; while :; do sleep 0.02; done", processId="sig", sessionId=where)
    wait_for(lambda: agent.call("GET", "/api/process/sig/logs").json()["stdout"])
    assert agent.call("DELETE", "/api/process/sig?signal=SIGUSR1").status == 200
    assert ended(agent, "sig")["exitCode"] == 9
    start(agent, "trap 'echo term' TERM; echo ready; while :; do sleep 0.02; done", processId="sig", sessionId=where)
    wait_for(lambda: agent.call("GET", "/api/process/sig/logs").json()["stdout"])
    assert agent.call("DELETE", "/api/process/sig?signal=KILL").status == 200
    assert get(agent, "sig")["exitCode"] == 137 and agent.call("GET", "/api/process/sig/logs").json()["stdout"] == "ready\n"
    start(agent, "sleep 61", processId="sig", sessionId=where)
    assert agent.call("DELETE", "/api/process/sig?signal=SIGINT").status == 200
    assert ended(agent, "sig")["exitCode"] == 130
    start(agent, "sleep 61", processId="sig", sessionId=where)
    assert agent.call("DELETE", "/api/process/sig?signal=NOPE").status == 400
    agent.call("DELETE", "/api/process/sig")


def child_program(pid):
    children = Path(f"/proc/{pid}/task/{pid}/children").read_text().split()
    return children and Path(f"/proc/{children[0]}/comm").read_text()


@contextlib.contextmanager
def slow_kills(agent):
    """The first signal that the agent sends leaves at once, to the process itself, each other one 200 ms late."""
    with subprocess.Popen(["strace", "-p", str(agent.pid), "-e", "trace=kill", "-e", "inject=kill:delay_enter=200000:when=2+", "-o", "/dev/null"],
                          stderr=subprocess.PIPE, text=True) as tracer:
        try:
            assert "attached" in tracer.stderr.readline()
            yield
        finally:
            tracer.terminate()


@pytest.mark.skipif(not shutil.which("strace"), reason="strace is not installed")
@pytest.mark.parametrize("signal, code", [("SIGKILL", 137), ("SIGTERM", 143)])
def test_a_part_that_ends_by_itself_does_not_give_a_killed_process_its_code(agent, where, signal, code):
    """The `cat` ends with 0 when its shell is dead, before its own signal comes."""
    fifo = os.path.join(agent.dir, f"held{where}{signal}")
    os.mkfifo(fifo)
    start(agent, f"exec 9<>{fifo}; echo ready; cat {fifo} 9>&-; echo no", processId="part", sessionId=where)
    wait_for(lambda: agent.call("GET", "/api/process/part/logs").json()["stdout"])
    wait_for(lambda: child_program(get(agent, "part")["pid"]) == "cat\n")
    with slow_kills(agent):
        assert agent.call("DELETE", f"/api/process/part?signal={signal}").status == 200
    assert (get(agent, "part")["status"], get(agent, "part")["exitCode"]) == ("killed", code)


@pytest.mark.skipif(not shutil.which("strace"), reason="strace is not installed")
def test_a_program_that_handles_the_signal_gives_its_code_however_late_it_comes(agent, where):
    program = "import signal, sys; signal.signal(signal.SIGTERM, lambda *_: sys.exit(7)); print('ready', flush=True); signal.pause()"
    start(agent, f'/usr/bin/python3 -c "{program}"; echo no', processId="late", sessionId=where)
    wait_for(lambda: agent.call("GET", "/api/process/late/logs").json()["stdout"])
    with slow_kills(agent):
        assert agent.call("DELETE", "/api/process/late").status == 200
    assert (get(agent, "late")["status"], get(agent, "late")["exitCode"]) == ("killed", 7)


def test_unknown_processes_are_404(agent):
    for method, path in (("GET", ""), ("DELETE", ""), ("GET", "/logs"), ("GET", "/stream")):
        r = agent.call(method, "/api/process/never" + path)
        assert r.status == 404 and r.json()["code"] == "PROCESS_NOT_FOUND" and r.json()["context"]["processId"] == "never"


def test_kill_all_and_cleanup():
    a = Agent()
    try:
        pids = [start(a, "sleep 61 & sleep 61", sessionId=s)["pid"] for s in ("one", "two", SESSIONLESS)]
        start(a, "true", processId="over")
        ended(a, "over")
        r = a.call("DELETE", "/api/process/kill-all").json()
        assert r["success"] is True and r["cleanedCount"] == 3
        assert not any(alive(p) for p in pids)
        assert a.call("DELETE", "/api/process/kill-all").json()["cleanedCount"] == 0
        assert a.call("POST", "/api/process/cleanup").json()["cleanedCount"] == 4
        assert a.call("GET", "/api/process/list").json()["processes"] == []
    finally:
        assert a.close() == 0


def test_a_process_survives_the_shell_of_its_session(agent):
    for i in range(10):  # also when the shell ends before the process has begun
        session, name = f"mother{i}", f"child{i}"
        agent.run("X=1;:", sessionId=session)
        p = start(agent, "while :; do echo $X; sleep 0.02; done", processId=name, sessionId=session)
        agent.post("/api/execute", {"command": "exit", "sessionId": session})
        agent.run("X=2;:", sessionId=session)

        def said(process=name):
            return len(agent.call("GET", f"/api/process/{process}/logs").json()["stdout"])

        before = said()
        wait_for(lambda: said() > before)  # noqa: B023
        assert alive(p["pid"])
        agent.call("DELETE", f"/api/process/{name}")


def test_a_timed_out_command_spares_the_processes_of_its_session(agent):
    agent.run("X=1;:", sessionId="spare")
    for _ in range(10):
        p = start(agent, "sleep 61; echo no", processId="spared", sessionId="spare")
        assert agent.post("/api/execute", {"command": "sleep 61", "timeoutMs": 30, "sessionId": "spare"}).status == 500
        assert alive(p["pid"])
        assert agent.call("GET", "/api/process/spared/logs").json()["stdout"] == ""
        agent.call("DELETE", "/api/process/spared?signal=KILL")


def test_a_process_with_a_time_limit(agent, where):
    start(agent, "sleep 61", processId="limited", timeoutMs=100, sessionId=where)
    done = ended(agent, "limited")
    assert done["status"] == "killed" and done["outcome"] == "timeout"


# ---- logs and followers


def test_followers_replay_and_then_follow(agent, where):
    fifo = os.path.join(agent.dir, "fifo" + where)
    os.mkfifo(fifo)
    start(agent, f"echo one; echo two >&2; read line <{fifo}; echo $line; exit 4", processId="follow", sessionId=where)
    wait_for(lambda: agent.call("GET", "/api/process/follow/logs").json()["stderr"])
    streams = [open_events(agent, "GET", "/api/process/follow/stream") for _ in range(3)]
    its = [iter(s) for s in streams]
    for it in its:
        first = [next(it) for _ in range(3)]
        assert first[0]["type"] == "process_info" and first[0]["status"] == "running" and first[0]["processId"] == "follow"
        assert joined(first, "stdout") == "one\n" and joined(first, "stderr") == "two\n"
    with open(fifo, "w", encoding="ascii") as f:
        f.write("three\n")
    for s, it in zip(streams, its):
        rest = list(it)
        assert joined(rest, "stdout") == "three\n"
        assert rest[-1]["type"] == "exit" and rest[-1]["exitCode"] == 4 and rest[-1]["data"] == "Process completed with exit code 4"
        s.close()


def test_a_stream_can_be_resumed_from_any_event(agent):
    start(agent, "for i in 1 2 3 4 5; do echo line$i; sleep 0.01; done", processId="resume")
    ended(agent, "resume")
    with open_events(agent, "GET", "/api/process/resume/stream") as e:
        events = list(e)
        ids = e.ids
    out = [(i, ev) for i, ev in zip(ids, events) if ev["type"] == "stdout"]
    for n, (i, _) in enumerate(out):
        with open_events(agent, "GET", "/api/process/resume/stream", headers={"Last-Event-ID": str(i)}) as e:
            assert joined(list(e), "stdout") == "".join(ev["data"] for _, ev in out[n + 1:])
        with open_events(agent, "GET", f"/api/process/resume/stream?lastEventId={i}") as e:
            assert list(e)[-1]["type"] == "exit"


def test_the_log_of_a_loud_process_costs_no_memory(agent):
    start(agent, "head -c 80000000 /dev/zero | tr '\\0' q; echo; echo last", processId="loud")
    ended(agent, "loud")
    logs = agent.call("GET", "/api/process/loud/logs").json()
    assert logs["stdout"].endswith("q\nlast\n") and "were dropped]" in logs["stdout"][:80]
    assert agent.rss_kb() < 4096
    agent.call("POST", "/api/process/cleanup")


def test_a_stalled_follower_holds_neither_the_process_nor_others(agent):
    start(agent, "seq 1 400000; echo done", processId="stall")
    slow = open_events(agent, "GET", "/api/process/stall/stream", receive_buffer=4096)
    assert ended(agent, "stall")["exitCode"] == 0
    with open_events(agent, "GET", "/api/process/stall/stream") as e:
        assert joined(list(e), "stdout") == "".join(f"{i}\n" for i in range(1, 400001)) + "done\n"
    assert joined(list(slow), "stdout").endswith("400000\ndone\n")
    slow.close()
    assert agent.rss_kb() < 4096


def test_many_processes_at_once_and_nothing_left(agent):
    a = Agent()
    try:
        a.run("X=1;:", sessionId="s")
        a.call("DELETE", "/api/process/kill-all")
        before = a.fds()
        together(lambda i=i: start(a, f"echo {i}; sleep 0.2; exit {i}", processId=f"p{i}", sessionId="s" if i % 2 else SESSIONLESS)
                 for i in range(40))
        for i in range(40):
            assert ended(a, f"p{i}")["exitCode"] == i
        assert a.call("POST", "/api/process/cleanup").json()["cleanedCount"] == 40
        wait_for(lambda: a.fds() <= before)
        assert len(a.children()) == 1  # the session's shell
    finally:
        assert a.close() == 0


def test_the_oldest_ended_ones_make_room():
    a = Agent()
    try:
        for i in range(300):
            start(a, "/bin/true", processId=f"n{i}", sessionId=SESSIONLESS)
            ended(a, f"n{i}")
        ids = [p["id"] for p in a.call("GET", "/api/process/list").json()["processes"]]
        assert 256 <= len(ids) <= 257 and "n0" not in ids and "n299" in ids
    finally:
        assert a.close() == 0


def known(a):
    return {p["id"]: p["status"] for p in a.call("GET", "/api/process/list").json()["processes"]}


def test_processes_that_ended_first_make_room_and_running_ones_never():
    a = Agent()
    try:
        start(a, "exec sleep 600", processId="runs", sessionId=SESSIONLESS)
        start(a, "while [ ! -e go ]; do sleep 0.02; done", processId="early", sessionId=SESSIONLESS)
        for i in range(256):
            start(a, "/bin/true", processId=f"n{i}", sessionId=SESSIONLESS)
            ended(a, f"n{i}")
        Path(a.dir, "go").touch()
        ended(a, "early")  # started before all others, and the last to end
        start(a, "/bin/true", processId="more", sessionId=SESSIONLESS)
        ids = known(a)
        assert ids["runs"] == "running" and ids["early"] == "completed"
        assert "n0" not in ids and "n1" not in ids and "n2" in ids
        a.call("DELETE", "/api/process/kill-all")
    finally:
        assert a.close() == 0


def test_long_commands_of_ended_processes_are_bounded():
    """32 MiB of them are kept."""
    a = Agent()
    try:
        a.run("MARK=1;:", sessionId="s")
        for i in range(72):
            start(a, ": " + "x" * (1 << 20), processId=f"n{i}", sessionId="s")
            ended(a, f"n{i}")
        ids = known(a)
        assert 32 <= len(ids) <= 34 and "n0" not in ids and "n71" in ids
        assert a.rss_kb() < 48 << 10
    finally:
        assert a.close() == 0


def test_kill_waits_for_children_that_outlive_their_parent(agent, where):
    pidfile = os.path.join(agent.dir, "deaf-child" + where)
    start(agent, f"sh -c 'trap \"\" TERM; echo $$ >{pidfile}; while :; do sleep 0.05; done' & wait", processId="parent", sessionId=where)
    wait_for(lambda: os.path.exists(pidfile) and open(pidfile, encoding="ascii").read())
    child = int(open(pidfile, encoding="ascii").read())
    assert agent.call("DELETE", "/api/process/parent").status == 200
    assert not alive(child)


def test_a_process_ends_with_the_agent():
    a = Agent()
    p = start(a, "sleep 61", sessionId="x")
    assert a.close() == 0
    wait_for(lambda: not alive(p["pid"]))
