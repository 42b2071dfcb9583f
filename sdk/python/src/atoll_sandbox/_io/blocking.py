"""Input and output that block the thread. Names and meanings are those of `aio`."""

from __future__ import annotations

import contextlib
import queue
import socket
import threading
import time
from typing import IO, Any, Callable, Iterable, Iterator, Union

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

Pieces = Union[Iterable[bytes], IO[bytes]]

Lock = threading.Lock
now = time.monotonic
trace = traced


def loop() -> object:
    return None


def client(place: Place) -> httpx.Client:
    return httpx.Client(transport=httpx.HTTPTransport(**transport_options(place)))


def sleep(seconds: float, until: float | None = None) -> None:
    remaining = left(until)
    time.sleep(seconds if remaining is None else min(seconds, remaining))
    left(until)


def call(callback: Callable[..., Any] | None, *arguments: object) -> Any:
    return callback(*arguments) if callback else None


def background(work: Callable[[], None]) -> Callable[[], object]:
    """A thread cannot be cancelled: it ends when what it waits for does."""
    threading.Thread(target=work, name="atoll-sandbox", daemon=True).start()
    return lambda: None


class Mailbox:
    def __init__(self) -> None:
        self._queue: queue.SimpleQueue[Any] = queue.SimpleQueue()
        self.put = self._queue.put

    def get(self) -> Any:
        return self._queue.get()


def body_of(response: httpx.Response) -> Iterator[bytes]:
    return response.iter_raw()


def finish(response: httpx.Response) -> None:
    response.close()


def pieces(content: Pieces) -> Iterator[bytes]:
    if hasattr(content, "read"):
        while True:
            piece = content.read(PIECE_BYTES)
            if not piece:
                return
            yield piece_of(piece)
    else:
        for piece in content:
            yield piece_of(piece)


class Body:
    """The body of an answer. httpx fixes its time limits with the request, so a deadline that comes later is kept by a
    timer which shuts the socket down: the read that waits then ends."""

    def __init__(self, response: httpx.Response) -> None:
        self.response = response
        self._pieces = response.iter_raw()

    def next(self, until: float | None = None) -> bytes | None:
        remaining = left(until)
        if remaining is None:
            return next(self._pieces, None)
        timer = threading.Timer(remaining, self._cut)
        timer.daemon = True
        timer.start()
        try:
            piece = next(self._pieces, None)
        except httpx.TransportError:
            left(until)
            raise
        finally:
            timer.cancel()
        if piece is None:
            left(until)
        return piece

    def _cut(self) -> None:
        connection = self.response.extensions["network_stream"].get_extra_info("socket")
        with contextlib.suppress(OSError):
            socket.socket.shutdown(connection, socket.SHUT_RDWR)

    def close(self) -> None:
        self.response.close()


class Socket:
    def __init__(self, connection: socket.socket) -> None:
        self._connection = connection
        tune(connection)

    def receive(self, until: float | None = None) -> bytes:
        self._connection.settimeout(left(until))
        try:
            return self._connection.recv(PIECE_BYTES)
        except socket.timeout:
            raise DeadlinePassed from None

    def send(self, data: bytes) -> None:
        self._connection.settimeout(SEND_SECONDS)
        self._connection.sendall(data)

    def close(self) -> None:
        # Another thread may wait in `recv`, which only a shutdown ends.
        with contextlib.suppress(OSError):
            socket.socket.shutdown(self._connection, socket.SHUT_RDWR)
        self._connection.close()


def connect(place: Place, host: str, port: int, seconds: float) -> Socket:
    connection = socket.socket(socket.AF_UNIX) if place.socket_path else socket.create_connection((host, port), seconds)
    try:
        if place.socket_path:
            connection.settimeout(seconds)
            connection.connect(place.socket_path)
        secure = tls(place)
        return Socket(secure.wrap_socket(connection, server_hostname=host) if secure else connection)
    except BaseException:
        connection.close()
        raise
