"""The command line against a peer that answers with whatever harms: nothing of it reaches a terminal unescaped, and
nothing hangs or crashes. The peer is no daemon of ours on purpose."""

import json
import os
import re
import subprocess
import threading
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

import pytest
from atoll import BIN
from ttylib import Terminal

EVIL = "\x1b]0;owned\x07\x1b[2J\u009b31m\u202e\r\nx"
RAW = ("\x1b", "\x07", "\u009b", "\u202e")


class Peer(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"
    answer = None  # (status, content type, bytes)

    def reply(self):
        length = int(self.headers.get("Content-Length") or 0)
        self.rfile.read(length)
        status, kind, body = self.answer(self.command, self.path)
        self.send_response(status)
        self.send_header("Content-Type", kind)
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    do_GET = do_POST = do_PUT = do_DELETE = reply

    def log_message(self, *args):
        pass


@pytest.fixture
def peer():
    """Starts a server whose answers a function makes; returns a way to run the command line against it."""
    servers = []

    def start(answer):
        handler = type("Handler", (Peer,), {"answer": lambda self, method, path: answer(method, path)})
        server = ThreadingHTTPServer(("127.0.0.1", 0), handler)
        servers.append(server)
        threading.Thread(target=server.serve_forever, args=(0.01,), daemon=True).start()
        env = {k: v for k, v in os.environ.items() if not k.startswith("ATOLL_")}
        env.update(ATOLL_URL=f"http://127.0.0.1:{server.server_port}", ATOLL_TOKEN="t", NO_COLOR="1")

        def run(*args):
            return subprocess.run([BIN / "atoll", *args], env=env, capture_output=True, timeout=60, stdin=subprocess.DEVNULL,
                                  check=False)

        run.env = env
        return run

    yield start
    for server in servers:
        server.shutdown()
        server.server_close()


def as_json(value, status=200):
    return status, "application/json", json.dumps(value).encode()


def events(*values):
    return 200, "text/event-stream", b"".join(b"data: " + json.dumps(v).encode() + b"\n\n" for v in values)


BOX = {"id": EVIL, "state": EVIL, "image": EVIL, "createdAt": EVIL, "limits": {"memory": 1, "cpu": 1e308, "pids": 1},
       "usage": {"memory": 1, "cpuSeconds": -1e308}, "labels": {EVIL: EVIL}, "envNames": [EVIL], "reason": EVIL}
FILE = {"name": EVIL, "relativePath": EVIL, "type": EVIL, "size": 1, "modifiedAt": EVIL, "mode": EVIL}


def evil(method, path):
    if "/api/" not in path:
        return as_json({"sandboxes": [BOX], "next": None}) if path.startswith("/v1/sandboxes?") else as_json(BOX)
    if "/stream" in path or "/watch" in path:
        return events({"type": "event", "eventType": EVIL, "path": EVIL}, {"type": "error", "error": EVIL})
    if "execute/code" in path:
        return 400, "application/json", json.dumps({"error": EVIL, "code": EVIL}).encode()
    return as_json({"processes": [{"id": EVIL, "status": EVIL, "command": EVIL, "startTime": EVIL, "pid": 1}], "data": [EVIL],
                    "sessionId": EVIL, "processId": EVIL, "files": [FILE], "targetDir": EVIL, "branch": EVIL, "contextId": "c"})


CALLS = [["list"], ["list", "-q"], ["inspect", "b"], ["stats"], ["ps", "b"], ["ps", "-q", "b"], ["sessions", "b"],
         ["sessions", "b", "create"], ["env", "b"], ["exec", "b", "-d", "--", "x"], ["ls", "-l", "b"], ["ls", "-lR", "b"],
         ["watch", "b"], ["git", "b", "clone", "u"], ["code", "b", "-c", "1"], ["logs", "b", "p"], ["ports", "b"]]


@pytest.mark.parametrize("args", CALLS, ids=" ".join)
def test_escape_sequences_are_escaped(peer, args):
    if args[0] == "ls":  # a pipe gets names as they are, so at a terminal
        with Terminal([BIN / "atoll", *args], {**peer(evil).env, "NO_COLOR": ""}) as t:
            t.exit_code()
        shown = t.out.decode(errors="replace")
        for style in ("\x1b[0m", "\x1b[32m"):
            shown = shown.replace(style, "")
    else:
        r = peer(evil)(*args)
        assert r.returncode in (0, 1, 125), r
        shown = r.stdout.decode(errors="replace") + r.stderr.decode(errors="replace")
    assert (shown or args[0] == "ports") and not [c for c in RAW if c in shown], shown


@pytest.mark.parametrize("args", CALLS, ids=" ".join)
def test_errors_and_their_advice_are_cleaned(peer, args):
    body = {"code": EVIL, "message": EVIL, "suggestion": EVIL, "error": EVIL, "context": {"stdout": EVIL}}
    r = peer(lambda method, path: as_json(body, 500))(*args)
    assert r.returncode in (1, 125) and r.stdout == b""
    assert not [c for c in RAW if c in r.stderr.decode(errors="replace")] and b"owned" in r.stderr


@pytest.mark.parametrize("body", [b"", b"null", b"\x1b[2J", b"[" * 100000, b'{"files":[{}]}', b'{"files":[1,[2],{"a":{"b":[]}}]}',
                                  b'{"sandboxes":1,"processes":"x","data":{},"files":"\\u0000","envNames":[null]}'])
def test_answers_that_make_no_sense(peer, body):
    run = peer(lambda method, path: (200, "application/json", body))
    for args in CALLS + [["ls", "--json", "b"], ["ps", "--json", "b"], ["logs", "-f", "b", "p"]]:
        r = run(*args)
        assert r.returncode in (0, 1, 125), (args, r)
        assert b"\x1b" not in r.stdout + r.stderr


# ---- servers that are not Atoll, or not this one

PAGE = 200, "text/html", b"<!doctype html><title>It works!</title>"


@pytest.mark.parametrize("answer", [PAGE, (404, "text/html", b"<h1>Not Found</h1>"), (502, "text/plain", b"Bad Gateway"),
                                    (404, "application/json", b'{"detail": "Not Found"}')], ids=["page", "404", "502", "json"])
@pytest.mark.parametrize("args", [*CALLS, ["create", "b"], ["rm", "b"], ["exec", "b", "true"], ["env", "--export"], ["volume", "rm", "v"]], ids=" ".join)
def test_another_server_is_told_with_what_to_do(peer, args, answer):
    r = peer(lambda method, path: answer)(*args)
    assert r.returncode in (1, 125) and r.stdout == b"", r
    assert b"not as Atoll does" in r.stderr and b"ATOLL_URL" in r.stderr, r


def other_version(method, path):
    if path == "/v1/health":
        return as_json({"status": "ok", "version": "0.0.9"})
    return as_json({"code": "NOT_FOUND", "message": f"no route {path}", "suggestion": "Check the path"}, 404)


def test_a_daemon_of_another_version_is_told(peer):
    r = peer(other_version)("volume", "ls")
    assert r.returncode == 1 and re.search(rb"has version 0\.0\.9, this program \d+\.\d+\.\d+: update the older one", r.stderr), r
    r = peer(other_version)("volume", "ls", "--json")
    assert "0.0.9" in json.loads(r.stderr)["suggestion"]
