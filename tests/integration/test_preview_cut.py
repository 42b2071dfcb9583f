"""What ends a preview from our side: its port is unexposed or gets another token, or the app takes too long to answer."""

import boxapp
import pytest
from atoll import Instance, box_path, wait_for
from boxapi import Api
from fixtures import what_is_missing
from wsclient import Closed, WebSocket

# /ws says hi and listens, /endless sends without end, /drip sends a byte at each /go, /never is silent. Each notes its end.
APP = """
import base64
woken = threading.Condition()

def socket_of(c, h):
    key = [l.split(b": ")[1] for l in h.split(b"\\r\\n") if l.lower().startswith(b"sec-websocket-key")][0]
    accept = base64.b64encode(hashlib.sha1(key + b"258EAFA5-E914-47DA-95CA-C5AB0DC85B11").digest())
    c.sendall(b"HTTP/1.1 101 Switching Protocols\\r\\nUpgrade: websocket\\r\\nConnection: Upgrade\\r\\nSec-WebSocket-Accept: " + accept + b"\\r\\n\\r\\n")
    c.sendall(b"\\x81\\x02hi")

def drip(c):
    c.sendall(b"HTTP/1.1 200 OK\\r\\nContent-Length: 1000\\r\\n\\r\\n")
    with woken:
        while True:
            c.sendall(b"x")
            woken.wait()

def until_gone(c, what):
    try:
        while c.recv(65536):
            pass
    except OSError:
        pass
    note("gone " + what)

def handle(c):
    h, _ = head(c)
    if h.startswith(b"GET /ws"):
        socket_of(c, h)
        until_gone(c, "ws")
    elif h.startswith(b"GET /endless"):
        c.sendall(b"HTTP/1.1 200 OK\\r\\nContent-Length: 1000000000000\\r\\n\\r\\n")
        try:
            while True:
                c.sendall(bytes(65536))
        except OSError:
            note("gone endless")
    elif h.startswith(b"GET /drip"):
        drip(c)
    elif h.startswith(b"GET /go"):
        with woken:
            woken.notify_all()
        reply(c, b"ok")
    elif h.startswith(b"GET /never"):
        note("asked never")
        until_gone(c, "never")
"""


class Preview:
    """A connection to the preview at `url`, its answer read as far as it is told to."""

    def __init__(self, daemon, port, path):
        self.sock, self.data = daemon.connect(), b""
        self.sock.sendall(f"GET {path} HTTP/1.1\r\nHost: {host_of(port)}\r\n\r\n".encode())

    def until(self, what):
        while what not in self.data:
            chunk = self.sock.recv(65536)
            assert chunk, self.data
            self.data += chunk
        self.data = self.data.partition(what)[2]
        return self

    def cut(self):
        """Whether it ends; what is on its way comes before that."""
        try:
            while self.sock.recv(1 << 20):
                pass
        except ConnectionResetError:
            pass
        return True

    def __enter__(self):
        return self

    def __exit__(self, *exc):
        self.sock.close()


def host_of(port):
    return port["url"].split("/")[2]


def expose(app, **body):
    r = app.daemon.request("POST", box_path(app.api.box, f"/ports/{app.port}"), body)
    assert r.status in (200, 201), r
    return r.json()


def unexpose(app):
    assert app.daemon.request("DELETE", box_path(app.api.box, f"/ports/{app.port}")).status == 204


def go(app):
    assert app.get("/go").text == "ok"


@pytest.fixture
def app(api):
    return boxapp.raw(api, 8080, APP)


def test_unexposing_ends_what_runs_through_the_url(app):
    port = expose(app)
    with app.daemon.connect() as s, Preview(app.daemon, port, "/endless") as download, Preview(app.daemon, port, "/never") as silent:
        ws = WebSocket(s, "/ws", host=host_of(port))
        assert ws.receive() == "hi"
        download.until(b"\r\n\r\n")
        boxapp.noted(app, "asked never")
        unexpose(app)
        with pytest.raises((Closed, ConnectionResetError)):
            ws.receive()
        assert download.cut() and silent.cut()
    for what in ("ws", "endless", "never"):
        boxapp.noted(app, f"gone {what}")
    with Preview(app.daemon, port, "/drip") as late:
        late.until(b"HTTP/1.1 404 ")


def test_other_ports_and_the_api_go_on(app):
    other = boxapp.raw(app.api, 8081, APP)
    expose(app)
    kept = expose(other)
    with Preview(app.daemon, kept, "/drip") as through, boxapp.Client(app).ask(path="/drip") as api:
        through.until(b"\r\n\r\nx")
        api.until(b"\r\n\r\nx")
        unexpose(app)
        go(other)
        through.until(b"x")
        go(app)
        api.until(b"x")


def test_another_token_ends_the_old_url_and_nothing_else(app):
    old = expose(app, token="first")
    with Preview(app.daemon, old, "/drip") as before:
        before.until(b"\r\n\r\nx")
        assert expose(app, token="first", name="a name")["url"] == old["url"]
        go(app)
        before.until(b"x")
        new = expose(app, token="second")
        assert before.cut()
    with Preview(app.daemon, new, "/drip") as after:
        after.until(b"\r\n\r\nx")
        assert expose(app)["url"] == new["url"]
        go(app)
        after.until(b"x")


@pytest.fixture(scope="module")
def hasty():
    if what_is_missing():
        pytest.skip(what_is_missing())
    with Instance({"ATOLL_APP_TIMEOUT": "2"}) as instance:
        yield instance


def test_an_app_has_so_long_to_begin_its_answer(hasty):
    app = boxapp.raw(Api(hasty, "hasty"), 8080, APP)
    port = expose(app)
    r = hasty.request("GET", "/never", headers={"Host": host_of(port)}, token=False)
    assert (r.status, r.json()["code"]) == (504, "GATEWAY_TIMEOUT")
    r = app.get("/never")
    assert (r.status, r.headers["X-Atoll-Error"]) == (504, "GATEWAY_TIMEOUT")
    wait_for(lambda: app.notes().count("gone never") == 2, "the app is let go of")


def test_what_has_begun_has_no_limit(hasty):
    app = boxapp.raw(Api(hasty, "patient"), 8080, APP)
    port = expose(app)
    with Preview(hasty, port, "/drip") as stream, hasty.connect() as s:
        stream.until(b"\r\n\r\nx")
        ws = WebSocket(s, "/ws", host=host_of(port))
        assert app.get("/never").status == 504, "so the limit has passed for the others too"
        assert ws.receive() == "hi"
        ws.send("still there")
        go(app)
        stream.until(b"x")
        assert "gone ws" not in app.notes()
