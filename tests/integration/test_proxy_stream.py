"""The proxy to servers in boxes: bodies both ways, as they flow. Raw clients outside, raw servers inside: what is tested
is what goes over the wire."""

import contextlib
import hashlib
import re
import socket

import boxapp
import pytest
from atoll import DEADLINE, still
from boxapi import memory_kb
from boxapp import Client, grown_kb, noted

DRAIN = """
def handle(c):
    h, rest = head(c)
    total, digest = 0, hashlib.sha256()
    n = [int(l.split(b":")[1]) for l in h.split(b"\\r\\n") if l.lower().startswith(b"content-length:")][0]
    while total < n:
        total += len(rest)
        digest.update(rest)
        rest = c.recv(1 << 20) if total < n else b""
    reply(c, b"%d %s" % (total, digest.hexdigest().encode()))
"""


def test_a_long_upload_arrives_whole_and_is_not_gathered(daemon, api):
    app = boxapp.raw(api, 8080, DRAIN)
    app.get("/", method="POST", body=b"x")
    before = memory_kb(daemon.daemon_pid, "RssAnon")
    size, piece = 32 << 20, bytes(range(256)) * 4096
    digest = hashlib.sha256(piece * (size // len(piece))).hexdigest()
    with Client(app) as c:
        c.ask("POST", headers=b"Content-Length: %d\r\n" % size)
        for _ in range(size // len(piece)):
            c.sock.sendall(piece)
        assert c.until(digest.encode())
    assert grown_kb(daemon, before) < 4096


def test_a_long_answer_goes_as_fast_as_it_is_read(daemon, api):
    app = boxapp.raw(api, 8080, """
        def handle(c):
            head(c)
            c.sendall(b"HTTP/1.1 200 OK\\r\\nContent-Length: %d\\r\\n\\r\\n" % (128 << 20))
            for i in range(128):
                c.sendall(bytes([i]) * (1 << 20))
                note("sent %d" % i)
            note("all sent")
    """)
    before = memory_kb(daemon.daemon_pid, "RssAnon")
    with Client(app) as c:
        c.sock.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 65536)
        c.ask().until(b"\r\n\r\n")
        noted(app, "sent 0")
        assert still(lambda: len(app.notes()), "the server") < 100
        assert grown_kb(daemon, before) < 2048
        c.sock.settimeout(DEADLINE)
        digest = hashlib.sha256(c.data)
        total = len(c.data)
        while total < 128 << 20:
            chunk = c.sock.recv(1 << 20)
            assert chunk
            digest.update(chunk)
            total += len(chunk)
        expected = hashlib.sha256()
        for i in range(128):
            expected.update(bytes([i]) * (1 << 20))
        assert digest.digest() == expected.digest()


def test_events_arrive_one_by_one(api):
    app = boxapp.node(api, 8080, """
        require('http').createServer((q, s) => {
            s.writeHead(200, {'Content-Type': 'text/event-stream'});
            let n = 0;
            q.on('data', () => {});
            s.write('data: ' + n++ + '\\n\\n');
            const next = require('net').createServer(c => { s.write('data: ' + n++ + '\\n\\n'); c.end(); });
            next.listen(8081);
        }).listen(8080, '127.0.0.1');
    """)
    other = boxapp.App(api, 8081)
    with Client(app) as c:
        c.ask().until(b"data: 0\n\n")
        for i in range(1, 4):
            assert c.quiet()
            other.get()  # it answers nothing; what counts is that it was called
            c.until(b"data: %d\n\n" % i)


def test_a_chunked_upload_flows_piece_by_piece(api):
    app = boxapp.raw(api, 8080, """
        def handle(c):
            h, rest = head(c)
            c.sendall(b"HTTP/1.1 200 OK\\r\\nTransfer-Encoding: chunked\\r\\n\\r\\n")
            while not rest.endswith(b"0\\r\\n\\r\\n"):
                if rest:
                    c.sendall(b"%x\\r\\n%s\\r\\n" % (len(rest), rest))
                rest = c.recv(65536)
            c.sendall(b"3\\r\\nend\\r\\n0\\r\\n\\r\\n")
            note(h.decode())
    """)
    with Client(app) as c:
        c.ask("PUT", headers=b"Transfer-Encoding: chunked\r\n")
        for word in (b"one", b"two", b"three"):
            c.sock.sendall(b"%x\r\n%s\r\n" % (len(word), word))
            c.until(word)  # it has been there and back before the next is sent
        c.sock.sendall(b"0\r\n\r\n")
        c.until(b"0\r\n\r\n")
    noted(app, "Transfer-Encoding: chunked")


def test_trailers_pass_both_ways(api):
    app = boxapp.node(api, 8080, """
        require('http').createServer((q, s) => {
            q.resume();
            q.on('end', () => {
                s.writeHead(200, {Trailer: 'X-Sum'});
                s.write(JSON.stringify([q.headers.te, q.trailers]));
                s.addTrailers({'X-Sum': '42'});
                s.end();
            });
        }).listen(8080, '127.0.0.1');
    """)
    with Client(app) as c:
        c.ask("POST", headers=b"Transfer-Encoding: chunked\r\nTE: trailers\r\nConnection: TE\r\nTrailer: X-In\r\n",
              body=b"1\r\na\r\n0\r\nX-In: 7\r\nAuthorization: x\r\n\r\n")
        answer = c.until(b"X-Sum: 42\r\n\r\n")
    assert b'["trailers",{"x-in":"7"}]' in answer and b"Trailer: X-Sum\r\n" in answer


@pytest.mark.parametrize("says", ["continue", "refuses", "nothing"])
def test_expect_continue_is_the_servers_to_answer(api, says):
    app = boxapp.raw(api, 8080, f"""
        SAYS = "{says}"
        def handle(c):
            h, rest = head(c)
            note("expects %d, body %d" % (b"100-continue" in h, len(rest)))
            if SAYS == "continue":
                c.sendall(b"HTTP/1.1 100 Continue\\r\\n\\r\\n")
            if SAYS == "refuses":
                return reply(c, b"no", "403 Forbidden")
            while len(rest) < 5:
                rest += c.recv(100)
            reply(c, rest)
    """)
    with Client(app) as c:
        c.ask("POST", headers=b"Content-Length: 5\r\nExpect: 100-continue\r\n")
        if says == "refuses":
            assert c.until(b"\r\n\r\n").startswith(b"HTTP/1.1 403 ")
            assert c.until(b"no")
        else:
            assert c.until(b"\r\n\r\n") == b"HTTP/1.1 100 Continue\r\n\r\n"
            c.sock.sendall(b"hello")
            c.until(b"\r\n\r\nhello")
    assert app.notes() == ["expects 1, body 0"]


def test_interim_answers_head_and_ranges(api):
    app = boxapp.raw(api, 8080, """
        def handle(c):
            for h in heads(c):
                if h.startswith(b"GET /early"):
                    c.sendall(b"HTTP/1.1 103 Early Hints\\r\\nLink: </a.css>\\r\\n\\r\\nHTTP/1.1 102 Processing\\r\\n\\r\\n")
                    reply(c, b"late")
                elif h.startswith(b"HEAD"):
                    c.sendall(b"HTTP/1.1 200 OK\\r\\nContent-Length: 12345\\r\\nETag: x\\r\\n\\r\\n")
                elif b"Range: bytes=2-4" in h:
                    reply(c, b"234", "206 Partial Content", b"Content-Range: bytes 2-4/10\\r\\n")
                elif b"If-None-Match" in h:
                    c.sendall(b"HTTP/1.1 304 Not Modified\\r\\nETag: x\\r\\n\\r\\n")
                else:
                    c.sendall(b"HTTP/1.1 204 No Content\\r\\n\\r\\n")
    """)
    with Client(app) as c:
        early = c.ask(path="/early").until(b"late")
        assert early.startswith(b"HTTP/1.1 103 Early Hints\r\nLink: </a.css>\r\n\r\nHTTP/1.1 102 Processing\r\n\r\nHTTP/1.1 200 ")
        answer = c.ask("HEAD").until(b"\r\n\r\n")
        assert b"Content-Length: 12345\r\n" in answer and b"ETag: x\r\n" in answer
        answer = c.ask(headers=b"Range: bytes=2-4\r\n").until(b"\r\n\r\n234")
        assert answer.startswith(b"HTTP/1.1 206 ") and b"Content-Range: bytes 2-4/10\r\n" in answer
        assert c.ask(headers=b"If-None-Match: x\r\n").until(b"\r\n\r\n").startswith(b"HTTP/1.1 304 ")
        assert c.ask("DELETE").until(b"\r\n\r\n").startswith(b"HTTP/1.1 204 ")
        assert c.data == b""


def test_an_old_server_that_ends_its_answer_by_closing(api):
    app = boxapp.raw(api, 8080, """
        def handle(c):
            head(c)
            c.sendall(b"HTTP/1.0 200 OK\\r\\nX-A: b\\r\\n\\r\\nsome")
            time.sleep(0.05)  # most likely two pieces then; one is as good
            c.sendall(b" text")
    """)
    with Client(app) as c:
        for _ in range(2):  # the client's connection outlives the server's
            answer = c.ask().until(b"0\r\n\r\n")
            assert b"Transfer-Encoding: chunked\r\n" in answer and b"X-A: b\r\n" in answer
            assert b"".join(re.findall(rb"\r\n([a-z ]+)\r\n", answer)) == b"some text"
    with Client(app) as c:  # a client as old as that
        path = app.path("/")
        c.sock.sendall(f"GET {path} HTTP/1.0\r\nAuthorization: Bearer {app.daemon.token}\r\n\r\n".encode())
        assert c.rest().endswith(b"\r\n\r\nsome text")


def test_redirects_and_cookies_are_the_servers(api):
    app = boxapp.raw(api, 8080, """
        def handle(c):
            head(c)
            reply(c, b"", "302 Gone Fishing", b"Location: http://127.0.0.1:8080/x\\r\\nSet-Cookie: a=1; Path=/\\r\\n"
                b"Set-Cookie: b=2; Secure\\r\\nSet-Cookie: atoll_session=evil\\r\\nServer: own/1\\r\\nX-Powered-By: me\\r\\n")
    """)
    reply = app.get()
    assert reply.status == 302 and reply.headers["Location"] == "http://127.0.0.1:8080/x"
    assert reply.headers.get_all("Set-Cookie") == ["a=1; Path=/", "b=2; Secure"]
    assert reply.headers["Server"] == "own/1" and reply.headers["X-Powered-By"] == "me"
    with Client(app) as c:
        assert c.ask().until(b"\r\n") == b"HTTP/1.1 302 Gone Fishing\r\n"


def test_a_client_that_has_shut_down_its_side_gets_its_answer(api):
    app = boxapp.raw(api, 8080, """
        def handle(c):
            h, rest = head(c)
            note("asked")
            time.sleep(0.4)  # for the client's end to be there first; that it has no effect has no event
            reply(c, b"late")
    """)
    for unix in (True, False):
        with Client(app, unix) as c:
            c.ask()
            c.sock.shutdown(socket.SHUT_WR)
            assert c.rest().endswith(b"\r\n\r\nlate")


def test_a_client_that_goes_takes_its_request_along(api):
    app = boxapp.raw(api, 8080, """
        def handle(c):
            h, _ = head(c)
            note("asked " + h.split()[1].decode())
            if b"/stream" in h:
                c.sendall(b"HTTP/1.1 200 OK\\r\\nTransfer-Encoding: chunked\\r\\n\\r\\n1\\r\\na\\r\\n")
            got = c.recv(1)
            note("ended " + h.split()[1].decode())
    """)
    for path in ("/wait", "/stream"):
        with Client(app) as c:
            c.ask(path=path)
            if path == "/stream":
                c.until(b"1\r\na\r\n")
            noted(app, "asked " + path)
        noted(app, "ended " + path)


@pytest.mark.parametrize("framing", [b"Content-Length: 100\r\n", b"Transfer-Encoding: chunked\r\n", b""])
def test_a_server_that_dies_in_its_answer_never_looks_complete(api, framing):
    app = boxapp.raw(api, 8080, f"""
        dies = threading.Semaphore(0)

        def handle(c):
            h, _ = head(c)
            if h.startswith(b"GET /die"):
                dies.release()
                return reply(c)
            c.sendall(b"HTTP/1.1 200 OK\\r\\n" + {framing!r} + b"\\r\\n3\\r\\nabc\\r\\n")
            dies.acquire()
            reset(c)
    """)
    for unix in (True, False):
        with Client(app, unix) as c:
            answer = c.ask().until(b"abc")
            assert app.get("/die").status == 200
            with contextlib.suppress(ConnectionResetError):
                answer += c.rest()
            assert answer.startswith(b"HTTP/1.1 200 ") and not answer.endswith(b"0\r\n\r\n")
            # A body that ends with its connection is sent on in chunks: its end would look complete otherwise.
            assert (framing or b"Transfer-Encoding: chunked\r\n") in answer


def test_an_answer_before_the_request_has_ended(api):
    app = boxapp.raw(api, 8080, """
        def handle(c):
            head(c)
            reply(c, b"too much", "413 Payload Too Large", b"Connection: close\\r\\n")
            c.shutdown(socket.SHUT_WR)
            while c.recv(65536):
                pass
    """)
    with Client(app) as c:
        c.ask("POST", headers=b"Content-Length: 10000000\r\n", body=b"x" * 1000)
        assert c.until(b"\r\n\r\ntoo much").startswith(b"HTTP/1.1 413 ")
    with Client(app) as c:
        c.ask("POST", headers=b"Content-Length: 100\r\n", body=b"x" * 10)
        assert c.until(b"\r\n\r\ntoo much").startswith(b"HTTP/1.1 413 ")
        c.sock.sendall(b"x" * 90)  # the rest of the body is not the next request
        assert c.ask("POST", headers=b"Content-Length: 0\r\n").until(b"too much").startswith(b"HTTP/1.1 413 ")
