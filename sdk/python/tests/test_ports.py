from __future__ import annotations

import re
import socket
from typing import Any, Callable

import httpx
import pytest

from atoll_sandbox import (
    CustomDomainRequiredError,
    InvalidPortError,
    SandboxError,
    SandboxSecurityError,
    ServiceNotRespondingError,
    ValidationFailedError,
)

SERVER = r'''
import asyncio, base64, hashlib, http.server, struct, sys
class Handler(http.server.BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"
    def do_GET(self):
        if self.headers.get("Upgrade"):
            return self.upgrade()
        self.do_POST()
    def do_POST(self):
        body = self.rfile.read(int(self.headers.get("Content-Length") or 0))
        text = f"{self.command} {self.path} {self.headers.get('Authorization')} {body.decode()}".encode()
        if self.path == "/show":
            text = "".join(f"{name}: {value}\n" for name, value in self.headers.items()).encode()
        self.send_response(418 if self.path == "/teapot" else 200)
        self.send_header("Content-Length", str(len(text)))
        self.end_headers()
        self.wfile.write(text)
    def upgrade(self):
        magic = self.headers["Sec-WebSocket-Key"] + "258EAFA5-E914-47DA-95CA-C5AB0DC85B11"
        self.send_response(101)
        self.send_header("Upgrade", "websocket")
        self.send_header("Connection", "Upgrade")
        if self.headers.get("Sec-WebSocket-Protocol"):
            self.send_header("Sec-WebSocket-Protocol", self.headers["Sec-WebSocket-Protocol"].split(",")[0])
        self.send_header("Sec-WebSocket-Accept", base64.b64encode(hashlib.sha1(magic.encode()).digest()).decode())
        self.end_headers()
        while True:
            first, second = self.rfile.read(2)
            n = second & 127
            n = struct.unpack(">H", self.rfile.read(2))[0] if n == 126 else n
            mask, data = self.rfile.read(4), self.rfile.read(n)
            data = bytes(b ^ mask[i % 4] for i, b in enumerate(data))
            head = bytes([first, n]) if n < 126 else bytes([first, 126]) + struct.pack(">H", n)
            self.wfile.write(head + data)
            if first & 15 == 8:
                self.close_connection = True
                return
http.server.ThreadingHTTPServer(("127.0.0.1", 8080), Handler).serve_forever()
'''


@pytest.fixture
def served(sandbox: Any) -> Any:
    sandbox.write_file("/tmp/server.py", SERVER)
    sandbox.start_process("python3 /tmp/server.py").wait_for_port(8080)
    return sandbox


def test_requests(served: Any) -> None:
    assert served.fetch(8080, "/a?b=c").text == "GET /a?b=c None "
    assert served.fetch(8080, "/", method="post", content="grüße").text == "POST / None grüße"
    assert served.fetch(8080, "/teapot").status_code == 418
    for path in ("/../../api/ping", "/a/../../../api/ping", "/%2e%2e/.%2E/api/ping", "/./api/ping", "/x/../api/ping"):
        assert served.fetch(8080, path).text == "GET /api/ping None ", path
    assert served.fetch(8080, "/", headers={"Authorization": "Basic own"}).text == "GET / Basic own "
    with pytest.raises(ServiceNotRespondingError) as caught:
        served.fetch(9999)
    assert caught.value.http_status == 502


def test_small_requests_are_not_held_back(served: Any) -> None:
    connection = served.fetch(8080).extensions["network_stream"].get_extra_info("socket")
    assert connection.getsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY)
    assert connection.getsockopt(socket.SOL_SOCKET, socket.SO_KEEPALIVE)


def test_websockets(served: Any) -> None:
    with served.ws_connect(8080, "/echo") as socket:
        for message in ("text", b"\x00\xff", "x" * 60_000):
            socket.send(message)
            assert socket.receive(timeout=60) == message
        with pytest.raises(TimeoutError):
            socket.receive(timeout=0.05)
        assert socket.subprotocol is None
    with served.ws_connect(8080, "/echo", subprotocols=["vite-hmr", "other"]) as chosen:
        assert chosen.subprotocol == "vite-hmr"
    with pytest.raises(ServiceNotRespondingError):
        served.ws_connect(9999)


def test_previews(served: Any, daemon: Any) -> None:
    exposed = served.expose_port(8080, name="web", token="demo")
    assert (exposed.port, exposed.name, exposed.token, exposed.status) == (8080, "web", "demo", "active")
    assert str(exposed) == exposed.url and exposed.url.startswith(f"http://8080-{served.id}-demo.")
    host = re.sub(r"^http://|/$", "", exposed.url)
    assert httpx.get(daemon.url + "/seen", headers={"Host": host}).text == "GET /seen None "
    assert [one.url for one in served.get_exposed_ports()] == [exposed.url]
    named = served.get_exposed_ports("boxes.example.org")[0]
    assert named.url == f"https://8080-{served.id}-demo.boxes.example.org/"
    assert served.is_port_exposed(8080) and not served.is_port_exposed(8081)
    assert served.validate_port_token(8080, "demo") and not served.validate_port_token(8080, "other")
    served.unexpose_port(8080)
    served.unexpose_port(8080)
    assert served.get_exposed_ports() == []


def test_what_cannot_be_exposed(make: Callable[..., Any], box_id: str) -> None:
    sandbox = make(box_id)
    for port in (80, 70_000, -1):
        with pytest.raises(InvalidPortError):
            sandbox.expose_port(port)
    with pytest.raises(ValidationFailedError):
        sandbox.expose_port(8080, token="Capitals")
    with pytest.raises(CustomDomainRequiredError):
        sandbox.expose_port(8080, hostname="me.workers.dev")
    assert sandbox.get_exposed_ports() == [] and sandbox.info() is None
    upper = make(box_id.upper())
    with pytest.raises(SandboxSecurityError, match="normalize_id"):
        upper.expose_port(8080, hostname="example.org")
    assert make(box_id.upper(), normalize_id=True).id == box_id


def test_tunnels(served: Any, daemon: Any) -> None:
    name = f"app-{served.id}"
    tunnel = served.open_tunnel(8080, name=name)
    assert (tunnel.port, tunnel.name) == (8080, name) and str(tunnel) == tunnel.url
    assert httpx.URL(tunnel.url).host == tunnel.hostname
    assert served.open_tunnel(8080, name=name) == tunnel == served.get_tunnel(8080) and served.tunnels() == [tunnel]
    answer = httpx.get(f"{daemon.url}/hello?q=1", headers={"host": tunnel.hostname})
    assert answer.status_code == 200 and "authorization" not in answer.text.lower()
    with pytest.raises(SandboxError) as conflict:
        served.open_tunnel(8081, name=name)
    assert conflict.value.code == "TUNNEL_RUN_CONFLICT"
    served.close_tunnel(tunnel)
    served.close_tunnel(8080)
    assert served.tunnels() == [] and served.get_tunnel(8080) is None
    assert httpx.get(f"{daemon.url}/", headers={"host": tunnel.hostname}).status_code == 404
    with pytest.raises(InvalidPortError):
        served.open_tunnel(80)


def test_port_3000_is_the_app(sandbox: Any) -> None:
    sandbox.write_file("/tmp/server.py", SERVER.replace("8080", "3000"))
    sandbox.start_process("python3 /tmp/server.py").wait_for_port(3000)
    assert sandbox.fetch(3000, "/hello").text.startswith("GET /hello ")
    assert "x-atoll" not in sandbox.fetch(3000, "/show").text.lower()
    with sandbox.ws_connect(3000, "/") as websocket:
        websocket.send("to the app")
        assert websocket.receive(60) == "to the app"
