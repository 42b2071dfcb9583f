"""Shared by both ways of input and output."""

from __future__ import annotations

import inspect
import socket
import ssl
import time
from typing import Any

import httpx

from .._place import Place

#: Bytes that are read from a file or a socket at once.
PIECE_BYTES = 256 * 1024
#: Seconds for which a WebSocket's peer may take nothing of a message.
SEND_SECONDS = 60.0


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
    options: dict[str, Any] = {
        "verify": place.secure,  # loading certificates takes longer than a request: only for https
        "uds": place.socket_path,
        "limits": httpx.Limits(max_connections=None, max_keepalive_connections=20, keepalive_expiry=30),
    }
    # A peer that is gone without a word ends waits that have no time limit. Older versions of httpx have no such option.
    if not place.socket_path and "socket_options" in inspect.signature(httpx.HTTPTransport).parameters:
        options["socket_options"] = [
            (socket.SOL_SOCKET, socket.SO_KEEPALIVE, 1),
            (socket.IPPROTO_TCP, getattr(socket, "TCP_KEEPIDLE", 4), 30),
        ]
    return options


def tls(place: Place) -> ssl.SSLContext | None:
    return ssl.create_default_context() if place.secure else None


def piece_of(value: object) -> bytes:
    if not isinstance(value, (bytes, bytearray, memoryview)):
        raise TypeError(f"the pieces of a file are bytes, not {type(value).__name__}")
    return bytes(value)
