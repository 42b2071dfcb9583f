"""Background processes through atolld: their life, their logs, their ends, and who may follow them."""

import base64
import contextlib
import http.client
import json
import re

import atoll as lib
import boxapi


def api(daemon, box, method, path, body=None, headers=None):
    return daemon.request(method, lib.box_path(box, "/api/" + path), body, headers)


def start(daemon, box, command, **fields):
    r = api(daemon, box, "POST", "process/start", {"command": command, **fields})
    assert r.status == 200, r
    return r.json()["processId"]


def get(daemon, box, pid):
    return api(daemon, box, "GET", f"process/{pid}").json()["process"]


def events(reply):
    """(id or None, object) of every event of a finished stream."""
    out = []
    for block in reply.text.split("\n\n"):
        fields = dict(line.split(": ", 1) for line in block.splitlines() if ": " in line and not line.startswith(":"))
        if "data" in fields:
            out.append((fields.get("id"), json.loads(fields["data"])))
    return out


def follow(daemon, box, pid, headers=None):
    r = api(daemon, box, "GET", f"process/{pid}/stream", headers=headers)
    assert r.status == 200, r
    return events(r)


def ended(daemon, box, pid):
    """Waits for the end through the stream and returns the process."""
    assert follow(daemon, box, pid)[-1][1]["type"] == "exit"
    return get(daemon, box, pid)


def test_statuses_and_exit_codes(daemon, box):
    for command, status, code in [("true", "completed", 0), ("exit 3", "failed", 3), ("kill -TERM $BASHPID", "killed", 143),
                                  ("kill -INT $BASHPID", "failed", 130)]:
        p = ended(daemon, box, start(daemon, box, command))
        assert (p["status"], p["exitCode"]) == (status, code), command
        assert p["endTime"] >= p["startTime"]


def test_a_process_has_the_state_of_its_session_and_leaves_none(daemon, box):
    daemon.execute(box, "cd /tmp; export A=1; f() { echo from-f; }", sessionId="s")
    pid = start(daemon, box, "echo $A $PWD; f; cd /; A=2", sessionId="s")
    ended(daemon, box, pid)
    assert api(daemon, box, "GET", f"process/{pid}/logs").json()["stdout"] == "1 /tmp\nfrom-f\n"
    assert daemon.execute(box, "echo $A $PWD", sessionId="s")["stdout"] == "1 /tmp\n"


def test_a_process_outlives_the_daemon(own_daemon):
    box = "p"
    assert own_daemon.request("POST", lib.box_path(box, "/api/session/create"), {"id": "s"}).status == 200
    pid = start(own_daemon, box, "while :; do sleep 0.05; echo tick; done", sessionId="s")
    before = get(own_daemon, box, pid)["pid"]
    own_daemon.kill_daemon()
    after = get(own_daemon, box, pid)
    assert (after["status"], after["pid"]) == ("running", before)
    lib.wait_for(lambda: "tick\n" in api(own_daemon, box, "GET", f"process/{pid}/logs").json()["stdout"], "a tick")
    assert api(own_daemon, box, "DELETE", f"process/{pid}").status == 200


def test_a_signal_is_honoured(daemon, box):
    pid = start(daemon, box, "trap 'echo usr; exit 9' USR1; echo armed; while :; do sleep 0.05; done")
    lib.wait_for(lambda: "armed" in api(daemon, box, "GET", f"process/{pid}/logs").json()["stdout"], "the trap")
    assert api(daemon, box, "DELETE", f"process/{pid}?signal=SIGUSR1").status == 200
    p = ended(daemon, box, pid)
    assert (p["status"], p["exitCode"]) == ("failed", 9)
    r = api(daemon, box, "DELETE", f"process/{start(daemon, box, 'sleep 300')}?signal=NOPE")
    assert (r.status, r.json()["code"]) == (400, "VALIDATION_FAILED")


def test_kill_ends_what_ignores_sigterm_and_what_is_stopped(daemon, box):
    pid = start(daemon, box, "kill -STOP $BASHPID; echo never")
    lib.wait_for(lambda: "T" in daemon.execute(box, f"cut -d' ' -f3 /proc/{get(daemon, box, pid)['pid']}/stat",
                                               sessionId="look")["stdout"], "the stop")
    assert api(daemon, box, "DELETE", f"process/{pid}").status == 200
    assert get(daemon, box, pid)["status"] == "killed"
    stubborn = start(daemon, box, "trap '' TERM; echo armed; while :; do sleep 0.05; done")
    lib.wait_for(lambda: "armed" in api(daemon, box, "GET", f"process/{stubborn}/logs").json()["stdout"], "the trap")
    assert api(daemon, box, "DELETE", f"process/{stubborn}").status == 200
    p = get(daemon, box, stubborn)
    assert (p["status"], p["exitCode"]) == ("killed", 137)


def test_a_time_limit_kills_the_tree(daemon, box):
    pid = start(daemon, box, "sleep 311 & sleep 312", timeoutMs=200)
    p = ended(daemon, box, pid)
    assert (p["status"], p["outcome"]) == ("killed", "timeout")
    assert daemon.execute(box, "pgrep -x sleep | wc -l", sessionId="look")["stdout"] == "0\n"


def test_list_filters_and_cleanup(daemon, box):
    done = start(daemon, box, "true", sessionId="a")
    ended(daemon, box, done)
    running = start(daemon, box, "sleep 300", sessionId="b")

    def ids(query=""):
        return {p["id"] for p in api(daemon, box, "GET", "process/list" + query).json()["processes"]}

    assert ids() == {done, running}
    assert ids("?status=running") == {running}
    assert ids("?sessionId=a") == {done}
    assert api(daemon, box, "POST", "process/cleanup").json()["cleanedCount"] == 1
    assert ids() == {running}


def test_an_id_can_be_used_again_after_its_end_only(daemon, box):
    start(daemon, box, "sleep 300", processId="one")
    r = api(daemon, box, "POST", "process/start", {"command": "true", "processId": "one"})
    assert (r.status, r.json()["code"]) == (500, "PROCESS_ERROR")
    assert api(daemon, box, "DELETE", "process/one").status == 200
    assert start(daemon, box, "true", processId="one") == "one"
    r = api(daemon, box, "POST", "process/start", {"command": "true", "processId": "a/b"})
    assert (r.status, r.json()["code"]) == (400, "VALIDATION_FAILED")


def test_one_who_reads_slowly_holds_neither_an_id_nor_the_clean_up(daemon, box):
    a = boxapi.Api(daemon, box)
    start(daemon, box, "seq 1 1000000", processId="web")
    with a.get_stream("/api/process/web/stream", receive_buffer=4096) as slow:
        seen = slow.until(lambda e: e["type"] == "stdout")
        ended(daemon, box, "web")
        assert start(daemon, box, "echo second", processId="web") == "web"
        ended(daemon, box, "web")
        assert api(daemon, box, "GET", "process/web/logs").json()["stdout"] == "second\n"
        with a.get_stream("/api/process/web/stream", receive_buffer=4096) as other:
            other.until(lambda e: e["type"] == "exit")
            assert api(daemon, box, "POST", "process/cleanup").json()["cleanedCount"] == 1
        assert api(daemon, box, "GET", "process/list").json()["processes"] == []
        seen += slow.until(lambda e: e["type"] == "exit")
    assert "".join(e["data"] for e in seen if e["type"] == "stdout") == numbers(1000000)


def test_a_process_that_cannot_start_is_no_process(daemon, box):
    r = api(daemon, box, "POST", "process/start", {"command": "true", "cwd": "/nope", "processId": "x"})
    assert (r.status, r.json()["code"]) == (500, "PROCESS_ERROR")
    assert api(daemon, box, "GET", "process/x").json()["code"] == "PROCESS_NOT_FOUND"
    assert api(daemon, box, "POST", "process/start", {"command": ""}).json()["code"] == "INVALID_COMMAND"


def test_followers_see_everything_in_order_and_can_resume(daemon, box):
    pid = start(daemon, box, "for i in $(seq 200); do echo out$i; echo err$i >&2; done")
    first = follow(daemon, box, pid)
    text = {"stdout": "", "stderr": ""}
    for _, e in first:
        if e["type"] in text:
            text[e["type"]] += e["data"]
    assert text["stdout"] == "".join(f"out{i}\n" for i in range(1, 201))
    assert text["stderr"] == "".join(f"err{i}\n" for i in range(1, 201))
    outputs = [(i, e) for i, e in first if e["type"] in text]
    middle = len(outputs) // 2
    rest = follow(daemon, box, pid, {"Last-Event-ID": outputs[middle][0]})
    assert [e["data"] for i, e in rest if i] == [e["data"] for _, e in outputs[middle + 1:]]
    odd = follow(daemon, box, pid, {"Last-Event-ID": str(int(outputs[0][0]) + 1)})
    assert [i for i, _ in odd if i] == [i for i, _ in outputs], "an id that never was starts from the beginning"


def test_characters_are_never_cut(daemon, box):
    pid = start(daemon, box, "yes äöü€🚀 | head -c 300000")
    got = "".join(e["data"] for _, e in follow(daemon, box, pid) if e["type"] == "stdout")
    assert got.encode() == ("äöü€🚀\n".encode() * 30000)[:300000].decode(errors="replace").encode()


def numbers(n):
    return "".join(f"{i}\n" for i in range(1, n + 1))


NOTE = re.compile(r"\[(\d+) bytes of earlier output were dropped\]\n")


def test_the_log_is_capped_and_says_so(daemon, box):
    pid = start(daemon, box, "seq 1 4000000")
    assert ended(daemon, box, pid)["exitCode"] == 0
    logs = api(daemon, box, "GET", f"process/{pid}/logs").json()["stdout"]
    note, rest = logs.split("\n", 1)
    total = len(numbers(4000000))
    assert note == f"[{total - len(rest)} bytes of earlier output were dropped]"
    assert rest.endswith("3999999\n4000000\n")
    assert 8 << 20 <= len(rest) <= 17 << 20
    seen = [(i, e) for i, e in follow(daemon, box, pid) if e["type"] == "stdout"]
    assert seen[0][1]["data"].startswith("[") and "".join(e["data"] for _, e in seen) == logs
    assert seen[0][1]["dropped"] == total - len(rest) and not any("dropped" in e for _, e in seen[1:])
    # An id counts the bytes up to it; one that is gone says what its owner has missed.
    assert seen[-1][0] == str(total)
    missed = follow(daemon, box, pid, {"Last-Event-ID": "10"})[1][1]
    assert missed["dropped"] == total - len(rest) - 10 and missed["data"].startswith(f"[{missed['dropped']} bytes")
    # Byte for byte there is no place for a line: the number is told beside.
    exact = events(api(daemon, box, "GET", f"process/{pid}/stream?encoding=base64"))[1][1]
    assert exact["dropped"] == total - len(rest) and base64.b64decode(exact["data"]).decode() == rest[:len(base64.b64decode(exact["data"]))]
    shown = daemon.cli("logs", box, pid)
    assert shown.stdout.decode() == rest and shown.stderr.decode() == f"atoll logs: {total - len(rest)} bytes of earlier output were dropped\n"


def test_lines_that_come_one_by_one_fill_no_log_before_its_time(daemon, box):
    # Every line is a piece of its own here; what is kept beside it must not count.
    pid = start(daemon, box, "exec /usr/bin/python3 -c 'import os\nfor i in range(1, 300001): os.write(1, b\"%d %032d\\n\" % (i, 0))'")
    assert ended(daemon, box, pid)["exitCode"] == 0
    assert api(daemon, box, "GET", f"process/{pid}/logs").json()["stdout"] == "".join(f"{i} {0:032d}\n" for i in range(1, 300001))


def test_a_follower_that_is_overtaken_misses_what_it_is_told(daemon, box):
    pid = start(daemon, box, "echo first; until [ -e /tmp/go ]; do sleep 0.02; done; seq 1 3000000; echo last")
    a = boxapi.Api(daemon, box)
    with a.get_stream(f"/api/process/{pid}/stream", receive_buffer=4096) as s:
        seen = s.until(lambda e: e["type"] == "stdout")
        a.sh("touch /tmp/go")
        assert ended(daemon, box, pid)["exitCode"] == 0
        seen += s.until(lambda e: e["type"] == "exit")
    text = "".join(e["data"] for e in seen if e["type"] == "stdout")
    parts = NOTE.split(text)
    assert len(parts) == 3, "overtaken once"
    whole = f"first\n{numbers(3000000)}last\n"
    assert whole.startswith(parts[0]) and whole.endswith(parts[2])
    assert int(parts[1]) == len(whole) - len(parts[0]) - len(parts[2])


def test_many_ended_processes_cost_little_memory(daemon, box):
    a = boxapi.Api(daemon, box)
    for i in range(256):
        start(daemon, box, "seq 1 5000", processId=f"p{i}", sessionId=boxapi.NO_SESSION)
    for i in range(256):
        ended(daemon, box, f"p{i}")
    assert len(a.call("/api/process/list", method="GET").json()["processes"]) == 256
    assert boxapi.memory_kb(a.agent_pid(), "VmRSS") < 4096


def test_two_hundred_follow_one_log(daemon, box):
    pid = start(daemon, box, "echo first; until [ -e /tmp/go ]; do sleep 0.02; done; seq 1 3000; exit 4")
    a = boxapi.Api(daemon, box)
    with contextlib.ExitStack() as stack:
        streams = [stack.enter_context(a.get_stream(f"/api/process/{pid}/stream")) for _ in range(200)]
        for s in streams:
            s.until(lambda e: e["type"] == "stdout")
        a.sh("touch /tmp/go")
        for s in streams:
            seen = s.until(lambda e: e["type"] == "exit")
            assert "".join(e["data"] for e in seen[:-1]) == numbers(3000) and seen[-1]["exitCode"] == 4


def test_a_follower_over_a_restart_of_the_daemon_loses_nothing(own_daemon):
    box = "p"
    pid = start(own_daemon, box, "for i in $(seq 1 400); do echo $i; sleep 0.005; done")
    a, text, last = boxapi.Api(own_daemon, box), "", None
    for kills in range(20):
        with contextlib.suppress(OSError, http.client.HTTPException):
            with a.get_stream(f"/api/process/{pid}/stream", headers={"Last-Event-ID": last} if last else {}) as s:
                for n, (i, e) in enumerate(s.with_ids()):
                    if e["type"] == "stdout":
                        text, last = text + e["data"], i
                    if n == 3 and kills < 4:
                        own_daemon.kill_daemon()
                    if e["type"] == "exit":
                        assert text == numbers(400) and e["exitCode"] == 0 and kills
                        return
    raise AssertionError("it never ended")


def test_binary_output_becomes_replacement_characters(daemon, box):
    pid = start(daemon, box, r"printf 'a\377\0b'")
    ended(daemon, box, pid)
    assert api(daemon, box, "GET", f"process/{pid}/logs").json()["stdout"] == "a\ufffd\0b"


def test_port_watch_waits_for_the_right_status(daemon, box):
    server = ("import http.server\nn = 0\nclass H(http.server.BaseHTTPRequestHandler):\n"
              " def do_GET(self):\n  global n\n  n += 1\n  self.send_response(500 if n < 3 else 204)\n  self.end_headers()\n"
              "http.server.HTTPServer(('127.0.0.1', 8099), H).serve_forever()\n")
    daemon.execute(box, "cat > /tmp/s.py", stdin=server)
    pid = start(daemon, box, "exec /usr/bin/python3 /tmp/s.py")
    seen = events(api(daemon, box, "POST", "port-watch", {"port": 8099, "path": "/x", "interval": 100, "processId": pid}))
    assert [e["type"] for _, e in seen] == ["watching", "ready"]
    assert seen[-1][1]["statusCode"] == 204
