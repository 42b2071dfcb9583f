"""Input and output with asyncio."""

from __future__ import annotations

import asyncio
import inspect
import time
from typing import IO, Any, AsyncIterable, AsyncIterator, Awaitable, Callable, Coroutine, Iterable, Mapping, Union

import httpx

from .._place import Place
from .common import (
    CONNECTED,
    PIECE_BYTES,
    SEND_SECONDS,
    DeadlinePassed,
    content_of,
    deadline,
    left,
    piece_of,
    tls,
    traced,
    transport_options,
    tune,
)

__all__ = ["CONNECTED", "Body", "DeadlinePassed", "Lock", "Mailbox", "Pieces", "Socket", "background", "body_of", "call",
           "client", "connect", "content_of", "deadline", "finish", "left", "loop", "now", "pieces", "sleep", "trace"]

#: The content of a file, piece by piece.
Pieces = Union[AsyncIterable[bytes], Iterable[bytes], IO[bytes]]

Lock = asyncio.Lock
now = time.monotonic
_tasks: set[asyncio.Task[None]] = set()


def loop() -> object:
    """To what connections belong."""
    return asyncio.get_running_loop()


def client(place: Place) -> httpx.AsyncClient:
    return httpx.AsyncClient(transport=httpx.AsyncHTTPTransport(**transport_options(place)))


async def trace(event: str, info: Mapping[str, Any]) -> None:
    traced(event, info)


async def sleep(seconds: float, until: float | None = None) -> None:
    """Waits; raises DeadlinePassed when the deadline comes first."""
    remaining = left(until)
    await asyncio.sleep(seconds if remaining is None else min(seconds, remaining))
    left(until)


async def call(callback: Callable[..., Any] | None, *arguments: object) -> Any:
    """Calls back, if there is a callback; it may be a coroutine function."""
    answer = callback(*arguments) if callback else None
    return await answer if inspect.isawaitable(answer) else answer


def background(work: Callable[[], Coroutine[Any, Any, None]]) -> Callable[[], object]:
    """Work beside the caller's own. Returns what cancels it."""
    task = asyncio.get_running_loop().create_task(work())
    _tasks.add(task)  # the loop itself holds tasks weakly
    task.add_done_callback(_tasks.discard)
    return task.cancel


class Mailbox:
    """Things that one part puts in without waiting, and that another one waits for."""

    def __init__(self) -> None:
        self._queue: asyncio.Queue[Any] = asyncio.Queue()
        self.put = self._queue.put_nowait

    async def get(self) -> Any:
        return await self._queue.get()


async def body_of(response: httpx.Response) -> AsyncIterator[bytes]:
    """The bytes of a response as they are sent."""
    if isinstance(response.stream, httpx.AsyncByteStream):
        async for piece in response.aiter_raw():
            yield piece
    else:
        for piece in response.iter_raw():
            yield piece


async def finish(response: httpx.Response) -> None:
    if isinstance(response.stream, httpx.AsyncByteStream):
        await response.aclose()
    else:
        response.close()


async def pieces(content: Pieces) -> AsyncIterator[bytes]:
    """The pieces of a file object or of an iterable of bytes."""
    if hasattr(content, "__aiter__"):
        async for piece in content:
            yield piece_of(piece)
    elif hasattr(content, "read"):
        while True:
            piece = content.read(PIECE_BYTES)
            if not piece:
                return
            yield piece_of(piece)
    else:
        for piece in content:
            yield piece_of(piece)


async def _within(work: Awaitable[Any], until: float | None) -> Any:
    try:
        return await asyncio.wait_for(work, left(until))
    except asyncio.TimeoutError:
        raise DeadlinePassed from None


class Body:
    """The body of an answer, piece by piece."""

    def __init__(self, response: httpx.Response) -> None:
        self.response = response
        self._pieces = response.aiter_raw()

    async def next(self, until: float | None = None) -> bytes | None:
        """The next piece; None at the end. After DeadlinePassed the connection is of no more use."""
        try:
            if until is None:
                return await self._pieces.__anext__()
            piece: bytes = await _within(self._pieces.__anext__(), until)
            return piece
        except StopAsyncIteration:
            return None

    async def close(self) -> None:
        await self.response.aclose()


class Socket:
    """A connection for a WebSocket."""

    def __init__(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self._reader, self._writer = reader, writer
        tune(writer.get_extra_info("socket"))

    async def receive(self, until: float | None = None) -> bytes:
        """The bytes that have come; none at the end."""
        if until is None:
            return await self._reader.read(PIECE_BYTES)
        data: bytes = await _within(self._reader.read(PIECE_BYTES), until)
        return data

    async def send(self, data: bytes) -> None:
        self._writer.write(data)
        try:
            await asyncio.wait_for(self._writer.drain(), SEND_SECONDS)
        except asyncio.TimeoutError:
            raise TimeoutError(f"nothing was taken for {SEND_SECONDS:g} s") from None

    async def close(self) -> None:
        self._writer.close()


async def connect(place: Place, host: str, port: int, seconds: float) -> Socket:
    if place.socket_path:
        opening: Awaitable[Any] = asyncio.open_unix_connection(place.socket_path)
    else:
        secure = tls(place)
        opening = asyncio.open_connection(host, port, ssl=secure, server_hostname=host if secure else None)
    try:
        return Socket(*await asyncio.wait_for(opening, seconds))
    except asyncio.TimeoutError:
        raise TimeoutError(f"no connection within {seconds:g} s") from None
