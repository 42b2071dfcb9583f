"""WebSockets without input and output, on the protocol of the `websockets` package: bytes in, messages out, and back.

`websockets` has a blocking client only from version 11 on; its protocol alone is the same in all versions since 10.
"""

from __future__ import annotations

import threading
from typing import Any, Mapping, Sequence, Union

import websockets.client
from websockets.frames import Opcode
from websockets.uri import parse_uri

from .errors import SandboxError, error_of_answer

#: Its name before version 11 is ClientConnection.
_Protocol: Any = getattr(websockets.client, "ClientProtocol", None) or getattr(websockets.client, "ClientConnection")

Message = Union[str, bytes]

#: The longest message that is taken.
MESSAGE_BYTES = 64 << 20


class Connection:
    """One WebSocket. The owner of the socket calls `receive` with the bytes that came and sends those that `output` returns.
    Several threads may call."""

    def __init__(self, url: str, headers: Mapping[str, str], subprotocols: Sequence[str] = ()) -> None:
        uri = parse_uri(url.replace("http", "ws", 1))
        self.host, self.port = uri.host, uri.port
        self._protocol: Any = _Protocol(uri, max_size=MESSAGE_BYTES, subprotocols=list(subprotocols) or None)
        request = self._protocol.connect()
        for name, value in headers.items():
            request.headers[name] = value
        self._protocol.send_request(request)
        self._lock = threading.Lock()
        self._parts: list[bytes] = []
        self._text = False
        #: Messages that have come.
        self.messages: list[Message] = []
        self.open = False
        #: Whether no more messages will come.
        self.over = False
        self.refusal: SandboxError | None = None

    def has_output(self) -> bool:
        """Whether there may be bytes to send."""
        return bool(self._protocol.writes)

    def output(self) -> bytes:
        """Bytes to send."""
        with self._lock:
            return b"".join(self._protocol.data_to_send())

    def receive(self, data: bytes) -> None:
        """Takes bytes that came; none is the end."""
        with self._lock:
            self._receive(data)

    def _receive(self, data: bytes) -> None:
        try:
            if data:
                self._protocol.receive_data(data)
            else:
                self._protocol.receive_eof()
        except Exception as error:  # version 10 raises whatever its parser meets in an answer that is no HTTP
            self._refused(error)
            return
        for event in self._protocol.events_received():
            if hasattr(event, "status_code"):
                self._answered(event)
            else:
                self._frame(event)
        if self._protocol.handshake_exc is not None and not self.over:  # later versions keep it here
            self._refused(self._protocol.handshake_exc)
        if self._protocol.parser_exc is not None or not data:
            self.over = True

    def _refused(self, error: Exception) -> None:
        self.over = True
        message = f"The server does not speak WebSocket: {error or type(error).__name__}"
        self.refusal = SandboxError(message, code="UNKNOWN_ERROR", suggestion="Check that the URL is that of an Atoll.")

    def _answered(self, response: Any) -> None:
        if response.status_code == 101 and self._protocol.handshake_exc is None:
            self.open = True
            return
        self.over = True
        self.refusal = error_of_answer(response.status_code, response.reason_phrase, bytes(response.body or b""))

    def _frame(self, frame: Any) -> None:
        if frame.opcode is Opcode.CLOSE:
            self.over = True
            return
        if frame.opcode not in (Opcode.TEXT, Opcode.BINARY, Opcode.CONT):
            return
        if frame.opcode is not Opcode.CONT:
            self._text = frame.opcode is Opcode.TEXT
        self._parts.append(bytes(frame.data))
        if frame.fin:
            whole, self._parts = b"".join(self._parts), []
            self.messages.append(whole.decode("utf-8", "replace") if self._text else whole)

    @property
    def subprotocol(self) -> str | None:
        """The subprotocol that the server has chosen."""
        chosen: str | None = self._protocol.subprotocol
        return chosen

    @property
    def close_code(self) -> int | None:
        """What the other side closed with; 1006 when it went without a word."""
        said = self._protocol.close_rcvd
        return (said.code if said else 1006) if self.over else None

    @property
    def close_reason(self) -> str:
        said = self._protocol.close_rcvd
        return str(said.reason) if said and self.over else ""

    def send(self, message: Message) -> None:
        with self._lock:
            if isinstance(message, str):
                self._protocol.send_text(message.encode())
            else:
                self._protocol.send_binary(bytes(message))

    def close(self, code: int = 1000, reason: str = "") -> None:
        with self._lock:
            if self.open and not self.over:
                self._protocol.send_close(code, reason)
