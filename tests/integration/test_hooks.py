"""Outbound handlers: requests of a box that a client answers, over the hook's WebSocket. The test is that client."""

import json
import struct
import threading

import pytest
import wsclient

REQUEST, BODY, END, GIVE_UP, ANSWER, ANSWER_BODY, ANSWER_END, CREDIT, FAILED = range(1, 10)


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
