# Made by tools/unasync.py from ../_async/outbound.py: change that file.
"""Outbound handlers: requests of programs in the sandbox that this program answers in the place of servers.

They come over a WebSocket, many at once: the daemon's src/daemon/network/hooks.h describes the messages. Bodies stream in both
directions, limited by credit: what the other side has taken is granted again.
"""

from __future__ import annotations

import json
import logging
import re
import struct
from typing import Any, Callable, Iterator, Mapping, Sequence, Union

import httpx

from .. import _checks as checks
from .. import _wire as wire
from .._io import blocking as io
from ..errors import SandboxError
from .box import Box
from .commands import Scope
from .websocket import WebSocket

Answer = Union[httpx.Response, WebSocket]

#: Answers a request of a program in the sandbox, and one for a WebSocket with an WebSocket.
Handler = Callable[[httpx.Request], Answer]

#: For which hosts a handler answers: for both protocols, or for `http` and `https` apart.
Hosts = Union[Sequence[str], Mapping[str, Sequence[str]]]

_REQUEST, _BODY, _END, _GIVE_UP, _ANSWER, _ANSWER_BODY, _ANSWER_END, _CREDIT, _FAILED, _SOCKET, _SOCKET_END = range(1, 12)
_HEAD, _NUMBER, _CODE = struct.Struct(">BI"), struct.Struct(">I"), struct.Struct(">H")

#: Bytes of a body that are on their way, in each direction; of one message; of a message of a WebSocket.
WINDOW_BYTES = 256 * 1024
PIECE_BYTES = 64 * 1024
MESSAGE_BYTES = 1 << 20
#: Characters of an exception that the daemon is told.
TOLD_CHARACTERS = 1000
#: The daemon's framing is its own.
DROPPED = frozenset(("connection", "keep-alive", "transfer-encoding", "upgrade"))

_log = logging.getLogger("atoll_sandbox")


class _GivenUp(ConnectionAbortedError):
    """The program in the sandbox waits for no answer any more, or the hook is gone."""


class _Exchange:
    """One request and its answer."""

    def __init__(self, socket: WebSocket, number: int, handler: Handler) -> None:
        self._socket, self._number, self._handler = socket, number, handler
        #: Pieces of the request's body, or messages of its WebSocket; None is the end.
        self._pieces = io.Mailbox()
        self._grants = io.Mailbox()
        self._credit = WINDOW_BYTES
        self._over = False
        self.cancel: Callable[[], object] = lambda: None

    def _say(self, kind: int, rest: bytes = b"") -> None:
        if self._over:
            raise _GivenUp("the request was given up")
        self._socket.send(_HEAD.pack(kind, self._number) + rest)

    def run(self, head: bytes) -> None:
        try:
            told = json.loads(head)
            answer = io.call(self._handler, self._request(told))
            if isinstance(answer, WebSocket):
                self._bridge(answer)
            elif isinstance(answer, httpx.Response):
                self._answer(answer, told["method"])
            else:
                raise TypeError(f"an outbound handler returns httpx.Response or a WebSocket, not {type(answer).__name__}")
        except Exception as error:
            if self._over:
                return
            _log.warning("an outbound handler failed: %s: %s", type(error).__name__, error, exc_info=True)
            try:
                self._say(_FAILED, f"{type(error).__name__}: {error}"[:TOLD_CHARACTERS].encode())
            except (SandboxError, OSError):
                pass  # the hook is gone, and with it the request

    def _request(self, head: Mapping[str, Any]) -> httpx.Request:
        headers = [(str(name), str(value)) for name, value in head["headers"]]
        return httpx.Request(head["method"], head["url"], headers=headers, content=self._content() if head.get("body") else None)

    def _content(self) -> Iterator[bytes]:
        """The body of the request. Whatever was taken is granted again."""
        while True:
            piece = self._next(self._pieces)
            if piece is None:
                return
            yield piece
            self._say(_CREDIT, _NUMBER.pack(len(piece)))

    def _next(self, box: io.Mailbox) -> Any:
        found = box.get()
        if self._over:
            raise _GivenUp("the request was given up")
        return found

    def _answer(self, response: httpx.Response, method: str) -> None:
        whole = io.content_of(response)
        # A body that was read here is no longer encoded.
        gone = DROPPED | {"content-encoding", "content-length"} if whole is not None else DROPPED
        headers = [[name, value] for name, value in response.headers.multi_items() if name.lower() not in gone]
        try:
            self._say(_ANSWER, json.dumps({"status": response.status_code, "headers": headers}).encode())
            if method != "HEAD" and whole is not None:
                self._stream(whole)
            elif method != "HEAD":
                for piece in io.body_of(response):
                    self._stream(piece)
            self._say(_ANSWER_END)
        finally:
            io.finish(response)

    def _stream(self, data: bytes) -> None:
        at = 0
        while at < len(data):
            self._wait_for_credit()
            piece = data[at:at + min(PIECE_BYTES, self._credit)]
            self._credit -= len(piece)
            at += len(piece)
            self._say(_ANSWER_BODY, piece)

    def _wait_for_credit(self) -> None:
        while self._credit <= 0:
            self._credit += self._next(self._grants)

    # ---- A WebSocket in the place of bodies

    def _bridge(self, far: WebSocket) -> None:
        """The handler has a WebSocket for the program in the sandbox: until one of both ends it."""
        headers = [["sec-websocket-protocol", far.subprotocol]] if far.subprotocol else []
        self._say(_ANSWER, json.dumps({"status": 101, "headers": headers}).encode())
        stop = io.background(lambda: self._inward(far))
        try:
            while True:
                message = far.receive()
                if message is None:
                    break
                if len(message) > MESSAGE_BYTES:
                    far.close(1009, "a message is too long")
                    break
                self._outward(message)
            self._say(_SOCKET_END, _CODE.pack(far.close_code or 1005) + far.close_reason.encode())
        finally:
            stop()
            far.close()

    def _outward(self, message: str | bytes) -> None:
        data = message.encode() if isinstance(message, str) else message
        self._wait_for_credit()
        self._credit -= len(data)
        self._say(_SOCKET, bytes([isinstance(message, str)]) + data)

    def _inward(self, far: WebSocket) -> None:
        """Messages of the program in the sandbox. It ends them with a code, or by going away."""
        try:
            while True:
                message = self._next(self._pieces)
                if isinstance(message, tuple):
                    far.close(*message)
                    return
                far.send(message[1:].decode("utf-8", "replace") if message[0] else message[1:])
                if len(message) > 1:
                    self._say(_CREDIT, _NUMBER.pack(len(message) - 1))
        except (SandboxError, OSError):
            far.close()

    # ---- What the daemon says

    def take(self, kind: int, rest: bytes) -> None:
        if kind in (_BODY, _SOCKET) and rest:
            self._pieces.put(rest)
        elif kind == _END:
            self._pieces.put(None)
        elif kind == _CREDIT and len(rest) == _NUMBER.size:
            self._grants.put(_NUMBER.unpack(rest)[0])
        elif kind == _SOCKET_END:
            code = _CODE.unpack(rest[:2])[0] if len(rest) >= 2 else 1005
            # Other codes are not for programs to send.
            sendable = code == 1000 or code >= 3000
            self._pieces.put((code if sendable else 1000, rest[2:].decode("utf-8", "replace") if sendable else ""))

    def give_up(self) -> None:
        self._over = True
        self._pieces.put(None)
        self._grants.put(0)
        self.cancel()


def means_host(pattern: str, url: httpx.URL) -> bool:
    """Whether a host that was asked for is meant by a pattern: `example.com`, `*.example.com`, `10.0.0.1:80`, `*`."""
    port = url.port or (443 if url.scheme == "https" else 80)
    expression = re.compile(".*".join(map(re.escape, pattern.split("*"))), re.I)
    return any(expression.fullmatch(name) for name in (url.host, f"{url.host}:{port}"))


class Hook:
    """Holds the hook of a sandbox while there are handlers, again after a restart of the daemon."""

    def __init__(self, box: Box) -> None:
        self._box = box
        self._all: Handler | None = None
        self._hosts: dict[str, list[str]] = {}
        self._by_host: dict[str, Handler] = {}
        self._socket: WebSocket | None = None
        self._stop: Callable[[], object] = lambda: None

    def set(self, handler: Handler | None, hosts: Hosts) -> None:
        if handler is not None and not callable(handler):
            raise TypeError(f"an outbound handler is a function, or None to end it, not {type(handler).__name__}")
        if not isinstance(hosts, Mapping):
            hosts = {"http": hosts, "https": hosts}
        if set(hosts) - {"http", "https"}:
            raise checks.invalid("hosts", "give a list of hosts, or a mapping with 'http' and 'https'")
        self._hosts = {scheme: checks.names(names, "hosts") for scheme, names in hosts.items()}
        self._all = handler
        self._apply()

    def set_by_host(self, host: str, handler: Handler | None) -> None:
        if not isinstance(host, str) or not host or (handler is not None and not callable(handler)):
            raise TypeError("set_outbound_by_host takes a host, as a str, and a function, or None to end it")
        if handler is None:
            self._by_host.pop(host, None)
        else:
            self._by_host[host] = handler
        self._apply()

    def _apply(self) -> None:
        wanted = self._all is not None or bool(self._by_host)
        general = self._hosts if self._all is not None else {}
        hosts = {scheme: [*self._by_host, *general.get(scheme, ())] for scheme in ("http", "https")} if wanted else None
        # The hook first: requests that come at once do not wait.
        if wanted and self._socket is None:
            self._box.json(wire.request("PUT", "", {}, repeatable=True))
            self._connect()
        self._box.json(wire.request("PUT", "", {"outbound": hosts}, repeatable=True, nulls=True))
        if not wanted:
            self.close()

    def _connect(self) -> None:
        socket = self._box.websocket("/hook")
        self._socket = socket
        self._stop = io.background(lambda: self._hold(socket))

    def _hold(self, socket: WebSocket) -> None:
        """Serves requests until the socket closes, then goes on with another one."""
        self._serve(socket)
        failures = 0
        while self._socket is socket:
            io.sleep(wire.delay(failures + 2))
            failures += 1
            try:
                if self._socket is socket:
                    self._connect()
            except SandboxError as error:
                if error.code in ("SANDBOX_NOT_FOUND", "UNAUTHORIZED"):
                    self._socket = None

    def _serve(self, socket: WebSocket) -> None:
        running: dict[int, _Exchange] = {}
        try:
            while True:
                message = socket.receive()
                if message is None:
                    return
                if isinstance(message, bytes) and len(message) >= _HEAD.size:
                    self._take(socket, running, message)
        except SandboxError:
            return
        finally:
            for exchange in list(running.values()):
                exchange.give_up()
            socket.close()

    def _take(self, socket: WebSocket, running: dict[int, _Exchange], message: bytes) -> None:
        kind, number = _HEAD.unpack_from(message)
        rest = message[_HEAD.size:]
        exchange = running.get(number)
        if kind == _REQUEST:
            fresh = running[number] = _Exchange(socket, number, self._handler)
            fresh.cancel = io.background(lambda: _run(fresh, rest, running, number))
        elif kind == _GIVE_UP and exchange is not None:
            exchange.give_up()
        elif exchange is not None:
            exchange.take(kind, rest)

    def _handler(self, request: httpx.Request) -> Any:
        for host, handler in list(self._by_host.items()):
            if means_host(host, request.url):
                return handler(request)
        return self._all(request) if self._all else httpx.Response(520, text="no handler answers for this host\n")

    def close(self) -> None:
        """Lets go of the hook."""
        socket, self._socket = self._socket, None
        stop, self._stop = self._stop, lambda: None
        if socket is not None:
            socket.close()
        stop()

    def forget(self) -> None:
        """The same, for ever: the sandbox ends."""
        self._all = None
        self._by_host.clear()
        self.close()


def _run(exchange: _Exchange, head: bytes, running: dict[int, _Exchange], number: int) -> None:
    try:
        exchange.run(head)
    finally:
        running.pop(number, None)


class Outbound(Scope):
    _hook: Hook

    def set_outbound_handler(self, handler: Handler | None, hosts: Hosts = ("*",)) -> None:
        """Requests of programs in the sandbox come to `handler`, which answers in the place of the servers.

            def handler(request: httpx.Request) -> httpx.Response:
                return httpx.Response(200, text=f"no {request.url.host} here")

            sandbox.set_outbound_handler(handler)

        HTTPS works too: the sandbox's programs trust an authority of the host for it. `hosts` are names, patterns with `*` and
        `address:port`, for both protocols, or `{"http": […], "https": […]}`. None ends it. A request for a WebSocket is answered
        with an WebSocket, such as that of `WebSocket.forward(request)`. Handlers run in the background, several at
        once, until this object is closed or the sandbox is destroyed.
        """
        self._hook.set(handler, hosts)

    def set_outbound_by_host(self, host: str, handler: Handler | None) -> None:
        """The same for one host; it goes before `set_outbound_handler`."""
        self._hook.set_by_host(host, handler)
