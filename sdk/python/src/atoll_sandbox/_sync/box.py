# Made by tools/unasync.py from ../_async/box.py: change that file.
"""One sandbox of one Atoll: its routes, and what must be told to it before anything else."""

from __future__ import annotations

from dataclasses import replace
from typing import Any, Mapping, Sequence

import httpx

from .. import _wire as wire
from .._io import blocking as io
from ..errors import OperationInterruptedError, SandboxError
from .transport import Transport
from .websocket import WebSocket


class Box:
    def __init__(self, transport: Transport, sandbox_id: str, spec: Mapping[str, Any], create: bool) -> None:
        self.id = sandbox_id
        self.base = f"/v1/sandboxes/{wire.segment(sandbox_id)}"
        self.transport = transport
        #: Variables of the sandbox. Sessions hold them themselves; what runs outside of any is given them.
        self.env: dict[str, str | None] = {}
        #: How often `destroy` was called: what was begun before belongs to a sandbox that is gone.
        self.lives = 0
        self._spec = dict(spec)
        self._create = create
        #: Whether the sandbox is known to be there, with its options.
        self.ready = False

    def _prepare(self) -> None:
        """Before the first call: what the sandbox is made with, or that there is one."""
        if self.ready:
            return
        if not self._create:
            self.json(wire.request("GET", ""), now=True)
        if self._spec:
            self.json(wire.request("PUT", "", self._spec, repeatable=True, nulls=True), now=True)
        self.ready = True

    def create_from(self, source: Mapping[str, Any], seconds: float) -> None:
        """Makes the sandbox with its options, and with the files of another one."""
        self.json(wire.request("PUT", "", {**self._spec, **source}, read_seconds=seconds, nulls=True), now=True)
        self.ready = True

    def send(self, request: wire.Request, content: io.Pieces | None = None, now: bool = False) -> httpx.Response:
        """The answer to a request below `/v1/sandboxes/{id}`, or to a path that begins with `/v1/`, with its body still
        to be read. `now` prepares nothing."""
        if not now:
            self._prepare()
        path = request.path if request.path.startswith("/v1/") else self.base + request.path
        return self.transport.exchange(replace(request, path=path), content)

    def data(self, request: wire.Request, content: io.Pieces | None = None, now: bool = False) -> bytes:
        """The body of the answer."""
        return self.transport.read(self.send(request, content, now), request.read_seconds)

    def json(self, request: wire.Request, content: io.Pieces | None = None, now: bool = False) -> dict[str, Any]:
        """The JSON object that is the answer."""
        response = self.send(request, content, now)
        body = self.transport.read(response, request.read_seconds)
        return {} if response.status_code == 204 else wire.json_of(body)

    def passed(self, request: wire.Request, content: io.Pieces | None = None) -> httpx.Response:
        """The answer of a server in the sandbox, of any status, with its body still to be read."""
        self._prepare()
        try:
            return self.transport.send(replace(request, path=self.base + request.path), content)
        except httpx.TransportError as error:
            raise wire.failure(error, self.transport.place, request.read_seconds) from error

    def websocket(
        self, path: str, headers: Mapping[str, str] | None = None, subprotocols: Sequence[str] = ()
    ) -> WebSocket:
        self._prepare()
        return self.transport.websocket(self.base + path, headers, subprotocols)

    def info(self) -> dict[str, Any] | None:
        """The sandbox as the daemon shows it; None when there is none. Makes nothing."""
        try:
            return self.json(wire.request("GET", ""), now=True)
        except SandboxError as error:
            if error.code != "SANDBOX_NOT_FOUND":
                raise
            return None

    def still_there(self, life: int, operation: str) -> None:
        """Before something is taken up again: any call makes a sandbox that is not there, and that would be another one."""
        info = self.info() if life == self.lives else None
        if info and info.get("state") != "stopped":
            return
        raise OperationInterruptedError(
            f"{operation}: the sandbox {'has stopped' if info else 'was destroyed'} meanwhile",
            http_status=409,
            suggestion="Start the operation again if it is still wanted: the sandbox is made or started by the next call.",
            context={
                "reason": "runtime_replaced" if info else "sandbox_lifetime_changed",
                "operation": operation, "phase": "resume", "admitted": True, "retryable": False,
            },
        )
