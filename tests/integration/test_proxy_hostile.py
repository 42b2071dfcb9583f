"""The proxy between those who mean harm: requests that two readers could read differently, answers that are none."""

import contextlib

import boxapp
import pytest
from boxapi import check_error
from boxapp import Client

OK = b"HTTP/1.1 200 OK\r\n"

BAD_ANSWERS = {
    "length and chunked": OK + b"Content-Length: 3\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\n",
    "two lengths": OK + b"Content-Length: 3\r\nContent-Length: 4\r\n\r\nabcd",
    "a list of lengths": OK + b"Content-Length: 3, 3\r\n\r\nabc",
    "a negative length": OK + b"Content-Length: -1\r\n\r\n",
    "an endless length": OK + b"Content-Length: 99999999999999999999\r\n\r\n",
    "a strange coding": OK + b"Transfer-Encoding: gzip, chunked\r\n\r\n0\r\n\r\n",
    "chunked in a disguise": OK + b"Transfer-Encoding: \x0bchunked\r\n\r\n0\r\n\r\n",
    "a blank before the colon": OK + b"Content-Length : 3\r\n\r\nabc",
    "a folded line": OK + b"X-A: b\r\n c\r\nContent-Length: 0\r\n\r\n",
    "bare line feeds": b"HTTP/1.1 200 OK\nContent-Length: 0\n\n",
    "a bare carriage return": OK + b"X-A: b\rSet-Cookie: c=d\r\nContent-Length: 0\r\n\r\n",
    "a NUL in a value": OK + b"X-A: b\0c\r\nContent-Length: 0\r\n\r\n",
    "a header without a colon": OK + b"nonsense\r\nContent-Length: 0\r\n\r\n",
    "no status": b"HTTP/1.1\r\n\r\n",
    "a status of four digits": b"HTTP/1.1 2000 OK\r\n\r\n",
    "status 0": b"HTTP/1.1 000 OK\r\nContent-Length: 0\r\n\r\n",
    "status 999": b"HTTP/1.1 999 OK\r\nContent-Length: 0\r\n\r\n",
    "another version": b"HTTP/2.0 200 OK\r\nContent-Length: 0\r\n\r\n",
    "no HTTP at all": b"SSH-2.0-OpenSSH_9.2\r\n",
    "TLS": bytes.fromhex("1503030002022a"),
    "HTTP/0.9": b"<html>hello</html>",
    "101 that nobody asked for": b"HTTP/1.1 101 Switching Protocols\r\nUpgrade: x\r\nConnection: upgrade\r\n\r\n",
    "a head without an end": OK + b"X: " + b"a" * 40000,
    "too many headers": OK + b"".join(b"X-%d: a\r\n" % i for i in range(101)) + b"Content-Length: 0\r\n\r\n",
    "nothing": b"",
    "half a head": b"HTTP/1.1 200 OK\r\nContent-Le",
}

BAD_BODIES = {
    "a chunk that is none": b"zz\r\nabc\r\n",
    "a chunk with a sign": b"+3\r\nabc\r\n",
    "a chunk longer than it says": b"3\r\nabcd\r\n0\r\n\r\n",
    "an endless size": b"fffffffffffffffff\r\nabc",
    "bare line feeds": b"3\nabc\n0\n\n",
    "a length in the trailers": b"3\r\nabc\r\n0\r\nContent-Length: 5\r\n\r\n",
    "no end": b"3\r\nabc\r\n",
    "an end in the middle": b"5\r\nab",
}

# A server that sends what it is asked for: /answer/N is the N-th of the list.
PARROT = """
LIST = eval(open("/tmp/answers").read())
def handle(c):
    h, rest = head(c)
    n = int(h.split()[1].rsplit(b"/", 1)[1])
    c.sendall(LIST[n])
    c.shutdown(socket.SHUT_WR)
    c.recv(1)
"""


def parrot(api, answers):
    assert api.put("/tmp/answers", repr(answers).encode()).status in (200, 201)
    return boxapp.raw(api, 8080, PARROT)


def test_answers_that_are_not_http_are_not_passed_on(api):
    app = parrot(api, list(BAD_ANSWERS.values()))
    for n, what in enumerate(BAD_ANSWERS):
        reply = app.get(f"/answer/{n}")
        error = check_error(reply, "BAD_GATEWAY", 502)
        assert "8080" in error["message"], what
        assert "Set-Cookie" not in reply.headers


def test_a_flood_of_interim_answers_ends(api):
    app = parrot(api, [b"HTTP/1.1 103 Early Hints\r\nX: y\r\n\r\n" * 1000])
    with Client(app) as c:
        assert c.ask(path="/answer/0").until(b"HTTP/1.1 502 ").count(b" 103 ") <= 32


def test_bodies_that_break_off_or_lie_cut_the_client_off(api):
    app = parrot(api, [OK + b"Transfer-Encoding: chunked\r\n\r\n" + body for body in BAD_BODIES.values()])
    for n, what in enumerate(BAD_BODIES):
        with Client(app) as c, contextlib.suppress(ConnectionResetError):
            c.ask(path=f"/answer/{n}")
            answer = c.rest()
            assert not answer.endswith(b"0\r\n\r\n"), (what, answer)


def test_bytes_behind_an_answer_are_nobodys(api):
    """What a server sends behind its answer is never the answer to the next request."""
    app = boxapp.raw(api, 8080, """
        def handle(c):
            for h in heads(c):
                answer = b"HTTP/1.1 200 OK\\r\\nContent-Length: 4\\r\\n\\r\\n"
                c.sendall(answer + b"mine" + answer + b"evil")
    """)
    with Client(app) as c:
        for _ in range(20):
            assert c.ask().until(b"\r\n\r\n") and c.until(b"mine")
        for _ in range(5):
            assert c.ask("POST", headers=b"Content-Length: 1\r\n", body=b"x").until(b"\r\n\r\n") and c.until(b"mine")
        assert c.data == b""


SMUGGLED = {
    "length and chunked": b"Content-Length: 5\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\nGET /evil",
    "chunked twice": b"Transfer-Encoding: chunked\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\n",
    "chunked and something": b"Transfer-Encoding: chunked, identity\r\n\r\n0\r\n\r\n",
    "chunked in a disguise": b"Transfer-Encoding: \x0bchunked\r\n\r\n0\r\n\r\n",
    "a blank before the colon": b"Transfer-Encoding : chunked\r\n\r\n0\r\n\r\n",
    "two lengths": b"Content-Length: 5\r\nContent-Length: 6\r\n\r\nhello!",
    "a length with a sign": b"Content-Length: +5\r\n\r\nhello",
    "a folded length": b"Content-Length:\r\n 5\r\n\r\nhello",
    "a bare carriage return": b"X: y\rGET /evil HTTP/1.1\r\n\r\n",
    "a bare line feed": b"X: y\nTransfer-Encoding: chunked\r\n\r\n",
    "a NUL": b"X: y\0z\r\n\r\n",
    "two hosts": b"Host: evil\r\n\r\n",
    "a bad chunk": b"Transfer-Encoding: chunked\r\n\r\n5;\nhello\r\n0\r\n\r\n",
}

TARGETS = {
    "a blank in the target": ("GET {path} x HTTP/1.1", 400),
    "a tab in the target": ("GET {path}\tx HTTP/1.1", 400),
    "bytes past ASCII": ("GET {path}\xff HTTP/1.1", 400),
    "a fragment": ("GET {path}#x HTTP/1.1", 400),
    "user info": ("GET http://user@h{path} HTTP/1.1", 400),
    "authority only": ("GET h:80 HTTP/1.1", 400),
    "CONNECT": ("CONNECT 127.0.0.1:8080 HTTP/1.1", 405),
    "another scheme": ("GET ftp://h{path} HTTP/1.1", 400),
}


@pytest.fixture
def noting(api):
    """It notes every head that arrives."""
    return boxapp.raw(api, 8080, """
        def handle(c):
            for h in heads(c):
                note(h.split(b"\\r\\n")[0].decode("latin1"))
                reply(c, h)
    """)


def test_requests_that_could_be_read_twice_do_not_arrive(daemon, noting):
    auth = f"Authorization: Bearer {daemon.token}\r\n".encode()
    start = f"POST {noting.path('/x')} HTTP/1.1\r\nHost: localhost\r\n".encode() + auth
    for what, rest in SMUGGLED.items():
        assert daemon.raw(start + rest).split(b" ", 2)[1] == b"400", what
    for what, (line, status) in TARGETS.items():
        answer = daemon.raw(line.format(path=noting.path("/x")).encode("latin1") + b"\r\nHost: localhost\r\n" + auth + b"\r\n")
        assert int(answer.split(b" ", 2)[1]) == status, what
    # A head may have arrived before its body turned out to be none; nothing else has.
    assert set(noting.notes()) <= {"POST /x HTTP/1.1"}


def test_line_ends_in_a_path_stay_escaped(noting):
    reply = noting.get("/a%0d%0aX-Evil:%20yes%0d%0a/%00?q=%0d%0aX-Evil:%20yes")
    assert reply.status == 200 and "X-Evil" not in reply.headers
    assert noting.notes() == ["GET /a%0d%0aX-Evil:%20yes%0d%0a/%00?q=%0d%0aX-Evil:%20yes HTTP/1.1"]


def test_an_absolute_target_becomes_a_path_with_its_own_host(daemon, noting):
    with Client(noting) as c:
        line = f"GET http://127.9.9.9:99{noting.path('/y?z')} HTTP/1.1\r\nHost: localhost\r\nAuthorization: Bearer {daemon.token}\r\n\r\n"
        c.sock.sendall(line.encode())
        answer = c.until(b"\r\n\r\n") + c.until(b"\r\n\r\n")
    assert b"GET /y?z HTTP/1.1\r\nHost: 127.9.9.9:99\r\n" in answer and b"X-Forwarded-Host: 127.9.9.9:99\r\n" in answer


def test_headers_for_one_hop_end_there(noting):
    with Client(noting) as c:
        c.ask(headers=b"Connection: close, X-Secret, authorization\r\nX-Secret: s\r\nKeep-Alive: 5\r\nProxy-Connection: x\r\n"
                      b"Proxy-Authorization: y\r\nTE: gzip\r\nUpgrade: foo\r\nX-Kept: k\r\n")
        answer = c.until(b"\r\n\r\n") + c.until(b"\r\n\r\n")
        arrived = answer.partition(b"GET / HTTP/1.1")[2].lower()
    assert b"x-kept: k\r\n" in arrived
    for name in (b"connection:", b"x-secret", b"keep-alive", b"proxy-", b"te:", b"upgrade", b"authorization"):
        assert name not in arrived, name


def test_pipelined_requests_are_answered_in_order(daemon, noting):
    start = f"GET {noting.path('/%d')} HTTP/1.1\r\nHost: localhost\r\nAuthorization: Bearer {daemon.token}\r\n"
    with Client(noting) as c:
        c.sock.sendall("".join(start.replace("%d", str(i)) + "\r\n" for i in range(10)).encode())
        for i in range(10):
            c.until(b"GET /%d HTTP/1.1\r\n" % i)
