"""Every route over one WebSocket, as upstream's `transport: 'websocket'` speaks it; and the token in a socket's URL."""

import json

import pytest
from boxapi import NO_SESSION, memory_kb
from wsclient import Closed, Refused, WebSocket

W = "/workspace"


class Mux:
    def __init__(self, api, path="/ws", receive_buffer=None, **options):
        self.ws = api.daemon.websocket(api.path(path), **options)
        self.n, self.waiting = 0, []

    def ask(self, method, path, body=None, headers=None):
        self.n += 1
        message = {"type": "request", "id": f"ws_{self.n}", "method": method, "path": path}
        if body is not None:
            message["body"] = body
        if headers:
            message["headers"] = headers
        self.ws.send(message)
        return message["id"]

    def until(self, done):
        """The first message that fits; others are kept for later questions."""
        for i, message in enumerate(self.waiting):
            if done(message):
                return self.waiting.pop(i)
        while True:
            message = json.loads(self.ws.receive())
            if done(message):
                return message
            self.waiting.append(message)

    def answer(self, ident):
        return self.until(lambda m: m.get("id") == ident and m["type"] in ("response", "error"))

    def call(self, *args, **kwargs):
        return self.answer(self.ask(*args, **kwargs))

    def chunks(self, ident):
        """Data of the stream, then its final message."""
        out = []
        while True:
            message = self.until(lambda m: m.get("id") == ident)
            if message["type"] != "stream":
                return out, message
            out.append(json.loads(message["data"]))

    def __enter__(self):
        return self

    def __exit__(self, *exc):
        self.ws.close()


@pytest.mark.parametrize("path", ["/ws", "/api/ws"])
def test_requests_and_answers(api, path):
    with Mux(api, path) as m:
        answer = m.call("GET", "/api/ping")
        assert answer["type"] == "response" and answer["status"] == 200 and answer["done"] is True
        assert answer["body"]["status"] == "healthy"
        assert m.call("POST", "/api/write", {"path": f"{W}/f", "content": "grüße"})["status"] == 200
        assert m.call("POST", "/api/read", {"path": f"{W}/f"})["body"]["content"] == "grüße"
        answer = m.call("POST", "/api/read", {"path": f"{W}/none"})
        assert answer["status"] == 404 and answer["body"]["code"] == "FILE_NOT_FOUND"
        assert m.call("GET", "/nowhere")["status"] == 404
        assert m.call("GET", "/")["body"].startswith("Atoll")


def test_a_stream(api):
    api.put(f"{W}/f.txt", b"a" * 200_000)
    with Mux(api) as m:
        events, end = m.chunks(m.ask("POST", "/api/read/stream", {"path": f"{W}/f.txt"}))
        assert end == {"type": "response", "id": "ws_1", "status": 200, "done": True}
        assert events[0]["type"] == "metadata" and events[-1]["bytesRead"] == 200_000
        assert sum(len(e["data"]) for e in events if e["type"] == "chunk") == 200_000


def test_many_at_once_and_cancel(api):
    with Mux(api) as m:
        watch = m.ask("POST", "/api/watch", {"path": W})
        first = m.until(lambda x: x.get("id") == watch)
        assert first["type"] == "stream" and json.loads(first["data"])["type"] == "watching"
        asked = [m.ask("POST", "/api/execute", {"command": f"echo {i}", "sessionId": NO_SESSION}) for i in range(30)]
        assert [m.answer(i)["body"]["stdout"] for i in asked] == [f"{i}\n" for i in range(30)]
        m.call("POST", "/api/write", {"path": f"{W}/f", "content": ""})
        assert json.loads(m.until(lambda x: x.get("id") == watch)["data"])["path"] == f"{W}/f"
        m.ws.send({"type": "cancel", "id": watch})
        m.call("POST", "/api/write", {"path": f"{W}/g", "content": ""})
        m.ws.send({"type": "cancel", "id": "unknown"})
        assert m.call("GET", "/api/ping")["status"] == 200
        assert not [x for x in m.waiting if x.get("id") == watch]


def test_long_messages_both_ways(api):
    content = "0123456789abcdef" * (5 << 16)  # 5 MiB in one frame
    with Mux(api) as m:
        assert m.call("POST", "/api/write", {"path": f"{W}/f.txt", "content": content})["status"] == 200
        assert m.call("POST", "/api/read", {"path": f"{W}/f.txt"})["body"]["content"] == content
    api.sh(f"mkdir -p {W}/many && cd {W}/many && : > a && python3 -c 'import os; [os.link(\"a\", str(i)) for i in range(9000)]'")
    with Mux(api) as m:
        # More JSON values than a request may have: an answer is not a request.
        assert m.call("POST", "/api/list-files", {"path": f"{W}/many"})["body"]["count"] == 9001


def test_a_message_that_is_too_long(api):
    with Mux(api) as m:
        with pytest.raises((Closed, ConnectionError)) as e:
            m.ws.send({"type": "request", "id": "x", "method": "POST", "path": "/api/write", "body": {"content": "x" * (33 << 20)}})
            m.ws.receive()
        assert not isinstance(e.value, Closed) or e.value.code in (1009, None)
    api.ok("/api/exists", path="/")


def test_a_client_that_asks_and_does_not_read(api):
    agent = api.agent_pid()
    api.sh(f"head -c 1M /dev/zero | tr '\\0' a > {W}/f.txt")
    with Mux(api) as m:
        m.ws.sock.settimeout(0.5)
        sent = 0
        with pytest.raises(TimeoutError):
            while sent < 20_000:
                m.ask("POST", "/api/read", {"path": f"{W}/f.txt", "else": "x" * 1000})
                sent += 1
        assert sent < 20_000 and memory_kb(agent, "VmRSS") < 200_000
    api.ok("/api/exists", path="/")


@pytest.mark.parametrize("message, code", [
    ("{", "PARSE_ERROR"),
    ("", "PARSE_ERROR"),
    ("[]", "INVALID_REQUEST"),
    ({"type": "request"}, "INVALID_REQUEST"),
    ({"type": "request", "id": "x" * 200, "method": "GET", "path": "/"}, "INVALID_REQUEST"),
    ({"type": "else", "id": "a"}, "INVALID_REQUEST"),
    ({"type": "request", "id": "a", "method": "GET", "path": "no-slash"}, "INVALID_REQUEST"),
    ({"type": "request", "id": "a", "method": "GET"}, "INVALID_REQUEST"),
    ({"type": "request", "id": "a", "method": 7, "path": "/"}, "INVALID_REQUEST"),
    ({"type": "request", "id": "a", "method": "GET /x HTTP/1.1\r\nX: y", "path": "/api/ping"}, "INVALID_REQUEST"),
    ({"type": "request", "id": "a", "method": "GET", "path": "/api/ping HTTP/1.1\r\nHost: x\r\n\r\nGET /"}, "INVALID_REQUEST"),
    ({"type": "request", "id": "a", "method": "GET", "path": "/api/ping", "headers": {"X-Session-Id": "a\r\nb: c"}}, "INVALID_REQUEST"),
], ids=range(12))
def test_messages_that_are_no_requests(api, message, code):
    with Mux(api) as m:
        m.ws.send(message)
        answer = json.loads(m.ws.receive())
        assert (answer["type"], answer["code"], answer["status"]) == ("error", code, 400), answer
        assert m.call("GET", "/api/ping")["status"] == 200


@pytest.mark.parametrize("path", ["/internal/env", "/internal/env/", "//internal/env", "/%69nternal/env", "/internal/env?x"])
def test_what_is_the_daemons_alone_is_not_reached(api, path):
    with Mux(api) as m:
        assert m.call("PUT", path, {"env": {"PLANTED": "1"}})["status"] in (400, 404)
    assert api.sh("echo [$PLANTED]") == "[]\n"


def test_the_session_may_be_a_header(api):
    api.daemon.execute(api.box, "cd /usr", sessionId="s")
    with Mux(api) as m:
        assert m.call("POST", "/api/exists", {"path": "share"}, {"x-session-id": "s"})["body"]["exists"] is True
        assert m.call("POST", "/api/exists", {"path": "share"})["body"]["exists"] is False


def test_too_many_at_once(api):
    with Mux(api) as m:
        asked = [m.ask("POST", "/api/execute", {"command": "sleep 1000", "sessionId": NO_SESSION}) for _ in range(65)]
        error = m.until(lambda x: x["type"] == "error")
        assert error["id"] == asked[-1] and error["status"] == 429


# ---- the token in the URL of a socket


def socket_by_tcp(api, path):
    return WebSocket(api.daemon.connect(), api.path(path))


@pytest.mark.parametrize("path", ["/ws?token={}", "/api/ws?x=1&token={}", "/ws/pty?sessionId=s&token={}&cols=90", "/ws/pty?sessionId=s&t%6fken={}"])
def test_a_socket_may_have_its_token_in_the_url(api, path):
    ws = socket_by_tcp(api, path.format(api.daemon.token))
    ws.close()
    assert api.daemon.token not in api.daemon.log()


def test_the_box_does_not_see_the_token(api):
    ws = socket_by_tcp(api, f"/ws/pty?token={api.daemon.token}&sessionId=s&token=other&to%6ben={api.daemon.token}&shell=cat")
    ws.close()
    agent = api.agent_pid()
    memory = b""
    with open(f"/proc/{agent}/maps", encoding="ascii") as maps, open(f"/proc/{agent}/mem", "rb") as mem:
        for line in maps:
            where, mode = line.split()[:2]
            start, end = (int(x, 16) for x in where.split("-"))
            if mode.startswith("rw") and end - start < 1 << 30:  # more than that is a sanitizer's shadow
                mem.seek(start)
                memory += mem.read(end - start)
    assert b"sessionId" in memory and api.daemon.token.encode() not in memory


@pytest.mark.parametrize("path", ["/ws", "/ws?token=", "/ws?token=wrong", "/ws/pty?sessionId=s&token=wrong"])
def test_a_socket_without_the_token_is_refused(api, path):
    with pytest.raises(Refused) as e:
        socket_by_tcp(api, path)
    assert e.value.status == 401


def test_the_token_counts_only_for_sockets(api):
    for path in ("/api/ping", "/ws/pty", "/ws"):
        reply = api.daemon.request("GET", api.path(f"{path}?token={api.daemon.token}"), unix=False, token=False)
        assert reply.status == 401
    assert api.daemon.request("GET", f"/v1/sandboxes?token={api.daemon.token}", unix=False, token=False).status == 401
