"""Shared by both ways of input and output."""

from __future__ import annotations

import socket
import ssl
import time
from typing import Any, Mapping

import httpx

from .._place import Place

#: Bytes that are read from a file or a socket at once.
PIECE_BYTES = 256 * 1024
#: Seconds for which a WebSocket's peer may take nothing of a message.
SEND_SECONDS = 60.0
#: Seconds without a byte after which the kernel asks whether the peer is still there.
KEEP_ALIVE_SECONDS = 30


#: Events of httpx's `trace` extension that say that a connection is there.
CONNECTED = frozenset(f"connection.{name}.complete" for name in ("connect_tcp", "connect_unix_socket", "start_tls"))


class DeadlinePassed(Exception):
    """The time limit of a wait is over."""


def deadline(seconds: float | None) -> float | None:
    """The moment in so many seconds, as `left` takes it."""
    return None if seconds is None else time.monotonic() + seconds


def left(until: float | None) -> float | None:
    """Seconds until a deadline; raises when it has passed."""
    if until is None:
        return None
    seconds = until - time.monotonic()
    if seconds <= 0:
        raise DeadlinePassed
    return seconds


def transport_options(place: Place) -> dict[str, Any]:
    """How both of httpx's transports are made."""
    return {
        "verify": place.secure,  # loading certificates takes longer than a request: only for https
        "uds": place.socket_path,
        "limits": httpx.Limits(max_connections=None, max_keepalive_connections=20, keepalive_expiry=30),
    }


def tune(connection: Any) -> None:
    """Head and body of a request leave in two writes, and the second must not wait for the peer to confirm the first (40 ms).
    A peer that is gone without a word ends waits that have no time limit."""
    if connection is not None and connection.family != getattr(socket, "AF_UNIX", None):
        connection.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        connection.setsockopt(socket.SOL_SOCKET, socket.SO_KEEPALIVE, 1)
        if hasattr(socket, "TCP_KEEPIDLE"):
            connection.setsockopt(socket.IPPROTO_TCP, socket.TCP_KEEPIDLE, KEEP_ALIVE_SECONDS)


def traced(event: str, info: Mapping[str, Any]) -> None:
    """For httpx's `trace` extension: tunes connections when they are made, in versions that have no option for it too."""
    if event == "connection.connect_tcp.complete":
        tune(info["return_value"].get_extra_info("socket"))


def tls(place: Place) -> ssl.SSLContext | None:
    return ssl.create_default_context() if place.secure else None


def piece_of(value: object) -> bytes:
    if not isinstance(value, (bytes, bytearray, memoryview)):
        hint = ": encode it, or open the file with mode 'rb'" if isinstance(value, str) else ""
        raise TypeError(f"the pieces of a file are bytes, not {type(value).__name__}{hint}")
    return bytes(value)


def content_of(response: httpx.Response) -> bytes | None:
    """The content of a response that was read, or made with it; None for one that is a stream."""
    try:
        return response.content
    except httpx.ResponseNotRead:
        return None
