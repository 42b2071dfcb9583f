"""A WebSocket: the protocol of `_websocket` on a socket."""

from __future__ import annotations

import contextlib
from typing import AsyncIterator, Awaitable, Callable, Mapping, Sequence

import httpx

from .. import _wire as wire
from .._io import aio as io
from .._place import Place
from .._websocket import Connection, Message


#: Headers of one connection; those of the handshake are made anew.
_OF_HOP = frozenset(("connection", "upgrade", "host", "keep-alive", "content-length", "transfer-encoding"))


class AsyncWebSocket:
    """Messages both ways. Nothing is read from the socket before it is asked for, so a slow reader slows the sender.

    One reader and any number of senders may use it at once.
    """

    def __init__(
        self, connection: Connection, socket: io.Socket, place: Place, answers: Callable[[], Awaitable[bool]] | None
    ) -> None:
        self._connection, self._socket, self._place = connection, socket, place
        #: Whether the server answers anything; None for a server that is not Atoll.
        self._answers = answers
        self._sending = io.Lock()
        self._closed = False

    @classmethod
    async def opened(
        cls, place: Place, url: str, headers: Mapping[str, str], subprotocols: Sequence[str], seconds: float,
        answers: Callable[[], Awaitable[bool]] | None = None,
    ) -> AsyncWebSocket:
        """A new connection to `url`. Refusals raise what the answer says."""
        connection = Connection(url, headers, subprotocols)
        try:
            socket = await io.connect(place, connection.host, connection.port, wire.CONNECT_SECONDS)
        except OSError as error:
            raise wire.failure(httpx.ConnectError(str(error)), place) from error
        found = cls(connection, socket, place, answers)
        try:
            await found.handshake(seconds)
        except BaseException:
            await found.aclose()
            raise
        return found

    @classmethod
    async def forward(cls, request: httpx.Request, url: str | None = None) -> AsyncWebSocket:
        """Sends a sandbox's request for a WebSocket on to its server, from here, or to `url`: return it from an outbound
        handler."""
        target = str(request.url) if url is None else url
        headers = {name: value for name, value in request.headers.items()
                   if name not in _OF_HOP and not name.startswith("sec-websocket-")}
        wanted = [name.strip() for name in request.headers.get("sec-websocket-protocol", "").split(",") if name.strip()]
        place = Place(str(httpx.URL(target).copy_with(raw_path=b"")))
        return await cls.opened(place, target, headers, wanted, wire.ANSWER_SECONDS)

    async def handshake(self, seconds: float) -> None:
        until = io.deadline(seconds)
        try:
            while not self._connection.open:
                if self._connection.refusal:
                    raise self._connection.refusal
                if self._connection.over:
                    raise wire.failure(httpx.RemoteProtocolError("the handshake was cut"), self._place)
                await self._step(until)
        except io.DeadlinePassed:
            raise wire.failure(httpx.ReadTimeout(""), self._place, seconds) from None

    async def _step(self, until: float | None) -> None:
        try:
            await self._flush()
            self._connection.receive(await self._bytes(until))
            await self._flush()
        except OSError as error:
            self._connection.over = True
            if not self._closed:
                raise wire.failure(httpx.ReadError(str(error)), self._place) from error

    async def _bytes(self, until: float | None) -> bytes:
        """The next bytes; a wait without a time limit ends when Atoll answers nothing any more."""
        while until is None and self._answers is not None:
            with contextlib.suppress(io.DeadlinePassed):
                return await self._socket.receive(io.deadline(wire.ASK_SECONDS))
            if not await self._answers() and not self._closed:
                raise wire.failure(httpx.ReadTimeout(wire.SILENT), self._place)
        return await self._socket.receive(until)

    async def _flush(self) -> None:
        if not self._connection.has_output():
            return
        async with self._sending:
            data = self._connection.output()
            if data:
                await self._socket.send(data)

    async def receive(self, timeout: float | None = None) -> Message | None:
        """The next message: text or bytes; None when the connection has ended. Raises TimeoutError."""
        until = io.deadline(timeout)
        try:
            while not self._connection.messages and not self._connection.over:
                await self._step(until)
        except io.DeadlinePassed:
            raise TimeoutError(f"no message came within {timeout:g} s") from None
        return self._connection.messages.pop(0) if self._connection.messages else None

    async def send(self, message: Message) -> None:
        if not isinstance(message, (str, bytes, bytearray, memoryview)):
            raise TypeError(f"a message is a str or bytes, not {type(message).__name__}")
        if self._connection.over or self._closed:
            raise wire.failure(httpx.WriteError("the WebSocket is closed"), self._place)
        self._connection.send(message)
        try:
            await self._flush()
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

    async def aclose(self, code: int = 1000, reason: str = "") -> None:
        if self._closed:
            return
        self._closed = True
        with contextlib.suppress(OSError):
            self._connection.close(code, reason)
            await self._flush()
        await self._socket.close()

    async def __aenter__(self) -> AsyncWebSocket:
        return self

    async def __aexit__(self, *_: object) -> None:
        await self.aclose()

    async def __aiter__(self) -> AsyncIterator[Message]:
        while True:
            message = await self.receive()
            if message is None:
                return
            yield message
