"""A client without a token takes every connection it can get: the API, the unix socket and previews go on answering."""

import contextlib
import http.client
import re
import resource
import socket
import threading

import boxapp
import pytest
from atoll import Instance, box_path, wait_for
from boxapi import Api
from fixtures import what_is_missing

ALONE = "it judges what a flood does to others"

CONNS_MAX = 8192  # HTTP_CONNS_MAX
ADDRESS_MAX = 1024  # HTTP_ADDRESS_MAX
RESERVED = 256  # descriptors that atolld keeps for itself
ADDRESSES = 48  # the flood comes from so many: one address alone may have few connections

REQUESTS = {
    "bodies that never come": b"POST /v1/sandboxes HTTP/1.1\r\nHost: localhost\r\nContent-Length: 1000\r\n\r\n",
    "bodies to a public route": b"GET /v1/health HTTP/1.1\r\nHost: localhost\r\nContent-Length: 1000\r\n\r\n",
    "heads that never end": b"GET /v1/health HTTP/1.1\r\nHost: localhost\r\nX-Slow: ",
    "no byte at all": b"",
}
ECHO = """
def handle(c):
    for h in heads(c):
        reply(c, b"from the app")
"""
# It takes connections and never reads them.
DEAF = "python3 -c 'import socket, time; s = socket.create_server((\"127.0.0.1\", 8080), backlog=4096); time.sleep(10000)'"


@pytest.fixture
def count():
    """More connections than atolld has places, given the descriptors that it may have; as many may be opened here."""
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    resource.setrlimit(resource.RLIMIT_NOFILE, (hard, hard))
    yield min(CONNS_MAX, (hard - RESERVED) // 2) + 108
    resource.setrlimit(resource.RLIMIT_NOFILE, (soft, hard))


class Flood:
    """Holds `count` connections, each with the bytes of its turn, and replaces some all the time."""

    def __init__(self, daemon, heads, count):
        self.heads, self.count = heads, count
        host, port = daemon.address.rsplit(":", 1)
        self.address = (host, int(port))
        self.socks, self.opened = [], 0
        self.stop = threading.Event()
        self.thread = threading.Thread(target=self._renew)

    def _open(self):
        s = socket.socket()
        s.setblocking(False)
        s.bind((f"127.0.0.{2 + self.opened % ADDRESSES}", 0))
        with contextlib.suppress(BlockingIOError):
            s.connect(self.address)
        with contextlib.suppress(OSError):
            s.send(self.heads[self.opened % len(self.heads)])
        self.opened += 1
        return s

    def _renew(self):
        at = 0
        while not self.stop.wait(0.01):
            for _ in range(32):
                self.socks[at].close()
                self.socks[at] = self._open()
                at = (at + 1) % self.count

    def answers(self):
        """What has come back on each connection; the flood stands still from here on."""
        self.stop.set()
        self.thread.join()
        for s in self.socks:
            try:
                yield s.recv(65536)
            except OSError:
                yield b""

    def __enter__(self):
        self.socks = [self._open() for _ in range(self.count)]
        self.thread.start()
        return self

    def __exit__(self, *exc):
        self.stop.set()
        self.thread.join()
        for s in self.socks:
            s.close()


def expose(daemon, box):
    r = daemon.request("POST", box_path(box, "/ports/8080"), {})
    assert r.status in (200, 201), r
    return r.json()["url"].split("/")[2]


@pytest.fixture(scope="module")
def preview(daemon):
    """The host name of a preview that answers."""
    boxapp.raw(Api(daemon, "flood-app"), 8080, ECHO)
    yield expose(daemon, "flood-app")
    daemon.destroy("flood-app")


def metric(daemon, name):
    text = daemon.request("GET", "/metrics").text
    found = re.search(rf"^{re.escape(name)} (\d+)$", text, re.MULTILINE)
    assert found, name
    return int(found[1])


class Kept:
    """A connection that has been used before the flood, and must be the same after it."""

    def __init__(self, daemon, headers, path="/v1/sandboxes"):
        self.c = http.client.HTTPConnection(*daemon.address.rsplit(":", 1), timeout=30)
        self.headers, self.path = headers, path
        self.ask()
        self.sock = self.c.sock

    def ask(self):
        self.c.request("GET", self.path, headers=self.headers)
        r = self.c.getresponse()
        assert r.status == 200 and r.read()

    def check(self):
        self.ask()
        assert self.c.sock is self.sock, "the connection was closed"


def everybody_is_served(daemon, preview, kept):
    for _ in range(10):
        assert daemon.request("GET", "/v1/sandboxes").status == 200
        assert daemon.request("GET", "/v1/sandboxes", unix=False).status == 200
        assert daemon.execute("flood-app", "echo well")["stdout"] == "well\n"
        r = daemon.request("GET", "/", headers={"Host": preview}, unix=False, token=False)
        assert (r.status, r.text) == (200, "from the app")
        for k in kept:
            k.check()


@pytest.mark.parametrize("name", REQUESTS)
def test_strangers_take_nobodys_place(daemon, preview, count, name):
    kept = [Kept(daemon, {"Authorization": f"Bearer {daemon.token}"}), Kept(daemon, {"Host": preview}, "/")]
    with Flood(daemon, [REQUESTS[name]], count):
        everybody_is_served(daemon, preview, kept)
        strangers = metric(daemon, 'atoll_connections_by_rank{rank="stranger"}')
        assert strangers <= count // 4 and metric(daemon, 'atoll_connections_by_rank{rank="authenticated"}') >= 1
    limits = ("strangers", "address", "lingering")
    assert sum(metric(daemon, f'atoll_connections_shed_total{{limit="{limit}"}}') for limit in limits) > 0
    wait_for(lambda: metric(daemon, 'atoll_connections_by_rank{rank="stranger"}') == 0, "the strangers are gone")


def test_two_previews_take_their_own_places_only(daemon, preview, count):
    boxes = ["flood-1", "flood-2"]
    hosts = []
    for box in boxes:
        boxapp.command(Api(daemon, box), 8080, DEAF)
        hosts.append(expose(daemon, box))
    heads = [f"POST / HTTP/1.1\r\nHost: {h}\r\nContent-Length: 1000\r\n\r\n".encode() for h in hosts]
    kept = [Kept(daemon, {"Authorization": f"Bearer {daemon.token}"}), Kept(daemon, {"Host": preview}, "/")]
    try:
        with Flood(daemon, heads, count) as flood:
            everybody_is_served(daemon, preview, kept)
            # Two boxes have a quarter each of what previews may have, and no more.
            assert metric(daemon, 'atoll_connections_by_rank{rank="preview"}') <= count // 4 + 16
            assert metric(daemon, "atoll_previews_busy_total") > 0
            refused = next(a for a in flood.answers() if a)
            assert refused.startswith(b"HTTP/1.1 429 ") and b"\r\nRetry-After: 5\r\n" in refused and b"LIMIT_REACHED" in refused
    finally:
        for box in boxes:
            daemon.destroy(box)


def test_a_refusal_can_be_read_while_the_body_is_still_sent(daemon):
    for path, token, status in (("/v1/sandboxes", "", 401), ("/v1/none", daemon.token, 404), ("/v1/health", daemon.token, 405)):
        head = f"POST {path} HTTP/1.1\r\nHost: localhost\r\nAuthorization: Bearer {token}\r\nContent-Length: 200000\r\n\r\n"
        with daemon.connect() as s:
            s.sendall(head.encode() + b"x" * 100000)
            answer = b""
            while chunk := s.recv(65536):
                answer += chunk
        assert answer.startswith(f"HTTP/1.1 {status} ".encode()) and b"\r\nConnection: close\r\n" in answer, answer
        assert answer.endswith(b"}")


def begun(stack, daemon, n):
    """So many connections of one address, each with half a head."""
    host, port = daemon.address.rsplit(":", 1)
    socks = []
    for _ in range(n):
        s = stack.enter_context(socket.create_connection((host, int(port)), 30, ("127.0.0.77", 0)))
        s.sendall(b"GET /v1/health HTTP/1.1\r\n")
        socks.append(s)
    return socks


def ends_well(s):
    s.sendall(b"Host: localhost\r\n\r\n")
    return s.recv(12) == b"HTTP/1.1 200"


def test_of_one_address_the_oldest_goes_never_the_newest(daemon):
    with contextlib.ExitStack() as stack:
        socks = begun(stack, daemon, ADDRESS_MAX + 1)
        assert socks[0].recv(1) == b""
        assert ends_well(socks[1]) and ends_well(socks[-1])


def test_a_trusted_proxy_may_have_more(count):
    del count  # room for the descriptors
    if what_is_missing():
        pytest.skip(what_is_missing())
    with Instance({"ATOLL_ZYGOTE": "off", "ATOLL_TRUSTED_PROXIES": "127.0.0.77"}) as own, contextlib.ExitStack() as stack:
        socks = begun(stack, own, ADDRESS_MAX + 100)
        assert all(ends_well(s) for s in socks)
        assert metric(own, 'atoll_connections_shed_total{limit="address"}') == 0
