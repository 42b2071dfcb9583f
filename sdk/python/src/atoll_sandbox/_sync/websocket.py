# Made by tools/unasync.py from ../_async/websocket.py: change that file.
"""A WebSocket: the protocol of `_websocket` on a socket."""

from __future__ import annotations

import contextlib
from typing import Callable, Iterator, Mapping, Sequence

import httpx

from .. import _wire as wire
from .._io import blocking as io
from .._place import Place
from .._websocket import Connection, Message


#: Headers of one connection; those of the handshake are made anew.
_OF_HOP = frozenset(("connection", "upgrade", "host", "keep-alive", "content-length", "transfer-encoding"))


class WebSocket:
    """Messages both ways. Nothing is read from the socket before it is asked for, so a slow reader slows the sender.

    One reader and any number of senders may use it at once.
    """

    def __init__(
        self, connection: Connection, socket: io.Socket, place: Place, answers: Callable[[], bool] | None
    ) -> None:
        self._connection, self._socket, self._place = connection, socket, place
        #: Whether the server answers anything; None for a server that is not Atoll.
        self._answers = answers
        self._sending = io.Lock()
        self._closed = False

    @classmethod
    def opened(
        cls, place: Place, url: str, headers: Mapping[str, str], subprotocols: Sequence[str], seconds: float,
        answers: Callable[[], bool] | None = None,
    ) -> WebSocket:
        """A new connection to `url`. Refusals raise what the answer says."""
        connection = Connection(url, headers, subprotocols)
        try:
            socket = io.connect(place, connection.host, connection.port, wire.CONNECT_SECONDS)
        except OSError as error:
            raise wire.failure(httpx.ConnectError(str(error)), place) from error
        found = cls(connection, socket, place, answers)
        try:
            found.handshake(seconds)
        except BaseException:
            found.close()
            raise
        return found

    @classmethod
    def forward(cls, request: httpx.Request, url: str | None = None) -> WebSocket:
        """Sends a sandbox's request for a WebSocket on to its server, from here, or to `url`: return it from an outbound
        handler."""
        target = str(request.url) if url is None else url
        headers = {name: value for name, value in request.headers.items()
                   if name not in _OF_HOP and not name.startswith("sec-websocket-")}
        wanted = [name.strip() for name in request.headers.get("sec-websocket-protocol", "").split(",") if name.strip()]
        place = Place(str(httpx.URL(target).copy_with(raw_path=b"")))
        return cls.opened(place, target, headers, wanted, wire.ANSWER_SECONDS)

    def handshake(self, seconds: float) -> None:
        until = io.deadline(seconds)
        try:
            while not self._connection.open:
                if self._connection.refusal:
                    raise self._connection.refusal
                if self._connection.over:
                    raise wire.failure(httpx.RemoteProtocolError("the handshake was cut"), self._place)
                self._step(until)
        except io.DeadlinePassed:
            raise wire.failure(httpx.ReadTimeout(""), self._place, seconds) from None

    def _step(self, until: float | None) -> None:
        try:
            self._flush()
            self._connection.receive(self._bytes(until))
            self._flush()
        except OSError as error:
            self._connection.over = True
            if not self._closed:
                raise wire.failure(httpx.ReadError(str(error)), self._place) from error

    def _bytes(self, until: float | None) -> bytes:
        """The next bytes; a wait without a time limit ends when Atoll answers nothing any more."""
        while until is None and self._answers is not None:
            with contextlib.suppress(io.DeadlinePassed):
                return self._socket.receive(io.deadline(wire.ASK_SECONDS))
            if not self._answers() and not self._closed:
                raise wire.failure(httpx.ReadTimeout(wire.SILENT), self._place)
        return self._socket.receive(until)

    def _flush(self) -> None:
        if not self._connection.has_output():
            return
        with self._sending:
            data = self._connection.output()
            if data:
                self._socket.send(data)

    def receive(self, timeout: float | None = None) -> Message | None:
        """The next message: text or bytes; None when the connection has ended. Raises TimeoutError."""
        until = io.deadline(timeout)
        try:
            while not self._connection.messages and not self._connection.over:
                self._step(until)
        except io.DeadlinePassed:
            raise TimeoutError(f"no message came within {timeout:g} s") from None
        return self._connection.messages.pop(0) if self._connection.messages else None

    def send(self, message: Message) -> None:
        if not isinstance(message, (str, bytes, bytearray, memoryview)):
            raise TypeError(f"a message is a str or bytes, not {type(message).__name__}")
        if self._connection.over or self._closed:
            raise wire.failure(httpx.WriteError("the WebSocket is closed"), self._place)
        self._connection.send(message)
        try:
            self._flush()
        except OSError as error:
            raise wire.failure(httpx.WriteError(str(error)), self._place) from error

    @property
    def subprotocol(self) -> str | None:
        """The one of the subprotocols that the server has chosen."""
        return self._connection.subprotocol

    @property
    def close_code(self) -> int | None:
        """How the other side closed the connection; None while it is open."""
        return self._connection.close_code

    @property
    def close_reason(self) -> str:
        """The words that the other side closed the connection with."""
        return self._connection.close_reason

    def close(self, code: int = 1000, reason: str = "") -> None:
        if self._closed:
            return
        self._closed = True
        with contextlib.suppress(OSError):
            self._connection.close(code, reason)
            self._flush()
        self._socket.close()

    def __enter__(self) -> WebSocket:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def __iter__(self) -> Iterator[Message]:
        while True:
            message = self.receive()
            if message is None:
                return
            yield message
