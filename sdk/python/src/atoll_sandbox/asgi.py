"""Previews below a domain of your own, and terminals for browsers, in any ASGI server.

    from atoll_sandbox.asgi import PreviewProxy

    app = PreviewProxy(app, url="http://127.0.0.1:8700", token=…)   # app: Starlette, FastAPI, Django …

A request whose host name is that of a preview (`{port}-{id}-{token}.…`, as `expose_port(port, hostname=…)` makes them) goes to
its sandbox, WebSockets included; every other request goes to `app`. A request wakes nothing that was destroyed.
"""

from __future__ import annotations

import asyncio
import contextlib
import json
import re
from typing import Any, AsyncIterator, Awaitable, Callable, MutableMapping, NamedTuple
from urllib.parse import quote

import httpx

from . import _checks as checks
from . import _wire as wire
from ._async.box import Box
from ._async.ports import AsyncPorts
from ._async.sandbox import AsyncSandbox
from ._async.terminal import path_of
from ._async.transport import Transport
from ._async.websocket import AsyncWebSocket
from ._io import aio as io
from ._place import locate
from .errors import ContainerUnavailableError, SandboxError, SandboxSecurityError, ServiceNotRespondingError

Scope = MutableMapping[str, Any]
Receive = Callable[[], Awaitable[MutableMapping[str, Any]]]
Send = Callable[[MutableMapping[str, Any]], Awaitable[None]]
App = Callable[[Scope, Receive, Send], Awaitable[None]]

_HOST = re.compile(r"(\d{4,5})-(.{1,63})-([a-z0-9_]{1,63})\..+")
#: Headers that belong to one connection and not to the request, those that a WebSocket's own handshake writes, and those that
#: a visitor must not choose: the sandbox's server believes them.
_PER_CONNECTION = frozenset((
    "connection", "keep-alive", "proxy-authenticate", "proxy-authorization", "te", "trailer", "transfer-encoding", "upgrade",
    "host", "sec-websocket-key", "sec-websocket-version", "sec-websocket-extensions", "sec-websocket-protocol",
    "x-atoll-token", "x-atoll-host", "x-atoll-app", "forwarded", "x-forwarded-for", "x-forwarded-host", "x-forwarded-proto",
))


class PreviewRoute(NamedTuple):
    port: int
    sandbox_id: str
    token: str


def preview_route(host: str) -> PreviewRoute | None:
    """Takes `{port}-{id}-{token}.…` apart; None when it is no preview's host name."""
    match = _HOST.fullmatch(host.lower())
    if not match:
        return None
    try:
        return PreviewRoute(checks.port_number(int(match[1])), checks.sandbox_id(match[2]), match[3])
    except (SandboxSecurityError, ValueError):
        return None


class PreviewProxy:
    """An ASGI application around another one. `url` and `token` say which Atoll, as for Sandbox."""

    def __init__(self, app: App | None = None, *, url: str | None = None, token: str | None = None) -> None:
        self._app = app
        self._transport = Transport(locate(url, token), wire.READY_SECONDS)

    async def aclose(self) -> None:
        """Closes the connections to Atoll."""
        await self._transport.aclose()

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        host = _header(scope, "host") if scope["type"] in ("http", "websocket") else ""
        route = preview_route(host)
        if route is None and self._app:
            await self._app(scope, receive, send)
        elif route is None:
            await _refuse(scope, send, 404, "NOT_FOUND", "No preview has this host name")
        else:
            await _Passage(Box(self._transport, route.sandbox_id, {}, create=True), route, host, scope, receive, send).run()


def _header(scope: Scope, name: str) -> str:
    return next((value.decode("latin-1") for key, value in scope["headers"] if key.lower() == name.encode()), "")


async def _refuse(scope: Scope, send: Send, status: int, code: str, message: str) -> None:
    if scope["type"] == "websocket":
        await send({"type": "websocket.close", "code": 1008, "reason": message[:120]})
        return
    body = json.dumps({"error": message, "code": code}).encode()
    headers = [(b"content-type", b"application/json"), (b"content-length", str(len(body)).encode())]
    await send({"type": "http.response.start", "status": status, "headers": headers})
    await send({"type": "http.response.body", "body": body})


class _Passage(AsyncPorts):
    """One request on its way."""

    def __init__(self, box: Box, route: PreviewRoute, host: str, scope: Scope, receive: Receive, send: Send) -> None:
        self._box, self._route, self._host = box, route, host
        self._scope, self._receive, self._send = scope, receive, send
        self._begun = False

    async def run(self) -> None:
        port = self._route.port
        try:
            if not await self.validate_port_token(port, self._route.token):
                return await self._refuse(404, "INVALID_TOKEN", "Access denied: invalid token, or the port is not exposed")
            exposed = [one for one in await self.get_exposed_ports() if one.port == port]
            if not exposed or exposed[0].status != "active":
                return await self._refuse(410, "STALE_PREVIEW_URL", "The preview's sandbox is not running")
            await (self._websocket() if self._scope["type"] == "websocket" else self._http())
        except ContainerUnavailableError as error:
            await self._refuse(503, error.code, error.message)
        except ServiceNotRespondingError as error:
            await self._refuse(502, error.code, error.message)
        except SandboxError as error:
            await self._refuse(502, error.code, "The preview could not be reached")

    async def _refuse(self, status: int, code: str, message: str) -> None:
        if self._begun:  # the server below cuts the connection: an answer that is not whole must not look whole
            raise ConnectionError(message)
        await _refuse(self._scope, self._send, status, code, message)

    def _target(self) -> str:
        raw = self._scope.get("raw_path")
        path = raw.decode("latin-1").partition("?")[0] if raw else quote(self._scope["path"])
        query = self._scope.get("query_string") or b""
        return wire.proxied(self._route.port, path + (f"?{query.decode('latin-1')}" if query else ""))

    def _headers(self) -> dict[str, str]:
        headers: dict[str, str] = {}
        for key, value in self._scope["headers"]:
            name, text = key.decode("latin-1").lower(), value.decode("latin-1")
            between = "; " if name == "cookie" else ", "
            headers[name] = f"{headers[name]}{between}{text}" if name in headers else text
        headers = {name: text for name, text in headers.items() if name not in _PER_CONNECTION}
        headers.setdefault("accept-encoding", "identity")
        token = self._box.transport.place.token
        if token:
            headers["x-atoll-token"] = token
        if self._scope.get("client"):
            headers["x-forwarded-for"] = str(self._scope["client"][0])
        scheme = {"ws": "http", "wss": "https"}.get(self._scope["scheme"], self._scope["scheme"])
        told = {"x-atoll-host": self._host, "x-forwarded-host": self._host, "x-forwarded-proto": scheme}
        return {**headers, **wire.FOR_THE_APP, **told}

    async def _body(self) -> AsyncIterator[bytes]:
        while True:
            message = await self._receive()
            if message["type"] != "http.request":
                raise ConnectionError("the visitor has left")
            yield message.get("body", b"")
            if not message.get("more_body"):
                return

    async def _http(self) -> None:
        headers = self._headers()
        sent = "content-length" in headers or _header(self._scope, "transfer-encoding")
        request = wire.Request(self._scope["method"], self._target(), None, headers, False, None)
        response = await self._box.passed(request, self._body() if sent else None)
        body = io.Body(response)
        try:
            kept = [(key, value) for key, value in response.headers.raw if key.decode("latin-1").lower() not in _PER_CONNECTION]
            await self._send({"type": "http.response.start", "status": response.status_code, "headers": kept})
            self._begun = True
            while True:
                piece = await body.next()
                await self._send({"type": "http.response.body", "body": piece or b"", "more_body": piece is not None})
                if piece is None:
                    return
        except httpx.TransportError as error:
            raise ConnectionError("the preview's server broke off") from error
        finally:
            await body.close()

    async def _websocket(self) -> None:
        await self._receive()  # websocket.connect
        wanted = self._scope.get("subprotocols") or []
        async with await self._box.websocket(self._target(), self._headers(), wanted) as socket:
            self._begun = True
            await _bridged(socket, self._receive, self._send)


async def _bridged(socket: AsyncWebSocket, receive: Receive, send: Send) -> None:
    """Passes messages both ways until one side ends."""

    async def inward() -> None:
        while True:
            message = await receive()
            if message["type"] != "websocket.receive":
                return
            text = message.get("text")
            await socket.send(text if text is not None else message["bytes"])

    async def outward() -> None:
        with contextlib.suppress(SandboxError):
            async for message in socket:
                await send({"type": "websocket.send", "text" if isinstance(message, str) else "bytes": message})
        await send({"type": "websocket.close", "code": 1000})

    await send({"type": "websocket.accept", "subprotocol": socket.subprotocol})
    ways = [asyncio.ensure_future(inward()), asyncio.ensure_future(outward())]
    try:
        await asyncio.wait(ways, return_when=asyncio.FIRST_COMPLETED)
    finally:
        for way in ways:
            way.cancel()
        await asyncio.gather(*ways, return_exceptions=True)


async def proxy_terminal(
    sandbox: AsyncSandbox,
    receive: Receive,
    send: Send,
    *,
    session: str | None = None,
    cols: int = 80,
    rows: int = 24,
    shell: str | None = None,
) -> None:
    """Serves a WebSocket of a browser with the terminal of a session: for an ASGI application's `websocket` scope.

    Binary messages are the terminal's bytes; text messages are `resize` (from the browser), `ready`, `exit` and `error`.
    """
    message = await receive()
    if message["type"] != "websocket.connect":
        raise ValueError("proxy_terminal() answers a WebSocket that has not been accepted yet")
    path = path_of(session or f"sandbox-{sandbox.id}", cols, rows, shell)
    async with await sandbox._box.websocket(path) as socket:
        await _bridged(socket, receive, send)
