"""WebSockets and other upgrades through the proxy: tunnels with both ends in the hands of the test."""

import contextlib
import socket

import boxapp
import pytest
from atoll import wait_for
from boxapi import memory_kb
from boxapp import Client, grown_kb, noted
from wsclient import Refused

# `ws`, as in the image's Node, would need npm: the handshake is three lines, and the frames are echoed unmasked.
WS_ECHO = """
const crypto = require('crypto');
require('http').createServer((q, s) => s.end(JSON.stringify(q.headers))).on('upgrade', (q, sock, first) => {
    if (q.url.startsWith('/no')) return sock.end('HTTP/1.1 403 Forbidden\\r\\nContent-Length: 2\\r\\n\\r\\nno');
    const key = crypto.createHash('sha1').update(q.headers['sec-websocket-key'] + '258EAFA5-E914-47DA-95CA-C5AB0DC85B11');
    sock.write('HTTP/1.1 101 Switching Protocols\\r\\nUpgrade: websocket\\r\\nConnection: Upgrade\\r\\nX-Url: ' + q.url +
        '\\r\\nX-Auth: ' + (q.headers.authorization || 'none') + '\\r\\nX-Proto: ' + q.headers['x-forwarded-proto'] +
        '\\r\\nSec-WebSocket-Accept: ' + key.digest('base64') + '\\r\\n\\r\\n');
    let data = first;
    const echo = () => {
        while (data.length >= 2) {
            let n = data[1] & 127, at = 2;
            if (n === 126) { if (data.length < 4) return; n = data.readUInt16BE(2); at = 4; }
            if (data.length < at + 4 + n) return;
            const mask = data.subarray(at, at + 4), body = Buffer.from(data.subarray(at + 4, at + 4 + n));
            for (let i = 0; i < n; i++) body[i] ^= mask[i & 3];
            const head = n < 126 ? Buffer.from([data[0], n]) : Buffer.from([data[0], 126, n >> 8, n & 255]);
            sock.write(Buffer.concat([head, body]));
            data = data.subarray(at + 4 + n);
        }
    };
    echo();
    sock.on('data', d => { data = Buffer.concat([data, d]); echo(); });
    sock.on('error', () => {});
}).listen(8080, '127.0.0.1');
"""

RAW_ECHO = """
def handle(c):
    h, rest = head(c)
    note("upgrade %d" % (b"Connection: upgrade" in h and b"Upgrade: chess" in h))
    c.sendall(b"HTTP/1.1 101 Switching Protocols\\r\\nUpgrade: chess\\r\\nConnection: upgrade\\r\\n\\r\\nhello")
    total = len(rest)
    c.sendall(rest)
    while data := c.recv(65536):
        total += len(data)
        c.sendall(data)
    note("read to the end after %d" % total)
    c.sendall(b"bye")
"""
CHESS = b"Connection: Upgrade\r\nUpgrade: chess\r\n"


def test_a_websocket_echoes(daemon, api):
    app = boxapp.node(api, 8080, WS_ECHO)
    with contextlib.closing(daemon.websocket(app.path("/chat?a=1"), unix=False).sock) as sock:
        del sock
    for unix in (True, False):
        ws = daemon.websocket(app.path("/chat"), unix=unix)
        with contextlib.closing(ws.sock):
            for message in ("hi", b"\x00\xff" * 100, "é" * 20000, ""):
                ws.send(message)
                assert ws.receive() == message


def test_the_token_of_a_websocket_may_stand_in_its_url(daemon, api):
    app = boxapp.node(api, 8080, WS_ECHO)

    def handshake(query):
        with Client(app) as c:
            c.sock.sendall(f"GET {app.path('/chat' + query)} HTTP/1.1\r\nHost: localhost\r\nConnection: Upgrade\r\nUpgrade: websocket\r\n"
                           f"Sec-WebSocket-Version: 13\r\nSec-WebSocket-Key: AAAAAAAAAAAAAAAAAAAAAA==\r\n\r\n".encode())
            return c.until(b"\r\n\r\n").decode()

    for query in ("", "?token=x", "?token=", f"?xtoken={daemon.token}"):
        assert " 401 " in handshake(query)
    # It is taken out, however it is written; what the app calls token stays.
    for query, left in ((f"?a=1&token={daemon.token}&token=own", "?a=1&token=own"), (f"?token={daemon.token}", ""),
                        (f"?token={daemon.token}&to%6ben={daemon.token}", "")):
        answer = handshake(query)
        assert " 101 " in answer and f"X-Url: /chat{left}\r\n" in answer, (query, answer)
        assert "X-Auth: none\r\n" in answer and daemon.token not in answer


def test_an_upgrade_that_the_server_declines(daemon, api):
    app = boxapp.node(api, 8080, WS_ECHO)
    with pytest.raises(Refused) as refused:
        daemon.websocket(app.path("/no"))
    assert refused.value.status == 403
    with pytest.raises(Refused) as refused:
        daemon.websocket(boxapp.App(api, 8099).path("/"))
    assert refused.value.status == 502


def test_any_protocol_becomes_a_tunnel(api):
    app = boxapp.raw(api, 8080, RAW_ECHO)
    for unix in (True, False):
        with Client(app, unix) as c:
            c.ask(headers=CHESS, body=b"too early, but not lost.")
            assert b"Upgrade: chess\r\n" in c.until(b"\r\n\r\nhello")
            c.until(b"too early, but not lost.")
            piece = bytes(range(256)) * 1024
            for _ in range(8):
                c.sock.sendall(piece)
                c.until(piece)
            c.sock.shutdown(socket.SHUT_WR)  # half of it closes, the other half goes on
            assert c.rest() == b"bye"
    wait_for(lambda: app.notes().count("upgrade 1") == 2, "two upgrades")
    wait_for(lambda: sum("read to the end" in n for n in app.notes()) == 2, "two ends")


def test_a_server_that_closes_its_half_can_still_be_written_to(api):
    app = boxapp.raw(api, 8080, """
        def handle(c):
            head(c)
            c.sendall(b"HTTP/1.1 101 Switching Protocols\\r\\nUpgrade: chess\\r\\nConnection: upgrade\\r\\n\\r\\nbye")
            c.shutdown(socket.SHUT_WR)
            data = b""
            while chunk := c.recv(100):
                data += chunk
            note("got " + data.decode())
    """)
    with Client(app) as c:
        c.ask(headers=CHESS).until(b"\r\n\r\n")
        assert c.rest() == b"bye"
        c.sock.sendall(b"still here")
        c.sock.shutdown(socket.SHUT_WR)
        noted(app, "got still here")


def test_the_end_of_one_side_is_the_end_of_the_tunnel(api):
    app = boxapp.raw(api, 8080, """
        def handle(c):
            h, _ = head(c)
            c.sendall(b"HTTP/1.1 101 Switching Protocols\\r\\nUpgrade: chess\\r\\nConnection: upgrade\\r\\n\\r\\n")
            if b"/reset" in h:
                c.recv(1)
                return reset(c)
            while c.recv(1):
                pass
            note("client gone")
    """)
    with Client(app) as c:
        c.ask(headers=CHESS).until(b"\r\n\r\n")
    noted(app, "client gone")
    with Client(app) as c, contextlib.suppress(ConnectionResetError):
        c.ask(path="/reset", headers=CHESS).until(b"\r\n\r\n")
        c.sock.sendall(b"x")
        assert c.rest() == b""


def test_a_tunnel_whose_reader_stalls_holds_little(daemon, api):
    app = boxapp.raw(api, 8080, """
        def handle(c):
            head(c)
            c.sendall(b"HTTP/1.1 101 Switching Protocols\\r\\nUpgrade: chess\\r\\nConnection: upgrade\\r\\n\\r\\n")
            c.settimeout(2)
            total = 0
            try:
                while total < 64 << 20:
                    total += c.send(b"x" * 65536)
            except TimeoutError:
                note("stuck")
    """)
    before = memory_kb(daemon.daemon_pid, "RssAnon")
    with Client(app) as c:
        c.sock.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 65536)
        c.ask(headers=CHESS).until(b"\r\n\r\n")
        noted(app, "stuck")
        assert grown_kb(daemon, before) < 1024
