"""Named tokens: made, used everywhere, listed, revoked, expired."""

import contextlib
import http.client
import json
import os
import subprocess

import atoll as lib
import events
import pytest
import wsclient
from test_console_api import HEADER, sign_in, status

OWN_DAEMON = "it kills the daemon"

LIMIT = 256


def make(daemon, name, **more):
    reply = daemon.request("POST", "/v1/tokens", {"name": name, **more})
    assert reply.status == 201, reply
    return reply.json()["token"]


def bearer(token):
    return {"Authorization": f"Bearer {token}"}


def names(daemon):
    return [t["name"] for t in daemon.request("GET", "/v1/tokens").json()["tokens"]]


@pytest.fixture(autouse=True)
def clean(daemon):
    yield
    for name in names(daemon):
        assert daemon.request("DELETE", f"/v1/tokens/{name}").status in (200, 404)  # 404: it ended with the one that made it
    for box in daemon.boxes():
        assert daemon.destroy(box).status < 300


def test_a_value_is_told_once(daemon):
    reply = daemon.request("POST", "/v1/tokens", {"name": "ci"})
    made = reply.json()
    assert reply.status == 201 and reply.headers["Cache-Control"] == "no-store"
    assert made["token"].startswith("atoll_") and len(made["token"]) == 70 and made["expiresAt"] is None and made["lastUsedAt"] is None
    assert status(daemon, "/v1/sandboxes", bearer(made["token"])) == 200
    listed = daemon.request("GET", "/v1/tokens")
    assert made["token"] not in listed.text and "hash" not in listed.text
    (ci,) = listed.json()["tokens"]
    assert ci["name"] == "ci" and ci["createdAt"] == made["createdAt"] and ci["lastUsedAt"] >= ci["createdAt"]
    stored = b"".join(p.read_bytes() for p in daemon.data.rglob("*.db*") if p.is_file())
    assert b"ci" in stored and made["token"].encode() not in stored
    assert made["token"] != make(daemon, "other")


def test_it_is_valid_wherever_the_first_token_is(daemon):
    token = make(daemon, "all")
    asked = {"jsonrpc": "2.0", "id": 1, "method": "initialize",
             "params": {"protocolVersion": "2025-06-18", "capabilities": {}, "clientInfo": {"name": "t", "version": "1"}}}

    def ask(method, path, body=None, headers=None):
        return daemon.request(method, path, body, headers=headers or bearer(token), unix=False, token=False).status

    assert ask("POST", "/v1/sandboxes/to/api/execute", {"command": "true"}) == 200
    assert ask("POST", "/mcp", asked, {**bearer(token), "Accept": "application/json, text/event-stream"}) == 200
    assert ask("POST", "/v1/sandbox") == 200  # the bridge
    assert ask("GET", "/v1/sandboxes/to/proxy/3000/api/ping") == 200
    assert ask("GET", "/v1/sandboxes/to/proxy/3000/api/ping", headers={"X-Atoll-Token": token}) == 200
    for path in (f"/v1/sandboxes/to/ws/pty?sessionId=s&token={token}", f"/v1/sandboxes/to/rpc?token={token}"):
        socket(daemon, path).close()
    socket(daemon, "/v1/sandboxes/to/ws/pty?sessionId=s", bearer(token)).close()
    assert ask("GET", "/v1/sandboxes?token=" + token, headers={"X": "y"}) == 401  # of a query only on a WebSocket
    # With it, a program makes the next token, and a browser a session.
    assert ask("POST", "/v1/tokens", {"name": "next"}) == 201
    assert status(daemon, "/v1/sandboxes", sign_in(daemon, token=token)) == 200


def socket(daemon, path, headers=None):
    sock = daemon.connect()
    try:
        return wsclient.WebSocket(sock, path, headers, host=daemon.address)
    except BaseException:
        sock.close()
        raise


def cut(terminal):
    with pytest.raises((wsclient.Closed, ConnectionError)):
        while True:
            terminal.receive()
    terminal.close()


def test_a_box_never_sees_it(daemon):
    token = make(daemon, "shy")
    daemon.execute("shy", "true")
    server = ("import http.server\nclass H(http.server.BaseHTTPRequestHandler):\n    def do_GET(self):\n"
              "        text = (self.path + str(self.headers)).encode()\n"
              "        self.send_response(200); self.send_header('Content-Length', str(len(text))); self.end_headers(); self.wfile.write(text)\n"
              "http.server.HTTPServer(('', 8080), H).serve_forever()")
    daemon.request("POST", "/v1/sandboxes/shy/api/write", {"path": "/tmp/s.py", "content": server})
    daemon.request("POST", "/v1/sandboxes/shy/api/process/start", {"command": "python3 /tmp/s.py"})

    def seen(headers):
        reply = daemon.request("GET", "/v1/sandboxes/shy/proxy/8080/x?token=mine", headers=headers, unix=False, token=False)
        return reply.text if reply.status == 200 else None

    text = lib.wait_for(lambda: seen(bearer(token)), "the server in the box")
    assert "token=mine" in text and token not in text
    other = "atoll_" + "0" * 64
    assert other in seen({"X-Atoll-Token": token, **bearer(other)})  # an app's own, of the same form


def test_revoking_acts_at_once(daemon):
    token, kept = make(daemon, "gone"), make(daemon, "kept")
    cookie = sign_in(daemon, token=token)
    link = daemon.request("POST", "/v1/console/links", headers=bearer(token), unix=False, token=False).json()["url"]
    ticket = daemon.request("POST", "/v1/tickets", {"sandbox": "rv", "for": "terminal"}, headers=bearer(token), unix=False, token=False).json()["ticket"]
    stream = http.client.HTTPConnection(daemon.address, timeout=lib.DEADLINE)
    stream.request("GET", "/v1/events?follow=1", headers=bearer(token))
    follower = events.Events(stream, stream.getresponse())
    terminals = [socket(daemon, "/v1/sandboxes/rv/ws/pty?sessionId=s", bearer(token)),
                 socket(daemon, "/v1/sandboxes/rv/ws/pty?sessionId=s", {"Cookie": cookie["Cookie"], "Origin": f"http://{daemon.address}"}),
                 socket(daemon, "/v1/sandboxes/rv/hook", bearer(token))]  # which would go on to read what the box sends
    other = socket(daemon, "/v1/sandboxes/rv/ws/pty?sessionId=s", bearer(kept))
    assert daemon.request("DELETE", "/v1/tokens/gone").json() == {"success": True, "revoked": ["gone"]}
    again = daemon.request("GET", "/v1/sandboxes", headers=bearer(token), unix=False, token=False)
    assert again.status == 401 and "revoked" in again.json()["message"]
    assert status(daemon, "/v1/sandboxes", cookie) == 401
    code = link.partition("#login=")[2]
    assert daemon.request("POST", "/v1/console/session", {"code": code}, headers=HEADER, unix=False, token=False).status == 401
    with pytest.raises(wsclient.Refused):
        socket(daemon, f"/v1/sandboxes/rv/ws/pty?sessionId=s&ticket={ticket}")
    with contextlib.suppress(ConnectionError, http.client.HTTPException):
        for n, _ in enumerate(follower):  # a sample every two seconds
            assert n < 30, "the event stream goes on"
    stream.close()
    for t in terminals:
        cut(t)
    other.send(b"echo still-$((6*7))\n")
    text = b""
    while b"still-42" not in text:
        got = other.receive()
        text += got if isinstance(got, bytes) else b""
    other.close()
    assert names(daemon) == ["kept"]
    assert daemon.request("DELETE", "/v1/tokens/gone").status == 404
    # A token may revoke itself, and hears the answer.
    mine = daemon.request("DELETE", "/v1/tokens/kept", headers=bearer(kept), unix=False, token=False)
    assert mine.status == 200 and status(daemon, "/v1/sandboxes", bearer(kept)) == 401


def make_with(daemon, credentials, name):
    reply = daemon.request("POST", "/v1/tokens", {"name": name}, headers=credentials, unix=False, token=False)
    assert reply.status == 201, reply
    return reply.json()["token"]


def test_tokens_that_it_made_end_with_it(daemon):
    first, other = make(daemon, "first"), make(daemon, "other")
    second = make_with(daemon, bearer(first), "second")
    third = make_with(daemon, sign_in(daemon, token=second), "third")  # through a session in a browser
    fourth = make_with(daemon, bearer(second), "fourth")
    listed = {t["name"]: t["madeBy"] for t in daemon.request("GET", "/v1/tokens").json()["tokens"]}
    assert listed == {"first": None, "other": None, "second": "first", "third": "second", "fourth": "second"}
    terminal = socket(daemon, "/v1/sandboxes/mk/ws/pty?sessionId=s", bearer(third))
    daemon.kill_daemon()  # who made a token outlives it
    lib.wait_for(lambda: daemon.request("GET", "/v1/health").status == 200, "the daemon")
    terminal.close()
    terminal = socket(daemon, "/v1/sandboxes/mk/ws/pty?sessionId=s", bearer(third))
    # Even one of those that end may ask for it, and hears the answer.
    reply = daemon.request("DELETE", "/v1/tokens/first", headers=bearer(fourth), unix=False, token=False)
    assert reply.status == 200 and sorted(reply.json()["revoked"]) == ["first", "fourth", "second", "third"], reply
    assert [status(daemon, "/v1/sandboxes", bearer(t)) for t in (first, second, third, fourth, other)] == [401, 401, 401, 401, 200]
    cut(terminal)
    # The same name is another token, which has made none.
    make(daemon, "first")
    assert daemon.request("DELETE", "/v1/tokens/first").json()["revoked"] == ["first"]
    daemon.kill_daemon()
    lib.wait_for(lambda: daemon.request("GET", "/v1/health").status == 200, "the daemon")
    assert names(daemon) == ["other"]


def test_it_outlives_the_daemon_and_so_does_its_end(daemon):
    token, ended = make(daemon, "stays"), make(daemon, "ends")
    cookie = sign_in(daemon, token=ended)
    daemon.request("DELETE", "/v1/tokens/ends")
    daemon.kill_daemon()
    lib.wait_for(lambda: daemon.request("GET", "/v1/health").status == 200, "the daemon")
    assert status(daemon, "/v1/sandboxes", bearer(token)) == 200
    assert status(daemon, "/v1/sandboxes", bearer(ended)) == 401 and status(daemon, "/v1/sandboxes", cookie) == 401
    assert names(daemon) == ["stays"]


def test_it_expires_with_all_it_made(daemon):
    token = make(daemon, "short", ttl="6s")
    child = daemon.request("POST", "/v1/tokens", {"name": "child"}, headers=bearer(token), unix=False, token=False).json()
    assert (child["madeBy"], child["expiresAt"]) == ("short", None)
    cookie = sign_in(daemon, token=token)
    terminal = socket(daemon, "/v1/sandboxes/ex/ws/pty?sessionId=s", bearer(token))
    cut(terminal)  # with the token
    assert status(daemon, "/v1/sandboxes", bearer(token)) == 401 and status(daemon, "/v1/sandboxes", cookie) == 401
    assert names(daemon) == [] and status(daemon, "/v1/sandboxes", bearer(child["token"])) == 401
    far = daemon.request("POST", "/v1/tokens", {"name": "far", "ttl": "3650d"}).json()
    assert far["expiresAt"] > far["createdAt"] and status(daemon, "/v1/sandboxes", bearer(far["token"])) == 200


@pytest.mark.parametrize("body, field", [({}, "name"), ({"name": "<img src=x onerror=alert(1)>"}, "name"), ({"name": "a b"}, "name"), ({"name": 7}, "name"),
                                         ({"name": "n" * 65}, "name"), ({"name": "../x"}, "name"), ({"name": "a", "ttl": 0}, "ttl"),
                                         ({"name": "a", "ttl": "soon"}, "ttl"), ({"name": "a", "ttl": "3651d"}, "ttl")])
def test_a_wrong_wish_names_its_field(daemon, body, field):
    reply = daemon.request("POST", "/v1/tokens", body)
    assert reply.status == 400 and reply.json()["context"]["validationErrors"][0]["field"] == field, reply
    assert names(daemon) == []


def test_wrong_requests(daemon):
    make(daemon, "n" * 64)
    twice = daemon.request("POST", "/v1/tokens", {"name": "n" * 64})
    assert twice.status == 409 and twice.json()["code"] == "TOKEN_ALREADY_EXISTS"
    assert daemon.request("POST", "/v1/tokens", {"name": "a", "rights": "all"}).status == 400
    assert daemon.request("POST", "/v1/tokens", "{").status == 400
    assert daemon.request("DELETE", "/v1/tokens/none").status == 404
    assert daemon.request("DELETE", "/v1/tokens/%3Cb%3E").status == 400
    assert daemon.request("DELETE", "/v1/tokens/").status == 400
    assert daemon.request("DELETE", "/v1/tokens").status == 405 and daemon.request("GET", "/v1/tokens/none").status == 405
    for method, path in (("GET", "/v1/tokens"), ("POST", "/v1/tokens"), ("DELETE", "/v1/tokens/none")):
        assert status(daemon, path, {}, method) == 401


def test_there_is_a_limit(daemon):
    for i in range(LIMIT):
        make(daemon, f"t{i}")
    over = daemon.request("POST", "/v1/tokens", {"name": "over"})
    assert over.status == 429 and "256" in over.json()["message"]
    assert names(daemon) == [f"t{i}" for i in range(LIMIT)]


def test_the_audit_names_the_token(daemon):
    token = make(daemon, "named")
    cookie = sign_in(daemon, token=token)
    daemon.request("PUT", "/v1/sandboxes/au2", {}, headers=bearer(token), unix=False, token=False)
    daemon.request("PUT", "/v1/sandboxes/au2", {}, headers=cookie, unix=False, token=False)
    daemon.request("PUT", "/v1/sandboxes/au2", {}, unix=False)
    daemon.request("PUT", "/v1/sandboxes/au2", {})
    records = [r for r in daemon.request("GET", "/v1/audit").json()["records"] if r.get("sandbox") == "au2"]
    assert [(r["by"], r.get("token")) for r in records] == [("token", "named"), ("console", "named"), ("token", None), ("socket", None)]
    assert {r["door"] for r in records} == {"api"}
    assert [(r.get("uid"), r.get("address")) for r in records] == [(None, "127.0.0.1")] * 3 + [(os.getuid(), None)]
    assert token not in json.dumps(records)
    (session,) = [s for s in daemon.request("GET", "/v1/console/sessions").json()["sessions"] if "token" in s]
    assert session["token"] == "named"


def cli(daemon, *words, code=0):
    r = subprocess.run([lib.BIN / "atoll", "token", *words], env=daemon.env, capture_output=True, text=True, check=False, timeout=lib.DEADLINE)
    assert r.returncode == code, r
    return r.stdout if not code else r.stderr


def test_the_command_line(daemon):
    assert cli(daemon) == ""
    token = cli(daemon, "create", "cli", "--ttl", "1h").strip()
    assert status(daemon, "/v1/sandboxes", bearer(token)) == 200
    listed = cli(daemon, "list")
    assert "cli" in listed and token not in listed and "EXPIRES" in listed
    assert json.loads(cli(daemon, "list", "--json"))["tokens"][0]["name"] == "cli"
    assert "already" in cli(daemon, "create", "cli", code=1)
    assert "name" in cli(daemon, "create", "<b>", code=1)
    assert "ttl" in cli(daemon, "create", "x", "--ttl", "soon", code=1)
    for wrong in (["make"], ["create"], ["rm"], ["create", "a", "b"], ["list", "a"], ["rm", "a", "--ttl", "1h"]):
        cli(daemon, *wrong, code=2)
    assert "token list" in cli(daemon, "rm", "none", code=1)
    make_with(daemon, bearer(token), "made")
    assert cli(daemon, "list").splitlines()[2].split()[-1] == "cli"
    assert cli(daemon, "rm", "cli").split() == ["made", "cli"]
    assert status(daemon, "/v1/sandboxes", bearer(token)) == 401
