"""The proxy and the lives around it: connections that are kept, boxes that sleep, end, are destroyed, and a warden or a
daemon that is killed meanwhile."""

import os
import threading

import boxapi
import boxapp
import pytest
from atoll import box_path, wait_for
from boxapi import check_error
from boxapp import Client, noted

COUNTING = """
n = 0
def handle(c):
    global n
    n += 1
    mine, rest, asked = n, b"", 0
    while True:
        h, rest = head(c, rest)
        if not h:
            return
        asked += 1
        if b"/close" in h:
            return reply(c, b"%d" % mine, extra=b"Connection: close\\r\\n")
        reply(c, b"%d %d" % (mine, asked))
        if b"/hangup" in h:
            return
"""


def test_connections_to_the_server_are_kept(api):
    app = boxapp.raw(api, 8080, COUNTING)
    first = int(app.get().text.split()[0])
    answers = [app.get().text.split() for _ in range(5)]
    assert [int(a[0]) for a in answers] == [first] * 5 and [int(a[1]) for a in answers] == [2, 3, 4, 5, 6]
    assert app.get("/", method="POST", body=b"").text.split()[0] == str(first)
    assert app.get("/close").text == str(first)
    assert int(app.get().text.split()[0]) > first


def test_a_kept_connection_that_has_ended_costs_nothing(api):
    """The server hangs up without saying so; whether we have seen it yet or not, the next request must not fail."""
    app = boxapp.raw(api, 8080, COUNTING)
    for _ in range(30):
        assert app.get("/hangup").status == 200


def test_a_server_for_one_connection_at_a_time_is_not_blocked(api):
    """While one connection is kept idle, a second one would wait for ever at a server that reads only the first."""
    app = boxapp.command(api, 8080, """python3 -c '
import http.server, time
class H(http.server.BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"
    def do_GET(self):
        time.sleep(0.2)  # the others come meanwhile
        self.send_response(200)
        self.send_header("Content-Length", "2")
        self.end_headers()
        self.wfile.write(b"ok")
http.server.HTTPServer(("127.0.0.1", 8080), H).serve_forever()'""")
    replies = []
    threads = [threading.Thread(target=lambda: replies.append(app.get().status)) for _ in range(4)]
    for t in threads:
        t.start()
    for t in threads:
        t.join()
    assert replies == [200] * 4


def test_many_at_once(api):
    # Each takes 50 ms, so that many are inside together; how many does not matter.
    app = boxapp.node(api, 8080, "require('http').createServer((q, s) => setTimeout(() => s.end(q.url), 50)).listen(8080)")
    clients = [Client(app, unix=i % 2 == 0).ask(path=f"/{i}") for i in range(200)]
    for i, c in enumerate(clients):
        with c:
            c.until(b"\r\n\r\n")
            c.until(b"/%d" % i)


def test_a_box_that_sleeps_is_woken_and_a_tunnel_keeps_it_awake(daemon, api):
    app = boxapp.raw(api, 8080, COUNTING + """
old = handle
def handle(c):
    h = c.recv(4096, socket.MSG_PEEK)
    if b"/chess" not in h:
        return old(c)
    head(c)
    c.sendall(b"HTTP/1.1 101 Switching Protocols\\r\\nUpgrade: chess\\r\\nConnection: upgrade\\r\\n\\r\\n")
    while d := c.recv(100):
        c.sendall(d)
""")
    assert daemon.request("PUT", box_path(api.box), {"sleepAfter": 1}).status == 200

    def state():
        return daemon.inspect(api.box)["state"]

    wait_for(lambda: state() == "asleep", "it sleeps")
    assert app.get().status == 200 and state() == "running"
    with Client(app) as c:
        c.ask(path="/chess", headers=b"Connection: Upgrade\r\nUpgrade: chess\r\n").until(b"\r\n\r\n")
        for _ in range(8):  # more than twice its time; bytes count, an open connection alone does not
            c.sock.sendall(b"byte")
            c.until(b"byte")
            assert state() == "running" and c.quiet(0.3)
        c.sock.sendall(b"e4")
        c.until(b"e4")
    wait_for(lambda: state() == "asleep", "it sleeps again")
    check_error(boxapp.App(api, 8099).get(), "SERVICE_NOT_RESPONDING", 502)


def test_a_box_that_ends_takes_its_connections_along(daemon, api):
    app = boxapp.raw(api, 8080, COUNTING)
    slow = boxapp.raw(api, 8081, "def handle(c):\n    head(c)\n    note('asked')\n    time.sleep(1000)\n")
    assert app.get().status == 200
    with Client(slow) as c:
        c.ask()
        noted(slow, "asked")
        assert daemon.destroy(api.box).status in (200, 204)
        answer = c.until(b"}")
        assert answer.startswith(b"HTTP/1.1 500 ") and b"CONTAINER_LOST" in answer
    # The next request makes a new box of that name, in which nothing listens.
    check_error(app.get(), "SERVICE_NOT_RESPONDING", 502)


def test_a_box_whose_init_is_killed_is_started_again(daemon, api):
    app = boxapp.raw(api, 8080, COUNTING)
    assert app.get().status == 200
    os.kill(api.agent_pid(), 9)
    wait_for(lambda: daemon.inspect(api.box)["state"] == "stopped", "its end is noticed")
    assert app.get().status == 502
    assert daemon.inspect(api.box)["state"] == "running"


@pytest.mark.parametrize("who", ["warden", "daemon"])
def test_a_restart_of_either_half(own_daemon, own_box, who):
    api = boxapi.Api(own_daemon, own_box)
    app = boxapp.raw(api, 8080, COUNTING)
    assert app.get("/close").status == 200
    (own_daemon.kill_warden if who == "warden" else own_daemon.kill_daemon)()
    # More than there are in stock: some of them wait for the new warden.
    for _ in range(40):
        assert app.get("/close").status == 200


def test_nothing_of_a_box_is_held_when_it_is_gone(daemon, box):
    """Sockets in stock and kept connections would keep the box's network alive."""
    def fds():
        return len(os.listdir(f"/proc/{daemon.daemon_pid}/fd"))

    daemon.request("GET", "/v1/health")
    before = fds()
    for _ in range(3):
        api = boxapi.Api(daemon, box)
        app = boxapp.raw(api, 8080, COUNTING)
        assert app.get().status == 200 and app.get("/close").status == 200
        assert fds() > before
        daemon.destroy(box)
    wait_for(lambda: fds() <= before + 2, "descriptors are closed")
