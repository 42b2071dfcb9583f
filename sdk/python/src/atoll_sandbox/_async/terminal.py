"""Terminals without a browser: bytes in, bytes out."""

from __future__ import annotations

import json
import re
from typing import AsyncIterator, Pattern

from .. import _wire as wire
from .._io import aio as io
from ..errors import RPCTransportError, SandboxError
from .websocket import AsyncWebSocket

#: How much of the output `wait_for` looks at when nothing matches.
SEEN_BYTES = 1 << 20
WAIT_SECONDS = 60.0


class AsyncTerminal:
    """A terminal of a session. The first connection starts its shell.

    Leaving `async with` ends the connection; the shell runs on.

    The program in it waits while nothing is read. A connection that reads nothing for half a minute is closed by the server.
    """

    def __init__(self, socket: AsyncWebSocket) -> None:
        self._socket = socket
        self._seen = b""  # read by `wait_for`, behind its last match
        #: How the shell ended: None while it runs.
        self.exit_code: int | None = None
        self.exit_signal: str | None = None

    async def write(self, data: str | bytes) -> None:
        """Types. A line ends with a carriage return."""
        await self._socket.send(data.encode() if isinstance(data, str) else bytes(data))

    async def resize(self, cols: int, rows: int) -> None:
        await self._socket.send(json.dumps({"type": "resize", "cols": int(cols), "rows": int(rows)}))

    async def read(self, timeout: float | None = None) -> bytes:
        """The next bytes that the terminal shows; what it has shown before comes first. Nothing at the end.

        Raises TimeoutError.
        """
        if self._seen:
            seen, self._seen = self._seen, b""
            return seen
        until = io.deadline(timeout)
        while True:
            message = await self._socket.receive(_left(until, timeout))
            if isinstance(message, bytes):
                return message
            if message is None:
                return b""
            self._told(message)

    def _told(self, text: str) -> None:
        try:
            message = json.loads(text)
        except ValueError:
            return
        if message.get("type") == "exit":
            self.exit_code, self.exit_signal = message.get("code"), message.get("signal")
        elif message.get("type") == "error":
            raise SandboxError(str(message.get("message") or "The terminal failed"), code="INTERNAL_ERROR")

    async def wait_for(self, pattern: str | Pattern[str], timeout: float | None = WAIT_SECONDS) -> str:
        """Reads until the terminal has shown a text, or what a compiled expression matches; returns the output up to its end.

        Raises TimeoutError, or EOFError when the terminal ends before.
        """
        until = io.deadline(timeout)
        expression = re.compile(re.escape(pattern)) if isinstance(pattern, str) else pattern
        seen = b""
        while True:
            try:
                data = await self.read(_left(until, timeout))
            except TimeoutError:
                self._seen = seen
                raise
            if not data:
                raise EOFError(f"the terminal ended before it showed {expression.pattern!r}")
            seen = (seen + data)[-SEEN_BYTES:]
            # No byte is lost by this decoding: the end of the match is known in bytes too.
            text = seen.decode("utf-8", "surrogateescape")
            found = expression.search(text)
            if found:
                end = len(text[:found.end()].encode("utf-8", "surrogateescape"))
                self._seen = seen[end:]
                return seen[:end].decode("utf-8", "replace")

    async def wait(self, timeout: float | None = None) -> int:
        """Reads and drops what is shown until the shell ends; returns its exit code. Raises TimeoutError."""
        until = io.deadline(timeout)
        while await self.read(_left(until, timeout)):
            pass
        if self.exit_code is None:
            context = {"kind": "peer_closed", "originalMessage": "closed", "errorName": "EOF"}
            hint = "Connect again: the shell may still run."
            raise RPCTransportError("The terminal was closed before its shell ended", context=context, suggestion=hint)
        return self.exit_code

    async def __aiter__(self) -> AsyncIterator[bytes]:
        while True:
            data = await self.read()
            if not data:
                return
            yield data

    async def aclose(self) -> None:
        """Ends the connection. The shell runs on."""
        await self._socket.aclose()

    async def __aenter__(self) -> AsyncTerminal:
        return self

    async def __aexit__(self, *_: object) -> None:
        await self.aclose()


def _left(until: float | None, timeout: float | None) -> float | None:
    try:
        return io.left(until)
    except io.DeadlinePassed:
        raise TimeoutError(f"the terminal showed nothing of it within {timeout or 0:g} s") from None


def path_of(session: str, cols: int, rows: int, shell: str | None) -> str:
    for name, value in (("cols", cols), ("rows", rows)):
        if isinstance(value, bool) or not isinstance(value, int) or value < 1:
            raise ValueError(f"{name} is {value!r}: a terminal has one or more")
    return wire.request("GET", "/ws/pty", query={"sessionId": session, "cols": cols, "rows": rows, "shell": shell}).path
