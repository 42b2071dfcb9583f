"""The way to one Atoll: connections, second tries, errors in the words of the API."""

from __future__ import annotations

import contextlib
from typing import Any, Mapping, Sequence

import httpcore
import httpx

from .. import _wire as wire
from .._io import aio as io
from .._place import Place
from .._version import OLDEST_DAEMON, __version__, fits
from ..errors import RPCTransportError, SandboxError, error_of_answer
from .websocket import AsyncWebSocket


class Transport:
    """Sends requests. A request that has not left, or that may be repeated, is tried again for `retry_seconds`; a sandbox that
    is not ready is waited for, for `ready_seconds`. Where nothing has ever answered, a refused connection is final, unless the
    caller has chosen the time."""

    def __init__(self, place: Place, ready_seconds: float, retry_seconds: float | None = None) -> None:
        self.place = place
        self._ready_seconds = ready_seconds
        self._retry_seconds = wire.RETRY_SECONDS if retry_seconds is None else retry_seconds
        self._insist = retry_seconds is not None
        self._client: httpx.AsyncClient | None = None
        self._loop: object = None
        self._closed = False
        self._greeted = False

    async def aclose(self) -> None:
        self._closed = True
        client, self._client = self._client, None
        if client is not None and self._loop is io.loop():
            await client.aclose()

    def _headers(self, given: Mapping[str, str]) -> dict[str, str]:
        """The headers of every request. With X-Atoll-Token, Authorization belongs to the server in the sandbox."""
        found = {"user-agent": f"atoll-sandbox-python/{__version__}"}
        if self.place.token and "x-atoll-token" not in given:
            found["authorization"] = f"Bearer {self.place.token}"
        return {**found, **given}

    async def exchange(self, request: wire.Request, content: io.Pieces | None = None) -> httpx.Response:
        """The answer, with its body still to be read. Answers other than 2xx raise."""
        await self._greet()
        return await self._exchange(request, content)

    async def _exchange(self, request: wire.Request, content: io.Pieces | None = None) -> httpx.Response:
        began, attempt = io.now(), 0
        while True:
            try:
                response = await self.send(request, content)
            except httpx.TransportError as error:
                late = io.now() - began >= self._retry_seconds
                if late or not self._again(error, request, content is not None):
                    raise wire.failure(error, self.place, request.read_seconds) from error
                await io.sleep(wire.delay(attempt))
            else:
                if response.is_success:
                    return response
                failed = await self._failure(response)
                # 503 means "not ready yet", and only that: nothing was done.
                late = io.now() - began >= self._ready_seconds
                if response.status_code != 503 or content is not None or late:
                    raise failed
                await io.sleep(wire.retry_after(response.headers, attempt))
            attempt += 1

    def _again(self, error: httpx.TransportError, request: wire.Request, streamed: bool) -> bool:
        if wire.not_sent(error):
            # A daemon that has answered before may be starting again.
            return not wire.no_server(error) or self._insist or self._greeted
        # Content that is a stream cannot be sent from its beginning a second time.
        return request.repeatable and not streamed and not isinstance(error, httpx.TimeoutException)

    async def send(self, request: wire.Request, content: io.Pieces | None = None) -> httpx.Response:
        """One try; whatever is answered comes back."""
        if self._closed:
            raise RuntimeError("this sandbox object is closed: make a new one")
        if self._client is None or self._loop is not io.loop():
            # Connections of an event loop that is over cannot be used, and not be closed either.
            self._client, self._loop = io.client(self.place), io.loop()
        first = request.queue_seconds if request.queued else request.read_seconds
        limits = httpx.Timeout(wire.ANSWER_SECONDS, connect=wire.CONNECT_SECONDS, read=first, pool=None)
        built = self._client.build_request(
            request.method,
            self.place.url + request.path,
            content=request.body if content is None else io.pieces(content),
            headers=self._headers(request.headers),
            timeout=limits,
            extensions={"trace": self._traced},
        )
        response = await self._client.send(built, stream=True)
        # httpx looks at this limit again when the body is read.
        built.extensions["timeout"]["read"] = request.read_seconds
        return response

    async def _traced(self, event: str, info: Mapping[str, Any]) -> None:
        """For httpx's `trace` extension: what every connection is given when it is made."""
        await io.trace(event, info)
        if event in io.CONNECTED:
            self._attend(info["return_value"])

    def _attend(self, stream: Any) -> None:
        """Makes reads without a time limit end when Atoll answers nothing any more. httpx knows time limits only, and a
        connection is of no more use after one."""
        plain = stream.read

        async def read(max_bytes: int, timeout: float | None = None) -> Any:
            while timeout is None:
                with contextlib.suppress(httpcore.ReadTimeout):
                    return await plain(max_bytes, wire.ASK_SECONDS)
                if not await self.answers():
                    raise httpcore.ReadTimeout(wire.SILENT)
            return await plain(max_bytes, timeout)

        stream.read = read

    async def answers(self) -> bool:
        """Whether Atoll answers anything. A connection that fails is left to the request itself to notice."""
        if self._closed:
            return True
        try:
            response = await self.send(wire.request("GET", "/v1/health", read_seconds=wire.HEALTH_SECONDS))
            await response.aclose()
        except httpx.TransportError as error:
            return not isinstance(error, httpx.TimeoutException)
        return True

    async def read(self, response: httpx.Response, read_seconds: float | None = None) -> bytes:
        """The whole body of an answer."""
        try:
            return await response.aread()
        except httpx.TransportError as error:
            raise wire.failure(error, self.place, read_seconds) from error
        finally:
            await response.aclose()

    async def _failure(self, response: httpx.Response) -> SandboxError:
        body = b""
        with contextlib.suppress(SandboxError):
            body = await self.read(response, wire.ANSWER_SECONDS)
        return error_of_answer(response.status_code, response.reason_phrase, body)

    async def _greet(self) -> None:
        """Before the first request: whether an Atoll listens there that this package can talk to."""
        if self._greeted:
            return
        request = wire.request("GET", "/v1/health", read_seconds=wire.CONNECT_SECONDS)
        try:
            body = await self.read(await self._exchange(request), request.read_seconds)
        except RPCTransportError as error:
            raise wire.silent(error, self.place) from error
        version = wire.json_of(body).get("version")
        if not isinstance(version, str):
            message = f"The server at {self.place.where} is not Atoll"
            raise SandboxError(message, code="VERSION_MISMATCH", suggestion="Check url=… and ATOLL_URL.")
        if not fits(version):
            wanted = ".".join(map(str, OLDEST_DAEMON))
            raise SandboxError(
                f"Atoll at {self.place.where} has version {version}, which atoll-sandbox {__version__} cannot talk to",
                code="VERSION_MISMATCH", context={"daemon": version, "client": __version__},
                suggestion=f"Install the atoll-sandbox of that daemon, or a daemon from {wanted} on, of the same major version.",
            )
        self._greeted = True

    async def websocket(self, path: str, headers: Mapping[str, str] | None, subprotocols: Sequence[str]) -> AsyncWebSocket:
        """A WebSocket. Refusals raise what the answer says."""
        await self._greet()
        given = self._headers(headers or {})
        url = self.place.url + path
        return await AsyncWebSocket.opened(self.place, url, given, subprotocols, wire.READY_SECONDS, self.answers)
