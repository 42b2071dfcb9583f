"""Server-sent events: frames end with an empty line; a frame has fields, of which data is JSON here."""

from __future__ import annotations

import json
import re
from typing import Any, NamedTuple

from .errors import SandboxError

#: No event of Atoll's comes near: a server that sends more without an empty line is not one.
FRAME_BYTES = 256 << 20

_END = re.compile(rb"\r\n\r\n|\n\n|\r\r")
_LINE = re.compile("\r\n|\r|\n")


class Frame(NamedTuple):
    event: dict[str, Any]
    id: str | None


def _parse(text: str) -> Frame | None:
    """A frame's event; None for comments and what is no JSON object."""
    data: list[str] = []
    frame_id = None
    for line in _LINE.split(text):
        name, colon, value = line.partition(":")
        value = value[1:] if value.startswith(" ") else value
        if colon and name == "data":
            data.append(value)
        elif colon and name == "id":
            frame_id = value
    try:
        event = json.loads("\n".join(data)) if data else None
    except ValueError:
        return None
    return Frame(event, frame_id) if isinstance(event, dict) else None


class FrameReader:
    """Cuts a stream of bytes into frames, wherever its pieces end."""

    def __init__(self) -> None:
        self._pending = bytearray()
        self._searched = 0  # up to here `pending` holds no end of a frame

    def push(self, piece: bytes) -> list[Frame]:
        """The frames that are complete with this piece."""
        self._pending += piece
        if len(self._pending) > FRAME_BYTES:
            raise SandboxError(f"An event of more than {FRAME_BYTES} bytes came", code="INVALID_JSON_RESPONSE")
        frames, start = [], 0
        for end in _END.finditer(self._pending, self._searched):
            frame = _parse(self._pending[start:end.start()].decode("utf-8", "replace"))
            start = end.end()
            if frame:
                frames.append(frame)
        del self._pending[:start]
        self._searched = max(0, len(self._pending) - 3)
        return frames
