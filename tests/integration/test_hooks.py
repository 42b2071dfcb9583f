"""Outbound handlers: requests of a box that a client answers, over the hook's WebSocket. The test is that client."""

import json
import struct
import threading

import pytest
import wsclient

OWN_DAEMON = "it kills the daemon"

REQUEST, BODY, END, GIVE_UP, ANSWER, ANSWER_BODY, ANSWER_END, CREDIT, FAILED, SOCKET, SOCKET_END = range(1, 12)


class Holder:
    """Holds a hook; `handle` gets (method, url, headers, body) and answers (status, headers, body)."""

    def __init__(self, daemon, box, handle):
        self.ws = daemon.websocket(f"/v1/sandboxes/{box}/hook")
        self.handle, self.requests = handle, {}
        self.thread = threading.Thread(target=self.serve, daemon=True)
        self.thread.start()

    def send(self, kind, number, rest=b""):
        self.ws.send(struct.pack(">BI", kind, number) + rest)

    def serve(self):
        try:
            while True:
                message = self.ws.receive()
                kind, number = struct.unpack(">BI", message[:5])
                if kind == REQUEST:
                    self.requests[number] = [json.loads(message[5:]), b""]
                    if not self.requests[number][0]["body"]:
                        self.answer(number)
                elif kind == BODY:
                    self.requests[number][1] += message[5:]
                    self.send(CREDIT, number, struct.pack(">I", len(message) - 5))
                elif kind == END and self.requests[number][0]["body"]:
                    self.answer(number)
        except (OSError, wsclient.Closed):
            pass

    def answer(self, number):
        head, body = self.requests.pop(number)
        status, headers, out = self.handle(head, body)
        self.send(ANSWER, number, json.dumps({"status": status, "headers": headers}).encode())
        if out:
            self.send(ANSWER_BODY, number, out)
        self.send(ANSWER_END, number)


def put(daemon, box, **settings):
    reply = daemon.request("PUT", f"/v1/sandboxes/{box}", settings)
    assert reply.status in (200, 201), reply


def sh(daemon, box, command):
    reply = daemon.request("POST", f"/v1/sandboxes/{box}/api/execute", {"command": command}, timeout=60).json()
    return reply["exitCode"], reply["stdout"] + reply["stderr"]


@pytest.fixture
def box(daemon):
    put(daemon, "h-box", outbound={"http": ["hooked.example", "*.wild.example"], "https": ["hooked.example"]})
    yield "h-box"
    daemon.request("DELETE", "/v1/sandboxes/h-box")


def echo(head, body):
    return 200, [["X-Method", head["method"]], ["Content-Type", "text/plain"]], f"{head['url']} {len(body)}".encode()


def test_a_client_answers(daemon, box):
    Holder(daemon, box, echo)
    assert sh(daemon, box, "curl -sS http://hooked.example/a?b=1") == (0, "http://hooked.example/a?b=1 0")
    assert sh(daemon, box, "curl -sS http://x.wild.example:8080/ --data-binary hello") == (0, "http://x.wild.example:8080/ 5")
    assert sh(daemon, box, "curl -sS https://hooked.example/s") == (0, "https://hooked.example/s 0")
    # Headers that tell the daemon what a request is cannot be forged.
    code, out = sh(daemon, box, "curl -sS http://hooked.example/ -H 'X-Atoll-Hook-Sandbox: other' -H 'X-Atoll-Hook-Url: http://evil/'")
    assert out == "http://hooked.example/ 0"
    # A host that is not hooked is not handed over, and does not exist.
    assert sh(daemon, box, "curl -sS http://other.example/")[0] != 0
    assert daemon.request("GET", f"/v1/sandboxes/{box}").json()["outbound"]["https"] == ["hooked.example"]


def test_expect_is_answered_here(daemon, box):
    """A handler that sends the header on would get 100 for an answer. Its own header without a word is what s3fs sends."""
    seen = []
    Holder(daemon, box, lambda head, body: seen.append(head["headers"]) or echo(head, body))
    data = "head -c 3000000 /dev/zero | curl -sS http://hooked.example/up --data-binary @-"
    for expect in ("Expect: 100-continue", "Expect;", "Expect: :"):
        assert sh(daemon, box, f"{data} -H '{expect}'") == (0, "http://hooked.example/up 3000000"), expect
    assert len(seen) == 3 and not [name for headers in seen for name, _ in headers if name.lower() == "expect"]


def test_nobody_answers(daemon, box):
    code, out = sh(daemon, box, "curl -sS -w ' %{http_code}' http://hooked.example/")
    assert out.startswith("520 ") and out.endswith(" 520"), out


def test_a_request_waits_for_its_handler(daemon, box):
    done = []
    thread = threading.Thread(target=lambda: done.append(sh(daemon, box, "curl -sS http://hooked.example/late")))
    thread.start()
    Holder(daemon, box, echo)
    thread.join(30)
    assert done == [(0, "http://hooked.example/late 0")]


def test_it_outlives_the_daemon(daemon, box):
    Holder(daemon, box, echo)
    assert sh(daemon, box, "curl -sS http://hooked.example/1")[1] == "http://hooked.example/1 0"
    daemon.kill_daemon()
    Holder(daemon, box, echo)
    assert sh(daemon, box, "curl -sS http://hooked.example/2")[1] == "http://hooked.example/2 0"


@pytest.mark.parametrize("outbound", [[], {"http": "x"}, {"other": []}, {"http": [""]}, {"http": ["a/b"]}, {"http": ["x"] * 257}])
def test_bad_settings(daemon, outbound):
    assert daemon.request("PUT", "/v1/sandboxes/h-bad", {"outbound": outbound}).status == 400


def test_a_holder_that_speaks_nonsense(daemon, box):
    ws = daemon.websocket(f"/v1/sandboxes/{box}/hook")
    thread = threading.Thread(target=lambda: (ws.receive(), ws.send(struct.pack(">BI", ANSWER_BODY, 1) + b"x")), daemon=True)
    thread.start()
    code, out = sh(daemon, box, "curl -sS -w ' %{http_code}' http://hooked.example/")
    assert out.endswith(" 520"), out


UPGRADE = ("-H 'Connection: Upgrade' -H 'Upgrade: websocket' -H 'Sec-WebSocket-Version: 13' "
           "-H 'Sec-WebSocket-Key: dGhlIHNhbXBsZSBub25jZQ=='")
SWITCH = json.dumps({"status": 101, "headers": []}).encode()


@pytest.mark.parametrize("headers, kind, rest", [
    ("", ANSWER, SWITCH),  # no WebSocket was asked for
    ("-H 'Connection: Upgrade' -H 'Upgrade: other'", ANSWER, SWITCH),
    (UPGRADE, SOCKET, b"\1hello"),  # before any answer
    (UPGRADE, SOCKET_END, b"\x03\xe8"),
    (UPGRADE, ANSWER, json.dumps({"status": 102, "headers": []}).encode())])
def test_sockets_that_nobody_asked_for(daemon, box, headers, kind, rest):
    ws = daemon.websocket(f"/v1/sandboxes/{box}/hook")
    threading.Thread(target=lambda: ws.send(ws.receive()[:5].replace(b"\1", bytes([kind]), 1) + rest), daemon=True).start()
    assert sh(daemon, box, f"curl -sS -o /dev/null -w '%{{http_code}}' {headers} http://hooked.example/") == (0, "520")


# In the box: prints the code of the close frame.
SOCKET_CLIENT = """import socket
s = socket.create_connection(("hooked.example", 80)); f = s.makefile("rb")
s.sendall(b"GET / HTTP/1.1\\r\\nHost: hooked.example\\r\\nConnection: Upgrade\\r\\nUpgrade: websocket\\r\\n"
          b"Sec-WebSocket-Version: 13\\r\\nSec-WebSocket-Key: dGhlIHNhbXBsZSBub25jZQ==\\r\\n\\r\\n")
print(f.readline().split()[1].decode())
while f.readline().strip(): pass
head = f.read(2); print(head[0], int.from_bytes(f.read(head[1])[:2], "big"))
"""


@pytest.mark.parametrize("then, code", [
    (lambda ws, head: ws.send(bytes([ANSWER_BODY]) + head + b"x"), 1011),
    (lambda ws, head: ws.send(bytes([SOCKET]) + head), 1011),  # a message without its kind
    (lambda ws, head: ws.close(), 1011),
    (lambda ws, head: ws.send(bytes([SOCKET_END]) + head + b"\x0f\xa1bye"), 4001)])
def test_a_socket_ends_with_its_handler(daemon, box, then, code):
    def hold():
        head = ws.receive()[1:5]
        ws.send(bytes([ANSWER]) + head + SWITCH)
        then(ws, head)
    ws = daemon.websocket(f"/v1/sandboxes/{box}/hook")
    threading.Thread(target=hold, daemon=True).start()
    daemon.request("POST", f"/v1/sandboxes/{box}/api/write", {"path": "/tmp/c.py", "content": SOCKET_CLIENT})
    assert sh(daemon, box, "timeout 60 python3 /tmp/c.py") == (0, f"101\n136 {code}\n")


def test_a_hook_ends_with_its_sandbox_also_while_another_client_stays(daemon, box):
    hook = daemon.websocket(f"/v1/sandboxes/{box}/hook")
    stays = daemon.websocket(f"/v1/sandboxes/{box}/ws")
    assert daemon.request("DELETE", f"/v1/sandboxes/{box}").status == 204
    assert hook.sock.recv(1) == b""  # no ping either
    stays.close()
