"""Contexts: many side by side, each its own process; runs in order; how they end, are interrupted, deleted and made again."""

import ast
import http.client
import json
import os
import signal
import subprocess
import threading

import atoll as lib
import boxapi
import pytest
from codeapi import Context, Run


def preloaded(daemon):
    """Waits until contexts come from the zygote."""
    daemon.await_zygote()


def contexts(api):
    return {c["id"]: c for c in api.call("/api/contexts", method="GET").json()["contexts"]}


def running(api, word):
    """Whether the box has a process with this in its command line."""
    pattern = f"[{word[0]}]{word[1:]}"  # which is not found in its own
    return api.ok("/api/execute", command=f"grep -sl '{pattern}' /proc/[0-9]*/cmdline || true")["stdout"]


def code_error(reply, code, status):
    """This route's own shape of errors."""
    body = reply.json()
    assert (reply.status, body["code"]) == (status, code) and body["error"] and isinstance(body["details"], dict), reply
    return body


# ---- create, list, delete


@pytest.mark.parametrize("language, program, code", [("python", "python3", "PYTHON_NOT_AVAILABLE"), ("javascript", "node", "JAVASCRIPT_NOT_AVAILABLE"),
                                                     ("typescript", "node", "JAVASCRIPT_NOT_AVAILABLE")])
def test_a_box_without_the_interpreter(code_api, language, program, code):  # noqa: F811
    code_api.sh(f"for d in /usr/local/bin /usr/bin /bin; do mv $d/{program} $d/away 2>/dev/null; done; ! command -v {program}")
    try:
        assert program in code_api.fails("/api/contexts", code, 501, language=language)["message"]
    finally:
        code_api.sh(f"for d in /usr/local/bin /usr/bin /bin; do mv $d/away $d/{program} 2>/dev/null; done; command -v {program}")


def test_a_context_is_listed_and_deleted(code_api):
    made = code_api.ok("/api/contexts", language="python3", cwd="/tmp")
    assert made["language"] == "python" and made["cwd"] == "/tmp"
    listed = contexts(code_api)[made["contextId"]]
    assert (listed["language"], listed["cwd"], listed["status"], listed["default"]) == ("python", "/tmp", "idle", False)
    gone = code_api.call(f"/api/contexts/{made['contextId']}", method="DELETE").json()
    assert gone["success"] and gone["contextId"] == made["contextId"]
    assert made["contextId"] not in contexts(code_api)
    boxapi.check_error(code_api.call(f"/api/contexts/{made['contextId']}", method="DELETE"), "CONTEXT_NOT_FOUND", 404)


def test_directory_and_environment_are_the_contexts_own(code_api):
    code_api.ok("/api/mkdir", path="/workspace/own dir", recursive=True)
    a = Context(code_api, cwd="/workspace/own dir", env_vars={"WHO": "a", "TEXT": "ü\n=1", "HOME": "/tmp"})
    b = Context(code_api, env_vars={"WHO": "b"})
    look = "import os; (os.getcwd(), os.environ['WHO'], os.environ.get('TEXT'), os.environ['HOME'])"
    assert eval(a(look).result["text"]) == ("/workspace/own dir", "a", "ü\n=1", "/tmp")
    assert eval(b(look).result["text"]) == ("/workspace", "b", None, "/root")
    assert b("os.environ['WHO']", env_vars={"WHO": "just now"}).result["text"] == "'just now'"
    assert b("os.environ['WHO']").result["text"] == "'b'"
    assert b("import subprocess; subprocess.run('echo $WHO', shell=True)").stdout == "b\n"
    a.delete(), b.delete()


@pytest.mark.parametrize("body, code, status", [
    ({"language": "cobol"}, "VALIDATION_FAILED", 400),
    ({"language": 3}, "VALIDATION_FAILED", 400),
    ({"cwd": "relative"}, "VALIDATION_FAILED", 400),
    ({"cwd": "/no/such/place"}, "FILE_NOT_FOUND", 404),
    ({"cwd": "/etc/passwd"}, "NOT_DIRECTORY", 400),
    ({"env_vars": {"A-B": "1"}}, "COMMAND_EXECUTION_ERROR", 500),
    ({"env_vars": {"A": 1}}, "VALIDATION_FAILED", 400),
])  # fmt: skip
def test_what_cannot_be_a_context_is_refused(code_api, body, code, status):
    before = contexts(code_api)
    boxapi.check_error(code_api.call("/api/contexts", body), code, status)
    assert contexts(code_api) == before


def test_bad_runs_are_refused_in_the_routes_own_shape(code_api, python):
    def run(**body):
        return code_api.call("/api/execute/code", body)

    assert code_error(run(code="1", context_id="nope"), "CONTEXT_NOT_FOUND", 404)["details"] == {"contextId": "nope"}
    code_error(run(context_id=python.id), "VALIDATION_FAILED", 400)
    code_error(run(code=5, context_id=python.id), "VALIDATION_FAILED", 400)
    code_error(run(code="1", language="cobol"), "VALIDATION_FAILED", 400)
    code_error(run(code="1", context_id=python.id, timeout_ms=-1), "VALIDATION_FAILED", 400)
    assert python("1").count == 1


def test_many_contexts_are_made_at_once(code_api):
    made, threads = [], [threading.Thread(target=lambda: made.append(Context(code_api))) for _ in range(8)]
    for t in threads:
        t.start()
    for t in threads:
        t.join()
    assert len({c.id for c in made}) == 8
    for n, c in enumerate(made):
        c(f"mine = {n}")
    assert [c("mine").result["text"] for c in made] == [str(n) for n in range(8)]
    assert len({c("import os; os.getpid()").result["text"] for c in made}) == 8
    for c in made:
        c.delete()


def test_default_contexts_one_per_language(code_api):
    def run(code, **fields):
        return Run(code_api.events("/api/execute/code", code=code, **fields))

    assert run("v = 5").error is None
    assert run("v", language="python").result["text"] == "5"
    assert run("globalThis.v = 6; v", language="javascript").result["text"] == "6"
    assert run("v").result["text"] == "5"
    assert {c["language"] for c in contexts(code_api).values() if c["default"]} == {"python", "javascript"}
    for name in ("default-python", "default-javascript"):
        assert code_api.call(f"/api/contexts/{name}", method="DELETE").status == 200
    assert run("v").error["ename"] == "NameError"


# ---- side by side, in order


def test_one_that_runs_holds_no_other(code_api, python):
    other = Context(code_api)
    with python.stream("print('on', flush=True)\nimport time\nwhile True: time.sleep(0.01)") as events:
        events.until(lambda e: e["type"] == "stdout")
        assert other("6 * 7").result["text"] == "42"
        assert contexts(code_api)[python.id]["status"] == "running"
        assert code_api.ok("/api/execute", command="echo also")["stdout"] == "also\n"
    other.delete()


def test_runs_of_one_context_are_done_in_order(code_api, python):
    python("seen = []")
    waiting = []
    with python.stream("print('first', flush=True)\nimport os, time\nwhile not os.path.exists('/tmp/go'): time.sleep(0.01)\nseen.append(0)") as first:
        first.until(lambda e: e["type"] == "stdout")
        for n in range(1, 6):
            c = lib._UnixConnection(code_api.daemon.socket, lib.DEADLINE)
            c.request("POST", code_api.path("/api/execute/code"), json.dumps({"context_id": python.id, "code": f"seen.append({n}); len(seen)"}))
            waiting.append(c)
        lib.wait_for(lambda: contexts(code_api)[python.id]["waiting"] == 5, "five that wait")
        code_api.ok("/api/write", path="/tmp/go", content="")
        assert list(first)[-1]["type"] == "execution_complete"
    for c in waiting:
        assert b"execution_complete" in c.getresponse().read()
        c.close()
    order = ast.literal_eval(python("seen").result["text"])
    assert order[0] == 0 and sorted(order) == [0, 1, 2, 3, 4, 5]


def test_the_queue_is_bounded_and_one_that_left_is_taken_out(code_api, python):
    limit = 64
    with python.stream("print('on', flush=True)\nimport time\nwhile True: time.sleep(0.01)") as events:
        events.until(lambda e: e["type"] == "stdout")
        connections = [lib._UnixConnection(code_api.daemon.socket, lib.DEADLINE) for _ in range(limit)]
        for c in connections:
            c.request("POST", code_api.path("/api/execute/code"), json.dumps({"context_id": python.id, "code": "1"}))
        lib.wait_for(lambda: contexts(code_api)[python.id]["waiting"] == limit, "a full queue")
        code_error(code_api.call("/api/execute/code", {"context_id": python.id, "code": "1"}), "LIMIT_REACHED", 429)
        for c in connections:
            c.close()
        lib.wait_for(lambda: contexts(code_api)[python.id]["waiting"] == 0, "an empty queue")
    assert python("'alive'").result["text"] == "'alive'"


# ---- interrupts


def test_a_time_limit_interrupts_and_keeps_the_state(python):
    python("kept = 1")
    error = python.fails("kept = 2\nwhile True: pass", "KeyboardInterrupt", timeout_ms=2000)
    assert "2000 ms" in error["evalue"] and "state is kept" in error["evalue"] and error["outcome"] == "timeout"
    assert error["traceback"]
    assert python("kept").result["text"] == "2"


def test_a_context_has_a_time_limit_for_runs_without_their_own(code_api):
    c = Context(code_api, timeout_ms=500)
    error = c.fails("while True: pass", "KeyboardInterrupt")
    assert "500 ms" in error["evalue"] and error["outcome"] == "timeout"
    assert c("import time; time.sleep(0.8); 2", timeout_ms=60000).result["text"] == "2"
    boxapi.check_error(code_api.call("/api/contexts", {"timeout_ms": -1}), "VALIDATION_FAILED", 400)


def test_a_time_limit_that_is_not_reached_leaves_nothing(python):
    assert python("1", timeout_ms=3000).result["text"] == "1"
    assert python("import time; time.sleep(3.3); 2").result["text"] == "2"  # longer than the limit of the run before


def test_what_ignores_the_interrupt_is_killed_and_that_is_said(code_api):
    c = Context(code_api)
    run = c.run("import signal, time\nsignal.signal(signal.SIGINT, signal.SIG_IGN)\nprint('deaf')\ntime.sleep(60)", timeout_ms=2000)
    assert run.stdout == "deaf\n" and not run.of("execution_complete")
    assert run.error["ename"] == "TimeoutError" and run.error["outcome"] == "timeout" and "was killed" in run.error["evalue"]
    listed = contexts(code_api)[c.id]
    assert listed["status"] == "ended" and listed["outcome"] == "timeout" and "killed" in listed["reason"]
    code_error(code_api.call("/api/execute/code", {"context_id": c.id, "code": "1"}), "CODE_EXECUTION_ERROR", 500)
    assert c.delete().status == 200
    again = Context(code_api)
    assert again("1").count == 1
    again.delete()


def test_what_catches_the_interrupt_has_still_run_too_long(python):
    # "n = 0" first: Python 3.11 takes an interrupt at the end of a loop for one of the line before, outside of the try.
    run = python.run("try:\n    n = 0\n    while True: int('1')\nexcept KeyboardInterrupt:\n    print('caught')", timeout_ms=2000)
    assert run.stdout == "caught\n" and run.error["ename"] == "TimeoutError" and run.count == 1


def test_a_client_that_leaves_interrupts_and_keeps_the_state(code_api, python):
    with python.stream("n = 7\nprint('on', flush=True)\nwhile True: pass") as events:
        events.until(lambda e: e["type"] == "stdout")
    assert python("n").result["text"] == "7"


def test_programs_that_it_started_are_interrupted_too(code_api, python):
    error = python.fails("import subprocess\nsubprocess.run(['sleep', '61.5'])", "KeyboardInterrupt", timeout_ms=2000)
    assert error["outcome"] == "timeout"
    lib.wait_for(lambda: not running(code_api, "61.5"), "sleep to end")


# ---- ends


@pytest.mark.parametrize("code, outcome, words", [
    ("import os, signal; os.kill(os.getpid(), signal.SIGKILL)", "killed", "killed by SIGKILL"),
    ("import ctypes; ctypes.string_at(0)", "killed", "killed by SIGSEGV"),
    ("import os; os._exit(3)", "exited", "exited with code 3"),
    ("import os; os._exit(0)", "exited", "exited with code 0"),
])  # fmt: skip
def test_a_crash_says_exactly_that(code_api, code, outcome, words):
    c = Context(code_api)
    run = c.run("print('before', flush=True)\n" + code)
    assert run.stdout == "before\n" and not run.of("execution_complete")
    assert run.error["outcome"] == outcome and words in run.error["evalue"], run
    assert contexts(code_api)[c.id]["status"] == "ended"
    c.delete()


def test_killed_from_outside_in_the_middle_of_a_run(code_api):
    c = Context(code_api)
    pid = contexts(code_api)[c.id]["pid"]
    with c.stream("print('on', flush=True)\nimport time; time.sleep(60)") as events:
        events.until(lambda e: e["type"] == "stdout")
        code_api.ok("/api/execute", command=f"kill -9 {pid}")
        rest = Run(list(events))
    assert rest.error["ename"] == "ContextEnded" and "SIGKILL" in rest.error["evalue"] and not rest.of("execution_complete")
    c.delete()


def test_killed_while_idle_is_told_to_the_next_run(code_api):
    c = Context(code_api)
    code_api.ok("/api/execute", command=f"kill -9 {contexts(code_api)[c.id]['pid']}")
    lib.wait_for(lambda: contexts(code_api)[c.id]["status"] == "ended", "the end")
    body = code_error(code_api.call("/api/execute/code", {"context_id": c.id, "code": "1"}), "CODE_EXECUTION_ERROR", 500)
    assert "SIGKILL" in body["error"]
    c.delete()


def test_runs_that_wait_when_it_ends_are_told_too(code_api):
    c = Context(code_api)
    with c.stream("print('on', flush=True)\nimport time; time.sleep(60)") as first:
        first.until(lambda e: e["type"] == "stdout")
        connection = lib._UnixConnection(code_api.daemon.socket, lib.DEADLINE)
        connection.request("POST", code_api.path("/api/execute/code"), json.dumps({"context_id": c.id, "code": "1"}))
        lib.wait_for(lambda: contexts(code_api)[c.id]["waiting"] == 1, "one that waits")
        code_api.ok("/api/execute", command=f"kill -9 {contexts(code_api)[c.id]['pid']}")
        text = connection.getresponse().read().decode()
        connection.close()
    assert "SIGKILL" in text and "execution_complete" not in text
    c.delete()


def test_out_of_memory(daemon, box):
    daemon.request("PUT", lib.box_path(box), {"limits": {"memory": 96 << 20}})
    api = boxapi.Api(daemon, box)
    c = Context(api)
    run = c.run("hog = []\nwhile True: hog.append(bytearray(1 << 20))", timeout_ms=60000)
    assert run.error["outcome"] == "oom" and "out of memory" in run.error["evalue"], run
    assert not run.of("execution_complete")
    again = Context(api)
    assert again("6*7").result["text"] == "42"


def test_a_default_context_is_made_again_by_the_next_run(daemon, box):
    api = boxapi.Api(daemon, box)
    run = Run(api.events("/api/execute/code", code="import os; os._exit(1)"))
    assert run.error["ename"] == "ContextEnded"
    assert Run(api.events("/api/execute/code", code="1 + 1")).result["text"] == "2"


def test_closing_the_protocols_socket_is_a_broken_context(code_api):
    c = Context(code_api)
    run = c.run("import os, time\nos.closerange(3, 4096)\ntime.sleep(60)")
    assert "protocol" in run.error["evalue"] and not run.of("execution_complete")
    c.delete()


def test_delete_in_the_middle_of_a_run_frees_everything(code_api):
    c = Context(code_api)
    with c.stream("import subprocess\np = subprocess.Popen(['sleep', '62.5'])\nprint('on', flush=True)\nwhile True: pass") as events:
        events.until(lambda e: e["type"] == "stdout")
        pid = contexts(code_api)[c.id]["pid"]
        assert c.delete().status == 200
        rest = Run(list(events))
    assert rest.error["ename"] == "ContextDeleted" and not rest.of("execution_complete")
    assert code_api.ok("/api/execute", command=f"test -e /proc/{pid} && echo there || echo gone")["stdout"] == "gone\n"
    lib.wait_for(lambda: not running(code_api, "62.5"), "its children to end")


# ---- streams


def test_output_comes_while_the_code_runs(python):
    with python.stream("print('now', flush=True)\nimport time\nwhile True: time.sleep(0.01)") as events:
        assert events.until(lambda e: e["type"] == "stdout")[-1]["text"] == "now\n"


def test_a_client_that_does_not_read_stalls_the_code_and_not_the_agent(code_api, python):
    code = "import os\nn = 0\nwhile n < 200:\n    os.write(1, b'x' * (1 << 20)); n += 1\nprint('end')"
    stalled = lib._UnixConnection(code_api.daemon.socket, lib.DEADLINE)
    stalled.request("POST", code_api.path("/api/execute/code"), json.dumps({"context_id": python.id, "code": code}))
    response = stalled.getresponse()
    assert response.read(1 << 20)
    status = code_api.ok("/api/execute", command="grep VmRSS /proc/1/status")["stdout"].split()
    assert int(status[1]) < 32 * 1024, "the agent gathers what nobody reads"
    other = Context(code_api)
    assert other("1").count == 1
    total, tail = 1 << 20, b""
    while piece := response.read(1 << 20):
        total, tail = total + len(piece), (tail + piece)[-300:]
    assert total > 200 << 20 and b"execution_complete" in tail
    stalled.close()
    other.delete()


def test_results_of_many_megabytes_pass(python):
    assert len(python("'x' * 10_000_000").result["text"]) == 10_000_002
    assert python("print('ü' * 3_000_000)").stdout == "ü" * 3_000_000 + "\n"


def test_everything_is_ascii_on_the_wire(code_api, python):
    reply = code_api.call("/api/execute/code", {"context_id": python.id, "code": "print('äöü 😀')\n'日本'"})
    assert reply.body.isascii() and b"\\u" in reply.body


# ---- restarts


def test_contexts_survive_a_restart_of_the_daemon(own_daemon, own_box):
    api = boxapi.Api(own_daemon, own_box)
    c = Context(api)
    c("kept = 'over the restart'")
    own_daemon.kill_daemon()
    lib.wait_for(lambda: own_daemon.request("GET", "/v1/health").status == 200, "the daemon is back")
    assert c("kept").result["text"] == "'over the restart'"
    own_daemon.kill_warden()
    own_daemon.await_warden()
    assert c("kept").result["text"] == "'over the restart'"
    other = Context(api)  # its way to the zygote ended with the warden: it is started plainly
    assert other("1 + 1").result["text"] == "2"


def test_without_a_zygote_contexts_are_started_plainly():
    if missing := __import__("fixtures").what_is_missing():
        pytest.skip(missing)
    with lib.Instance({"ATOLL_ZYGOTE": "off"}) as daemon:
        api = boxapi.Api(daemon, "plain")
        c = Context(api)
        assert contexts(api)[c.id]["preloaded"] is False
        assert c("import sys; 'numpy' in sys.modules").result["text"] == "False"


def test_alone_a_killed_agent_leaves_no_worker_behind():
    """In a box the kernel sees to it. Alone nobody could stop a worker that never looks at its socket."""
    agent = subprocess.Popen([lib.BIN / "atoll-agent", "serve", "--port", "0"], stdout=subprocess.PIPE, text=True)
    try:
        port = int(agent.stdout.readline().rsplit(":", 1)[1])
        connection = http.client.HTTPConnection("127.0.0.1", port, timeout=lib.DEADLINE)
        connection.request("POST", "/api/execute/code", json.dumps({"code": "import os\nprint(os.getpid(), flush=True)\nwhile True: pass"}))
        response = connection.getresponse()
        line = next(line for line in response if line.startswith(b"data: "))
        worker = int(json.loads(line[6:])["text"])
        assert lib.alive(worker)
    finally:
        agent.kill()
        agent.wait()
        agent.stdout.close()
    lib.wait_for(lambda: not lib.alive(worker), "the worker's end")
    connection.close()


# ---- the zygote as users see it


def test_contexts_come_preloaded(daemon, box):
    preloaded(daemon)
    api = boxapi.Api(daemon, box)
    c = Context(api)
    assert contexts(api)[c.id]["preloaded"] is True
    assert c("import sys; [m in sys.modules for m in ('numpy', 'pandas', 'matplotlib.pyplot')]").result["text"] == "[True, True, True]"
    assert c("import numpy as np; float((np.ones((50, 50)) @ np.ones((50, 50))).sum())").result["text"] == "125000.0"
    assert c("import os; os.getppid()").result["text"] == "1"


def test_a_package_installed_in_the_box_is_the_one_that_is_imported(daemon, box):
    """pip's way: a newer package in a directory before the image's. What the zygote imported must not hide it."""
    preloaded(daemon)
    api = boxapi.Api(daemon, box)
    site = "/usr/local/lib/python3.11/dist-packages"
    api.ok("/api/write", path=f"{site}/harmless.py", content="here = True\n")
    c = Context(api)
    assert contexts(api)[c.id]["preloaded"] is True
    assert c("import harmless; harmless.here").result["text"] == "True"
    api.ok("/api/mkdir", path=f"{site}/pandas", recursive=True)
    api.ok("/api/write", path=f"{site}/pandas/__init__.py", content="__version__ = 'of the box'\n")
    d = Context(api)
    assert contexts(api)[d.id]["preloaded"] is False
    assert d("import pandas; pandas.__version__").result["text"] == "'of the box'"


@pytest.mark.parametrize("env", [{"PYTHONHASHSEED": "7"}, {"PATH": "/workspace/venv/bin:/usr/bin:/bin"}, {"LD_BIND_NOW": "1"}])
def test_what_an_interpreter_reads_at_its_start_means_a_plain_start(daemon, box, env):
    preloaded(daemon)
    api = boxapi.Api(daemon, box)
    api.ok("/api/execute", command="mkdir -p venv/bin && ln -sf /usr/bin/python3 venv/bin/python3")
    c = Context(api, env_vars=env)
    assert contexts(api)[c.id]["preloaded"] is False
    assert c("1 + 1").result["text"] == "2"


def test_a_killed_zygote_is_started_again_and_contexts_live_on(own_daemon, own_box):
    preloaded(own_daemon)
    api = boxapi.Api(own_daemon, own_box)
    c = Context(api)
    c("kept = 1")
    (pid,), started = zygotes(own_daemon), own_daemon.zygotes_started()
    os.kill(pid, signal.SIGKILL)
    d = Context(api)
    assert d("1 + 1").result["text"] == "2"
    assert c("kept").result["text"] == "1"
    own_daemon.await_zygote(after=started)
    e = Context(api)
    assert contexts(api)[e.id]["preloaded"] is True and zygotes(own_daemon) != [pid]


def zygotes(daemon):
    """The zygotes of this daemon's warden."""
    found = []
    for entry in lib.Path("/proc").iterdir():
        if entry.name.isdigit():
            try:
                if b"atoll_worker.zygote" in (entry / "cmdline").read_bytes():
                    parent = (entry / "status").read_text().split("\nPPid:\t")[1].split()[0]
                    if int(parent) == daemon.warden_pid:
                        found.append(int(entry.name))
            except OSError:
                continue
    return found
