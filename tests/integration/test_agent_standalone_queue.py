"""Time limits of commands that wait for their turn in a session: they count from acceptance, over every transport."""

import base64
import json
import os
import socket
import threading

import pytest
from agentlib import AGENT, Session, open_events
from wsclient import WebSocket

pytestmark = pytest.mark.skipif(not os.access(AGENT, os.X_OK), reason=f"{AGENT} is not built")
LIMIT = 200


class Busy:
    """A session whose command ends when release() says so, and the file that a waiting command would leave."""

    def __init__(self, agent, name, **members):
        self.session = Session(agent, name)
        self.gate, self.mark = (os.path.join(agent.dir, f"{name}-{what}") for what in ("gate", "mark"))
        os.mkfifo(self.gate)
        self.thread = threading.Thread(target=self.session.run, args=(f"read -r < {self.gate}; :",), kwargs=members)
        self.thread.start()
        self.fd = os.open(self.gate, os.O_WRONLY)  # returns when the command reads

    def release(self):
        if self.fd >= 0:
            os.write(self.fd, b"\n")
            os.close(self.fd)
            self.fd = -1
        self.thread.join(60)

    def check_never_run(self):
        self.release()
        assert self.session.out("echo next", timeoutMs=60_000) == "next\n"
        assert not os.path.exists(self.mark), "the command was run after its time"


@pytest.fixture(params=["fresh", "shell"])
def busy(agent, request):
    name = "".join(c if c.isalnum() else "-" for c in request.node.name)
    if request.param == "shell":
        agent.run("MARK=1;:", sessionId=name)
    b = Busy(agent, name)
    yield b
    b.release()


def body(busy, **members):
    return {"command": f"touch {busy.mark}", "sessionId": busy.session.name, "timeoutMs": LIMIT, **members}


def check_error(busy, code, message, context):
    assert code == "COMMAND_EXECUTION_ERROR" and f"Command timeout after {LIMIT}ms; it was not run" in message
    assert context["outcome"] == "timeout" and context["ran"] is False and context["duration"] > 0
    assert (context["stdout"], context["stderr"]) == ("", "") and "exitCode" not in context
    busy.check_never_run()


def check_events(busy, events):
    assert [e["type"] for e in events] == ["start", "error"] and "pid" not in events[0]
    assert events[1]["outcome"] == "timeout" and f"timeout after {LIMIT}ms; it was not run" in events[1]["error"]
    busy.check_never_run()


def test_http(agent, busy):
    r = agent.post("/api/execute", body(busy))
    assert r.status == 500
    check_error(busy, r.json()["code"], r.json()["message"], r.json()["context"])


def test_stream(agent, busy):
    with open_events(agent, "POST", "/api/execute/stream", body(busy)) as e:
        assert e.status == 200
        events = list(e)
    check_events(busy, events)


def test_kept_stream(agent, busy):
    with open_events(agent, "POST", "/api/execute/stream", body(busy, streamId=busy.session.name[-60:])) as e:
        raw = e.response.read()
    check_events(busy, [json.loads(line[6:]) for line in raw.splitlines() if line.startswith(b"data: ")])


def websocket(agent, path):
    return WebSocket(socket.create_connection(("127.0.0.1", agent.port), timeout=60), path)


def test_websocket(agent, busy):
    ws = websocket(agent, "/ws")
    ws.send({"type": "request", "id": "1", "method": "POST", "path": "/api/execute", "body": body(busy)})
    answer = json.loads(ws.receive())
    assert answer["status"] == 500
    check_error(busy, answer["body"]["code"], answer["body"]["message"], answer["body"]["context"])
    ws.close()


def test_stream_over_a_websocket(agent, busy):
    ws = websocket(agent, "/ws")
    ws.send({"type": "request", "id": "1", "method": "POST", "path": "/api/execute/stream", "body": body(busy)})
    events = []
    while (message := json.loads(ws.receive()))["type"] == "stream":
        events.append(json.loads(message["data"]))
    check_events(busy, events)
    ws.close()


def rpc(agent, method, busy):
    ws = websocket(agent, "/rpc")
    ws.send(["push", ["pipeline", 0, ["commands", method], [f"touch {busy.mark}", busy.session.name, {"timeoutMs": LIMIT}]]])
    ws.send(["pull", 1])
    return ws


def test_rpc(agent, busy):
    ws = rpc(agent, "execute", busy)
    kind, ident, (_, _, message, _, extra) = json.loads(ws.receive())
    assert (kind, ident) == ("reject", 1)
    check_error(busy, extra["code"], message, extra["details"])
    ws.close()


def test_rpc_stream(agent, busy):
    ws = rpc(agent, "executeStream", busy)
    raw = b""
    while (message := json.loads(ws.receive()))[:1] != ["stream"] or message[1][2] != ["close"]:
        if message[0] == "stream":
            text = message[1][3][0][1]
            raw += base64.b64decode(text + "=" * (-len(text) % 4))
    check_events(busy, [json.loads(line[6:]) for line in raw.decode().split("\n\n") if line])
    ws.close()


def test_a_process_is_not_started(agent, busy):
    r = agent.post("/api/process/start", body(busy, processId="late"))
    assert r.status == 500 and r.json()["code"] == "PROCESS_ERROR" and "was not started: its time limit passed" in r.json()["message"]
    assert agent.call("GET", "/api/process/late").status == 404
    busy.check_never_run()


def test_the_limit_of_the_session_counts_too(agent):
    assert agent.post("/api/session/create", {"id": "limited", "commandTimeoutMs": LIMIT}).status == 200
    busy = Busy(agent, "limited", timeoutMs=60_000)
    r = agent.post("/api/execute", {"command": f"touch {busy.mark}", "sessionId": "limited"})
    check_error(busy, r.json()["code"], r.json()["message"], r.json()["context"])


def test_a_command_that_waited_can_still_run_out_of_time(agent, busy):
    ws = websocket(agent, "/ws")
    ws.send({"type": "request", "id": "1", "method": "POST", "path": "/api/execute",
             "body": {"command": "echo up; sleep 61", "sessionId": busy.session.name, "timeoutMs": 5000}})
    ws.send({"type": "request", "id": "2", "method": "GET", "path": "/api/ping"})
    assert json.loads(ws.receive())["id"] == "2"  # so the command waits
    busy.release()
    error = json.loads(ws.receive())["body"]
    assert error["context"]["stdout"] == "up\n" and error["context"]["outcome"] == "timeout" and "not run" not in error["message"]
    assert busy.session.out("echo next") == "next\n"
    ws.close()


def test_a_command_that_gets_its_turn_in_time_runs(agent, busy):
    done = []
    waiting = threading.Thread(target=lambda: done.append(agent.run("echo in time", sessionId=busy.session.name, timeoutMs=60_000)))
    waiting.start()
    busy.release()
    waiting.join(60)
    assert done[0]["stdout"] == "in time\n"
