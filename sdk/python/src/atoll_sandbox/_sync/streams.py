# Made by tools/unasync.py from ../_async/streams.py: change that file.
"""Streams of events: over one connection, or over as many as it takes."""

from __future__ import annotations

import contextlib
from typing import Any, Callable, Generator, Generic, TypeVar, Union

import httpx

from .. import _wire as wire
from .._io import blocking as io
from .._sse import Frame, FrameReader
from ..errors import SandboxError
from .box import Box

T = TypeVar("T")

#: Seconds without any connection after which a stream fails. The server keeps a command without a reader for 30.
PATIENCE_SECONDS = 25.0


class Link:
    """The events of one connection."""

    def __init__(self, box: Box, request: wire.Request, content: io.Pieces | None = None) -> None:
        self._box, self._request, self._content = box, request, content
        self._body: io.Body | None = None
        self._frames: list[Frame] = []
        self._reader = FrameReader()

    def open(self) -> None:
        if self._body is not None:
            return
        response = self._box.send(self._request, self._content)
        if not response.headers.get("content-type", "").startswith("text/event-stream"):
            body = self._box.transport.read(response, self._request.read_seconds)
            raise wire.not_atoll(self._box.transport.place, body)
        self._body = io.Body(response)

    def frame(self, until: float | None = None) -> Frame | None:
        """The next event with its id; None at the end of the stream."""
        self.open()
        assert self._body is not None
        try:
            while not self._frames:
                piece = self._body.next(until)
                if piece is None:
                    return None
                self._frames = self._reader.push(piece)
        except httpx.TransportError as error:
            raise wire.failure(error, self._box.transport.place, self._request.read_seconds) from error
        return self._frames.pop(0)

    def next(self, until: float | None = None) -> dict[str, Any] | None:
        """The next event; None at the end of the stream."""
        frame = self.frame(until)
        return frame.event if frame else None

    def close(self) -> None:
        body, self._body = self._body, None
        if body is not None:
            body.close()


class EndlessLink(Link):
    """The events of one connection that ends only when something is wrong, unless one of `last` came."""

    last: tuple[str, ...] = ()
    _over = False

    def __init__(self, box: Box, request: wire.Request, operation: str) -> None:
        super().__init__(box, request)
        self._life, self._operation = box.lives, operation

    def next(self, until: float | None = None) -> dict[str, Any] | None:
        event = super().next(until)
        if event is None and not self._over:
            self._box.still_there(self._life, self._operation)
            raise wire.ended_early(self._box.transport.place, self._operation)
        self._over = self._over or (event or {}).get("type") in self.last
        return event


class Follow:
    """How to follow something whose events have ids."""

    def __init__(
        self,
        operation: str,
        first: wire.Request,
        again: wire.Request,
        last: tuple[str, ...],
        opening: str | None = None,
        leave: wire.Request | None = None,
    ) -> None:
        self.operation = operation
        #: The request that opens the stream, and the one that takes it up again.
        self.first, self.again = first, again
        #: Types of events: only after one of `last` may the stream end; `opening` begins every connection, and is seen once.
        self.last, self.opening = last, opening
        #: The request for a reader that leaves before the last event.
        self.leave = leave


class ResumedLink:
    """The events of all connections as if they were one: none twice, none missing."""

    def __init__(self, box: Box, follow: Follow) -> None:
        self._box, self._follow = box, follow
        self._life = box.lives
        self._link: Link | None = None
        self._last_id: str | None = None
        self._begun = self._opened = self._finished = False

    def open(self) -> None:
        if self._link is None:
            self._link = self._connected()

    def _connected(self) -> Link:
        again = self._begun
        if again:
            self._box.still_there(self._life, self._follow.operation)
        request = self._follow.again.behind(self._last_id) if again else self._follow.first
        link = Link(self._box, request)
        link.open()
        self._begun = True
        return link

    def next(self, until: float | None = None) -> dict[str, Any] | None:
        if self._finished:
            return None
        failures, lost_at = 0, 0.0
        while True:
            try:
                self.open()
                assert self._link is not None
                frame = self._link.frame(until)
                if frame is None:
                    raise wire.ended_early(self._box.transport.place, self._follow.operation)
            except SandboxError as error:
                # Half a frame at a break is dropped: the server sends it again, whole.
                self._drop()
                if not self._begun or error.code not in ("RPC_TRANSPORT_ERROR", "CONTAINER_UNAVAILABLE"):
                    raise
                lost_at = lost_at or io.now()
                if io.now() - lost_at > PATIENCE_SECONDS:
                    raise
                io.sleep(wire.delay(failures), until)
                failures += 1
            else:
                if self._taken(frame):
                    return frame.event

    def _taken(self, frame: Frame) -> bool:
        """Whether this event is news."""
        kind = frame.event.get("type")
        self._last_id = frame.id if frame.id is not None else self._last_id
        self._finished = kind in self._follow.last
        if kind != self._follow.opening:
            return True
        seen, self._opened = self._opened, True
        return not seen

    def _drop(self) -> None:
        link, self._link = self._link, None
        if link is not None:
            with contextlib.suppress(httpx.HTTPError, OSError):
                link.close()

    def close(self) -> None:
        leave = self._follow.leave if self._begun and not self._finished else None
        self._finished = True
        self._drop()
        if leave is not None and self._life == self._box.lives:
            # The sandbox may be gone: it is not made anew to be told this.
            with contextlib.suppress(SandboxError):
                self._box.still_there(self._life, self._follow.operation)
                self._box.json(leave)


AnyLink = Union[Link, ResumedLink]


def _events(link: AnyLink, parsed: Callable[[Any], T]) -> Generator[T, None, None]:
    try:
        while True:
            event = link.next()
            if event is None:
                return
            yield parsed(event)
    finally:
        link.close()


class EventStream(Generic[T]):
    """Events of a command, a process, code or a watch.

        for event in sandbox.exec_stream("make"):
            ...

    The stream is opened by the first event that is asked for, or by `with`. Leaving early closes it.
    """

    def __init__(self, link: AnyLink, parsed: Callable[[Any], T]) -> None:
        # Not a method, which would hold the stream: a stream without an owner is closed at once, and so its command ends.
        self._iterator = _events(link, parsed)
        self._link = link

    def __iter__(self) -> EventStream[T]:
        return self

    def __next__(self) -> T:
        return self._iterator.__next__()

    def close(self) -> None:
        """Closes the stream; a command or code that still runs ends."""
        self._iterator.close()
        self._link.close()

    def __enter__(self) -> EventStream[T]:
        self._link.open()
        return self

    def __exit__(self, *_: object) -> None:
        self.close()
