"""Requests on their way into a box: passed on as they are, streamed both ways, and never trusting what comes back.

For the last part the test takes the agent's place: a box is made, and before anything has connected to its agent, the
test binds that socket's path itself and answers like an agent that was taken over."""

import contextlib
import hashlib
import json
import os
import select
import socket
import threading
import time

import pytest
from atoll import DEADLINE, box_path, still, wait_for
from boxapi import check_error
from wsclient import Closed, Refused


def read_head(conn):
    data = b""
    while b"\r\n\r\n" not in data:
        chunk = conn.recv(65536)
        if not chunk:
            return data, b""
        data += chunk
    return tuple(data.split(b"\r\n\r\n", 1))


class FakeAgent:
    """Listens where the box's agent did. Each connection is given to `handle(conn)` in a thread of its own."""

    def __init__(self, daemon, box, handle):
        assert daemon.request("PUT", box_path(box)).status == 201
        path, self.handle = find_agent(daemon), handle
        real = path.stat()
        path.unlink()
        self.server = socket.socket(socket.AF_UNIX)
        self.server.bind(str(path))
        os.chown(path, real.st_uid, real.st_gid)
        self.server.listen(128)
        self.conns = []
        threading.Thread(target=self.serve, daemon=True).start()

    def serve(self):
        with contextlib.suppress(OSError):
            while True:
                conn, _ = self.server.accept()
                conn.settimeout(DEADLINE)
                self.conns.append(conn)
                threading.Thread(target=self.one, args=(conn,), daemon=True).start()

    def one(self, conn):
        with contextlib.suppress(OSError), conn:
            self.handle(conn)

    def close(self):
        self.server.close()
        for c in self.conns:
            c.close()


def find_agent(daemon):
    """The one socket that answers: slots that are only prepared listen too, but nobody accepts there yet."""
    with contextlib.ExitStack() as stack:
        asked = {}
        for path in (daemon.run / "s").glob("*.sock"):
            s = stack.enter_context(socket.socket(socket.AF_UNIX))
            with contextlib.suppress(OSError):
                s.connect(str(path))
                s.sendall(b"GET /api/ping HTTP/1.1\r\nHost: x\r\n\r\n")
                asked[s] = path
        ready, _, _ = select.select(list(asked), [], [], DEADLINE)
        answered = [asked[s] for s in ready if s.recv(15) == b"HTTP/1.1 200 OK"]
    assert len(answered) == 1
    return answered[0]


@pytest.fixture
def fake(daemon, box):
    made = []

    def make(handle):
        made.append(FakeAgent(daemon, box, handle))
        return made[0]

    yield make
    for agent in made:
        agent.close()


def answer(data, close=True):
    def handle(conn):
        read_head(conn)
        conn.sendall(data)
        if not close:
            time.sleep(DEADLINE)  # nobody waits for it: the connection stays open while the test lasts
    return handle


# ---- passed on


def test_method_path_query_and_body_arrive_and_credentials_do_not(daemon, box, fake):
    seen = []

    def handle(conn):
        head, body = read_head(conn)
        while len(body) < 11:
            body += conn.recv(100)
        seen.append((head, body))
        conn.sendall(b"HTTP/1.1 207 Multi-Status\r\nX-Own: yes\r\nContent-Length: 2\r\n\r\nok")

    fake(handle)
    r = daemon.request("PATCH", box_path(box, "/api/a%2Fb//c?x=%20y&z"), b"hello world", unix=False,
                       headers={"X-Sandbox-Id": "forged", "X-Trace-Id": "t1", "Cookie": "a=b"})
    assert (r.status, r.body, r.headers["X-Own"]) == (207, b"ok", "yes")
    [(head, body)] = seen
    lines = head.decode().split("\r\n")
    assert lines[0] == "PATCH /api/a%2Fb//c?x=%20y&z HTTP/1.1"
    headers = [tuple(line.split(": ", 1)) for line in lines[1:]]
    lower = [name.lower() for name, _ in headers]
    assert "authorization" not in lower and daemon.token not in head.decode()
    assert [v for n, v in headers if n.lower() == "x-sandbox-id"] == [box]
    assert ("X-Trace-Id", "t1") in headers and "cookie" not in lower  # cookies may hold the console's session
    assert body == b"hello world"


def test_a_command_with_a_megabyte_of_output(daemon, box):
    r = daemon.execute(box, "head -c 1000000 /dev/zero | tr '\\0' x")
    assert r["stdout"] == "x" * 1_000_000


def test_large_bodies_stream_both_ways(daemon, box):
    data = os.urandom(1 << 20) * 24
    r = daemon.request("PUT", box_path(box, "/api/file?path=/workspace/big"), data)
    assert r.status == 200, r
    back = daemon.request("GET", box_path(box, "/api/file?path=/workspace/big"))
    assert hashlib.sha256(back.body).digest() == hashlib.sha256(data).digest()


def test_a_body_that_comes_before_its_box_is_there_is_kept(daemon, box):
    """Sent in pieces while the box is made: paused, not lost."""
    body = json.dumps({"path": "/workspace/f", "content": "y" * 300_000}).encode()
    with daemon.connect(unix=True) as s:
        s.sendall(f"POST {box_path(box, '/api/write')} HTTP/1.1\r\nHost: x\r\nContent-Type: application/json\r\n"
                  f"Content-Length: {len(body)}\r\nConnection: close\r\n\r\n".encode() + body[:1000])
        s.sendall(body[1000:])
        out = b""
        while chunk := s.recv(65536):
            out += chunk
    assert out.startswith(b"HTTP/1.1 200"), out
    assert daemon.execute(box, "wc -c </workspace/f")["stdout"].strip() == "300000"


def test_websockets_pass(daemon, box):
    for unix in (True, False):
        with daemon.websocket(box_path(box, "/ws/exec"), unix=unix) as ws:
            ws.send({"argv": ["cat"]})
            ws.send(b"x" * 200_000)
            ws.send({"type": "eof"})
            out, last = b"", None
            with pytest.raises(Closed):
                while True:
                    message = ws.receive()
                    if isinstance(message, bytes):
                        out += message[1:]
                    else:
                        last = json.loads(message)
            assert out == b"x" * 200_000 and last["exitCode"] == 0


def test_a_websocket_without_the_token_is_refused(daemon, box):
    with pytest.raises(Refused) as refused:
        daemon.websocket(box_path(box, "/ws/exec"), unix=False, headers={"Authorization": "Bearer no"})
    assert refused.value.status == 401 and daemon.inspect(box) is None


def test_two_hundred_clients_of_one_box(daemon, box):
    daemon.execute(box, "true")
    conns = []
    try:
        for i in range(200):
            s = daemon.connect(unix=True)
            s.sendall(f"GET {box_path(box, '/api/ping')}?n={i} HTTP/1.1\r\nHost: x\r\n\r\n".encode())
            conns.append(s)
        assert all(s.recv(65536).startswith(b"HTTP/1.1 200 OK") for s in conns)
    finally:
        for s in conns:
            s.close()


def test_a_client_that_leaves_frees_its_place(daemon, box):
    daemon.execute(box, "true")

    def entered():
        line = [x for x in daemon.request("GET", "/metrics").text.splitlines() if x.startswith("process_open_fds")][0]
        return int(line.split()[1])

    before = entered()
    conns = []
    for _ in range(30):
        s = daemon.connect(unix=True)
        s.sendall(f"POST {box_path(box, '/api/execute')} HTTP/1.1\r\nHost: x\r\nContent-Length: 22\r\n\r\n"
                  '{"command":"sleep 30"}'.encode())
        conns.append(s)
    wait_for(lambda: entered() >= before + 50, "all are inside")
    for s in conns:
        s.close()
    wait_for(lambda: entered() <= before + 8, "their connections are gone on both sides")


# ---- what a hostile agent may try

GOOD = b"HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nok"


@pytest.mark.parametrize("reply", [
    b"garbage\r\n\r\n",
    b"HTTP/1.1 200 OK\r\nContent-Length: 2\r\nContent-Length: 3\r\n\r\nok",
    b"HTTP/1.1 200 OK\r\nContent-Length: 2\r\nTransfer-Encoding: chunked\r\n\r\nok",
    b"HTTP/1.1 200 OK\r\nContent-Length: -1\r\n\r\n",
    b"HTTP/1.1 200 OK\r\nX: a\r\n b\r\nContent-Length: 0\r\n\r\n",
    b"HTTP/1.1 200 OK\nContent-Length: 0\n\n",
    b"HTTP/1.1 999999 OK\r\n\r\n",
    b"HTTP/1.1 101 Switching Protocols\r\nUpgrade: websocket\r\nConnection: Upgrade\r\n\r\n",
    b"HTTP/1.1 200 OK\r\n" + b"X-A: " + b"a" * 100_000 + b"\r\n\r\n",
    b"HTTP/1.1 200 OK\r\n" + b"X-A: b\r\n" * 500 + b"\r\n",
    b"HTTP/1.1 200 OK\r\nX-\x00: b\r\n\r\n",
    b"HTTP/1.1 200 OK\r\nX-A: b\rc\r\n\r\n",
], ids=range(12))
def test_an_answer_that_is_none_is_502(daemon, box, fake, reply):
    fake(answer(reply))
    r = daemon.request("GET", box_path(box, "/api/x"))
    assert (r.status, r.json()["code"]) == (502, "BAD_GATEWAY"), r


def test_headers_of_an_answer_cannot_make_a_second_one(daemon, box, fake):
    """What follows a complete answer is not passed on, and its connection is not used again."""
    fake(answer(GOOD + b"HTTP/1.1 200 OK\r\nContent-Length: 4\r\n\r\nevil", close=False))
    with daemon.connect(unix=True) as s:
        for _ in range(3):
            s.sendall(f"GET {box_path(box, '/api/x')} HTTP/1.1\r\nHost: x\r\n\r\n".encode())
            out = b""
            while not out.endswith(b"ok"):
                out += s.recv(65536)
            assert b"evil" not in out


@pytest.mark.parametrize("reply", [b"", b"HTTP/1.1 200 OK\r\nContent-Le"], ids=["nothing", "half a head"])
def test_an_agent_that_closes_before_its_answer_is_lost(daemon, box, fake, reply):
    fake(answer(reply))
    r = daemon.request("POST", box_path(box, "/api/x"), b"x")
    assert (r.status, r.json()["code"]) == (500, "CONTAINER_LOST"), r


@pytest.mark.parametrize("reply", [
    b"HTTP/1.1 200 OK\r\nContent-Length: 100\r\n\r\nonly this",
    b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n5\r\nhello\r\n",
    b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\nzz\r\nhello\r\n0\r\n\r\n",
], ids=["length", "chunks", "bad chunk"])
def test_an_answer_that_breaks_off_is_never_ended_cleanly(daemon, box, fake, reply):
    fake(answer(reply))
    raw = daemon.raw(f"GET {box_path(box, '/api/x')} HTTP/1.1\r\nHost: x\r\nConnection: close\r\n\r\n".encode(), unix=True)
    head, body = raw.split(b"\r\n\r\n", 1)
    assert head.startswith(b"HTTP/1.1 200")
    length = [line for line in head.split(b"\r\n") if line.lower().startswith(b"content-length")]
    assert len(body) < 100 if length else not body.endswith(b"0\r\n\r\n")


def test_an_endless_answer_to_a_stalled_reader_costs_little(daemon, box, fake):
    sent = [0]

    def handle(conn):
        read_head(conn)
        conn.sendall(b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n")
        conn.settimeout(2)
        while True:
            conn.sendall(b"10000\r\n" + b"x" * 65536 + b"\r\n")
            sent[0] += 65536

    fake(handle)
    with daemon.connect(unix=True) as s:
        s.sendall(f"GET {box_path(box, '/api/x')} HTTP/1.1\r\nHost: x\r\n\r\n".encode())
        last = still(lambda: sent[0], "the agent's answer")
        assert last < 1_500_000
        for _ in range(100):  # and it goes on when the reader does
            assert s.recv(65536)
        wait_for(lambda: sent[0] > last, "the agent's answer goes on")


def test_many_statuses_make_few_series(daemon, box, fake):
    numbers = iter(range(200, 600))

    def handle(conn):
        while True:
            head, _ = read_head(conn)
            if not head:
                return
            conn.sendall(b"HTTP/1.1 %d X\r\nContent-Length: 0\r\n\r\n" % next(numbers))

    fake(handle)
    for _ in range(300):
        daemon.request("GET", box_path(box, "/api/x"))
    r = daemon.request("GET", "/metrics")
    assert r.status == 200 and len(r.body) < 200_000


# ---- X-Atoll-If-Started


def test_a_request_for_one_life_of_a_sandbox_starts_no_other(daemon, box):
    def ask(life, sandbox=box):
        return daemon.request("GET", box_path(sandbox, "/api/ping"), headers={"X-Atoll-If-Started": life})

    daemon.execute(box, "true")
    life = daemon.inspect(box)["startedAt"]
    assert ask(life).status == 200
    for other in ("2000-01-01T00:00:00.000Z", life + "x", "never"):
        check_error(ask(other), "INVALID_STATE", 409)
    assert daemon.request("POST", box_path(box, "/sleep")).status == 200
    assert ask(life).status == 200  # a sleeper is in the same life
    assert daemon.request("POST", box_path(box, "/stop")).status == 200
    check_error(ask(life), "INVALID_STATE", 409)
    assert daemon.inspect(box)["state"] == "stopped"
    daemon.execute(box, "true")
    check_error(ask(life), "INVALID_STATE", 409)
    check_error(ask(life, "never-made"), "INVALID_STATE", 409)
    assert "never-made" not in daemon.boxes()


def test_a_box_that_has_just_ended_is_not_started_for_a_request_of_its_life(daemon, box):
    daemon.execute(box, "true")
    life = daemon.inspect(box)["startedAt"]
    daemon.execute_alone(box, "kill -TERM 1")
    r = daemon.request("GET", box_path(box, "/api/ping"), headers={"X-Atoll-If-Started": life})
    while r.status == 200:  # it ends in order, and answers until then
        r = daemon.request("GET", box_path(box, "/api/ping"), headers={"X-Atoll-If-Started": life})
    assert r.json()["code"] in ("INVALID_STATE", "CONTAINER_LOST", "CONTAINER_UNAVAILABLE"), r
    wait_for(lambda: daemon.inspect(box)["state"] == "stopped", "the end of the box")
