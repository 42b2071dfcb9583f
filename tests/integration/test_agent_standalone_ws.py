"""/ws/exec of atoll-agent: one foreground command with its three streams."""

import json
import os
import socket

import pytest
from agentlib import AGENT, Agent, open_events
from atoll import alive, still, wait_for
from wsclient import Closed, Refused, WebSocket

pytestmark = pytest.mark.skipif(not os.access(AGENT, os.X_OK), reason=f"{AGENT} is not built")


class Exec:
    """A command over its own socket; gathers what comes."""

    def __init__(self, agent, first, receive_buffer=None):
        self.sock = socket.socket()
        if receive_buffer:
            self.sock.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, receive_buffer)
        self.sock.settimeout(60)
        self.sock.connect(("127.0.0.1", agent.port))
        self.ws = WebSocket(self.sock, "/ws/exec")
        self.out, self.err, self.texts = b"", b"", []
        self.ws.send(first)

    def step(self):
        m = self.ws.receive()
        if isinstance(m, str):
            self.texts.append(json.loads(m))
        elif m[0] == 1:
            self.out += m[1:]
        else:
            assert m[0] == 2
            self.err += m[1:]
        return m

    def started(self):
        self.step()
        assert self.texts[0]["type"] == "started"
        return self.texts[0]["pid"]

    def finish(self):
        """The exit message; the socket must then be closed with 1000."""
        try:
            while True:
                self.step()
        except Closed as c:
            assert c.code == 1000, c
        self.sock.close()
        assert self.texts[-1]["type"] == "exit"
        return self.texts[-1]


def test_streams_are_apart_and_the_exit_comes_last(agent):
    e = Exec(agent, {"command": "echo out; echo err >&2; exit 5"})
    assert e.started() > 1
    end = e.finish()
    assert (e.out, e.err) == (b"out\n", b"err\n")
    assert end["exitCode"] == 5 and end["signal"] is None and end["outcome"] == "exited"


def test_an_argument_vector_is_not_touched_by_a_shell(agent):
    e = Exec(agent, {"argv": ["printf", "%s|", "a b", "$HOME", "*", ""]})
    assert e.finish()["exitCode"] == 0 and e.out == b"a b|$HOME|*||"


def test_cwd_env_and_timeout(agent):
    e = Exec(agent, {"argv": ["sh", "-c", "pwd; echo $A; sleep 60"], "cwd": "/usr", "env": {"A": "1"}, "timeoutMs": 1000})
    end = e.finish()
    assert e.out == b"/usr\n1\n" and end["outcome"] == "timeout" and end["exitCode"] == 124


def test_stdin_goes_in_and_eof_ends_it(agent):
    e = Exec(agent, {"argv": ["cat"]})
    e.ws.send(b"one ")
    e.ws.send(b"\x00\xfftwo")
    e.ws.send({"type": "eof"})
    assert e.finish()["exitCode"] == 0 and e.out == b"one \x00\xfftwo"


def test_ten_megabytes_through_cat(agent):
    e = Exec(agent, {"argv": ["cat"]})
    piece, n = os.urandom(100_000), 100
    got, sent = 0, 0
    e.started()
    while got < n * len(piece):
        while sent < n and sent * len(piece) - got < 400_000:
            e.ws.send(piece)
            sent += 1
        got += len(e.step()) - 1
    e.ws.send({"type": "eof"})
    assert e.finish()["exitCode"] == 0 and e.out == piece * n


def test_a_signal_reaches_the_command(agent):
    e = Exec(agent, {"command": "trap 'echo caught; exit 9' INT; echo ready; while :; do sleep 0.02; done"})
    while b"ready" not in e.out:
        e.step()
    e.ws.send({"type": "signal", "signal": "SIGINT"})
    assert e.finish()["exitCode"] == 9 and b"caught" in e.out


def test_death_by_signal_is_named(agent):
    e = Exec(agent, {"argv": ["sleep", "60"]})
    e.started()
    e.ws.send({"type": "signal", "signal": "KILL"})
    end = e.finish()
    assert end["exitCode"] == 137 and end["signal"] == "SIGKILL" and end["outcome"] == "killed"


def test_a_slow_reader_stops_the_command_not_the_memory(agent):
    counted = os.path.join(agent.dir, "counted")
    # yes | dd tells how far it got: far beyond what buffers hold would mean that somebody keeps it all.
    e = Exec(agent, {"command": f"while :; do head -c 65536 /dev/zero; echo >>{counted}; done"}, receive_buffer=4096)
    wait_for(lambda: os.path.exists(counted))

    assert still(lambda: os.stat(counted).st_size, "the command") < 100
    assert agent.rss_kb() < 4096
    e.sock.close()


def test_a_command_that_reads_nothing_stops_the_sender(agent):
    e = Exec(agent, {"argv": ["sleep", "60"]})
    pid = e.started()
    e.sock.settimeout(0.5)
    sent = 0
    with pytest.raises(TimeoutError):
        while sent < 64 << 20:
            e.ws.send(b"x" * 65536)
            sent += 65536
    assert sent < 16 << 20 and agent.rss_kb() < 4096
    e.sock.close()
    wait_for(lambda: not alive(pid))


def test_the_command_ends_when_its_client_goes_away(agent):
    e = Exec(agent, {"command": "sleep 61 & sleep 61; sleep 61"})
    pid = e.started()
    e.sock.close()
    wait_for(lambda: not alive(pid))


def test_what_ignores_the_hangup_is_killed(agent):
    e = Exec(agent, {"command": "trap '' HUP; echo ready; while :; do sleep 1; done"})
    pid = e.started()
    while b"ready" not in e.out:
        e.step()
    e.sock.close()
    wait_for(lambda: not alive(pid))


@pytest.mark.parametrize("first, code, exit_code", [
    ({"argv": ["no-such-program"]}, "COMMAND_NOT_FOUND", 127),
    ({"argv": ["/etc/passwd"]}, "COMMAND_EXECUTION_ERROR", 126),
    ({"argv": ["true"], "cwd": "/nope"}, "COMMAND_EXECUTION_ERROR", 126),
    ({"argv": []}, "INVALID_COMMAND", 2),
    ({"argv": [1]}, "VALIDATION_FAILED", 2),
    ({"argv": "x"}, "VALIDATION_FAILED", 2),
    ({}, "INVALID_COMMAND", 2),
    ("{", "INVALID_JSON", 2),
    ("[]", "INVALID_COMMAND", 2),
])
def test_what_cannot_start_says_why(agent, first, code, exit_code):
    e = Exec(agent, first)
    with pytest.raises(Closed) as closed:
        while True:
            e.step()
    assert closed.value.code == 1000
    assert e.texts[0]["type"] == "error" and e.texts[0]["code"] == code and e.texts[0]["exitCode"] == exit_code


@pytest.mark.parametrize("message", [b"bytes first"])
def test_a_first_message_that_is_no_text_is_refused(agent, message):
    e = Exec(agent, message)
    with pytest.raises(Closed) as closed:
        e.step()
    assert closed.value.code == 1008


def test_plain_http_is_refused(agent):
    assert agent.call("GET", "/ws/exec").status in (400, 426)
    assert agent.call("POST", "/ws/exec", "{}").status == 405


def test_refused_is_not_upgraded(agent):
    with socket.create_connection(("127.0.0.1", agent.port)) as s, pytest.raises(Refused):
        WebSocket(s, "/ws/nope")


# ---- the end of the agent


@pytest.fixture
def mortal():
    """An agent that the test ends."""
    a = Agent()
    yield a
    a.close()


def mux(agent):
    sock = socket.create_connection(("127.0.0.1", agent.port), timeout=60)
    ws = WebSocket(sock, "/ws")
    ws.send({"type": "request", "id": "1", "method": "GET", "path": "/api/ping"})
    assert json.loads(ws.receive())["status"] == 200
    return ws


def test_an_idle_socket_is_closed_with_a_code_when_the_agent_stops(mortal):
    ws = mux(mortal)
    mortal.process.terminate()
    with pytest.raises(Closed) as closed:
        ws.receive()
    assert closed.value.code == 1001
    assert mortal.process.wait(60) == 0


def test_a_socket_gets_its_answers_before_it_is_closed(mortal):
    ws = mux(mortal)
    ws.send({"type": "request", "id": "2", "method": "POST", "path": "/api/execute/stream",
             "body": {"command": "trap 'echo bye; exit 3' TERM; echo up; while :; do sleep 0.02; done", "sessionId": "__DISABLE_SESSION__"}})
    said = []
    while not any('"up' in m for m in said):
        said.append(ws.receive())
    mortal.process.terminate()
    with pytest.raises(Closed) as closed:
        while True:
            said.append(ws.receive())
    assert any('"bye' in m for m in said) and json.loads(said[-1])["type"] == "response", said
    assert closed.value.code == 1001


def test_a_socket_gets_the_result_of_a_command_that_had_to_be_killed(mortal):
    ws = mux(mortal)
    ws.send({"type": "request", "id": "2", "method": "POST", "path": "/api/execute/stream",
             "body": {"command": "trap '' TERM HUP; echo up; while :; do sleep 0.02; done", "sessionId": "__DISABLE_SESSION__"}})
    said = []
    while not any('"up' in m for m in said):
        said.append(ws.receive())
    mortal.process.terminate()
    with pytest.raises(Closed) as closed:
        while True:
            said.append(ws.receive())
    assert json.loads(json.loads(said[-2])["data"])["exitCode"] == 137 and json.loads(said[-1])["type"] == "response", said
    assert closed.value.code == 1001


def test_an_idle_terminal_is_closed_with_a_code_when_the_agent_stops(mortal):
    """An interactive shell ignores SIGTERM."""
    ws = WebSocket(socket.create_connection(("127.0.0.1", mortal.port), timeout=60), "/ws/pty?sessionId=t")
    ws.send(b"echo $((6*7))up\n")
    said = []
    while not any(isinstance(m, bytes) and b"42up" in m for m in said):
        said.append(ws.receive())
    mortal.process.terminate()
    with pytest.raises(Closed) as closed:
        while True:
            said.append(ws.receive())
    assert (json.loads(said[-1]), closed.value.code) == ({"type": "exit", "code": 129, "signal": "SIGHUP"}, 1001)


@pytest.mark.parametrize("path, body, last", [
    ("/api/watch", {"path": "/workspace"}, {"type": "stopped", "reason": "The sandbox stops"}),
    ("/api/port-watch", {"port": 1, "mode": "tcp"}, {"type": "error", "port": 1, "error": "The sandbox stops"}),
])
def test_streams_without_an_end_of_their_own_end_with_the_agent(mortal, path, body, last):
    if not os.path.isdir("/workspace"):
        body = {**body, "path": mortal.dir}
    with open_events(mortal, "POST", path, body) as s:
        assert next(iter(s))["type"] == "watching"
        mortal.process.terminate()
        assert list(s)[-1] == last
