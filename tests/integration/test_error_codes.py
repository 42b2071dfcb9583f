"""Requests that are refused before any route sees them: status and code, in upstream's envelope."""

import email
import json

import pytest
from atoll import Reply, box_path
from boxapi import check_error

REFUSED = [
    ("a method nobody knows", b"BREW / HTTP/1.1\r\nHost: x\r\n\r\n", 501, "NOT_IMPLEMENTED"),
    ("another expectation", b"POST /v1/health HTTP/1.1\r\nHost: x\r\nExpect: cake\r\nContent-Length: 1\r\n\r\n", 417, "EXPECTATION_FAILED"),
    ("a head of 100 KB", b"GET / HTTP/1.1\r\nHost: x\r\nX: " + b"y" * 100_000 + b"\r\n\r\n", 431, "HEADERS_TOO_LARGE"),
    ("a thousand headers", b"GET / HTTP/1.1\r\nHost: x\r\n" + b"X: y\r\n" * 1000 + b"\r\n", 431, "HEADERS_TOO_LARGE"),
    ("a path of 50 KB", b"GET /" + b"y" * 50_000 + b" HTTP/1.1\r\nHost: x\r\n\r\n", 414, "URI_TOO_LONG"),
    ("another version", b"GET / HTTP/3.0\r\nHost: x\r\n\r\n", 505, "HTTP_VERSION_NOT_SUPPORTED"),
    ("no host", b"GET / HTTP/1.1\r\n\r\n", 400, "INVALID_REQUEST"),
]


def parse(answer):
    head, _, body = answer.partition(b"\r\n\r\n")
    return Reply(int(head.split()[1]), email.message_from_bytes(head.split(b"\r\n", 1)[1]), body)


@pytest.mark.parametrize("data, status, code", [r[1:] for r in REFUSED], ids=[r[0] for r in REFUSED])
def test_refused_by_the_server(daemon, data, status, code):
    check_error(parse(daemon.raw(data, unix=True)), code, status)


def test_an_old_websocket(daemon, box):
    daemon.execute(box, "true")
    head = (f"GET {box_path(box, '/ws')} HTTP/1.1\r\nHost: localhost\r\nUpgrade: websocket\r\nConnection: upgrade, close\r\n"
            "Sec-WebSocket-Version: 8\r\nSec-WebSocket-Key: dGhlIHNhbXBsZSBub25jZQ==\r\n\r\n")
    answer = daemon.raw(head.encode(), unix=True)
    assert answer.startswith(b"HTTP/1.1 426 ") and b"sec-websocket-version: 13\r\n" in answer.lower()
    assert json.loads(answer.partition(b"\r\n\r\n")[2])["code"] == "UPGRADE_REQUIRED"
