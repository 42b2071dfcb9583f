"""Servers in the sandbox: preview URLs, requests, WebSockets."""

from __future__ import annotations

import re
from typing import Any, Mapping, Sequence

import httpx

from .. import _checks as checks
from .. import _wire as wire
from .._io import aio as io
from ..errors import CustomDomainRequiredError, SandboxError, SandboxSecurityError, error_of_answer
from ..models import made
from ..models_network import ExposedPort, Tunnel
from .commands import Scope
from .websocket import AsyncWebSocket

_LOCAL = re.compile(r"(localhost|127\.0\.0\.1|0\.0\.0\.0|\[::1\])(:\d+)?")


def _missing(error: SandboxError) -> bool:
    """Not exposed, or not even a sandbox: nothing to take back."""
    return error.code in ("PORT_NOT_EXPOSED", "TUNNEL_NOT_FOUND", "SANDBOX_NOT_FOUND")


class AsyncPorts(Scope):
    def _exposed(self, answer: Mapping[str, Any], hostname: str | None) -> ExposedPort:
        if hostname is None:
            return made(ExposedPort, answer)
        scheme = "http" if _LOCAL.fullmatch(hostname) else "https"
        url = f"{scheme}://{answer['port']}-{self._box.id}-{answer['token']}.{hostname}/"
        return made(ExposedPort, answer, url=url)

    async def expose_port(
        self, port: int, *, name: str | None = None, token: str | None = None, hostname: str | None = None
    ) -> ExposedPort:
        """Makes a port reachable under a URL of its own: below `hostname`, or below the daemon's preview domain without one.

        Nothing needs to listen yet. `token` is the URL's secret, made up when not given; `str()` of the result is the URL.
        """
        if hostname is not None and hostname.endswith(".workers.dev"):
            message = "Preview URLs need a domain with wildcard subdomains, which .workers.dev has not"
            raise CustomDomainRequiredError(message, http_status=400, context={"originalError": hostname})
        if self._box.id != self._box.id.lower():
            message = "Host names have no capitals, so preview URLs need a sandbox id without: use normalize_id=True"
            raise SandboxSecurityError(message, code="INVALID_SANDBOX_ID_CHARACTERS", http_status=400)
        body = {"name": name, "token": checks.preview_token(token)}
        path = f"/ports/{checks.port_number(port)}"
        return self._exposed(await self._box.json(wire.request("POST", path, body, repeatable=True)), hostname)

    async def unexpose_port(self, port: int) -> None:
        """Ends a preview URL. A port that is not exposed is no error."""
        try:
            await self._box.json(wire.request("DELETE", f"/ports/{checks.port_number(port)}", repeatable=True))
        except SandboxError as error:
            if not _missing(error):
                raise

    async def get_exposed_ports(self, hostname: str | None = None) -> list[ExposedPort]:
        """The exposed ports, by number."""
        try:
            answer = await self._box.json(wire.request("GET", "/ports"))
        except SandboxError as error:
            if not _missing(error):
                raise
            return []
        return [self._exposed(one, hostname) for one in answer["ports"]]

    async def is_port_exposed(self, port: int) -> bool:
        return any(exposed.port == port for exposed in await self.get_exposed_ports())

    async def validate_port_token(self, port: int, token: str) -> bool:
        """Whether a token opens a port."""
        path = f"/ports/{checks.port_number(port)}/validate"
        return bool((await self._box.json(wire.request("POST", path, {"token": token}, repeatable=True)))["valid"])

    async def open_tunnel(self, port: int, *, name: str | None = None) -> Tunnel:
        """Gives a port a host name of its own, without a token: `name`, or a random one. It ends with the sandbox, or by
        `close_tunnel`. The same call again gives the same tunnel."""
        body = {"port": checks.port_number(port), "name": name}
        return made(Tunnel, await self._box.json(wire.request("POST", "/tunnels", body, repeatable=True)))

    async def get_tunnel(self, port: int) -> Tunnel | None:
        """The tunnel of a port; None when there is none."""
        return next((tunnel for tunnel in await self.tunnels() if tunnel.port == port), None)

    async def tunnels(self) -> list[Tunnel]:
        """All tunnels of the sandbox."""
        try:
            answer = await self._box.json(wire.request("GET", "/tunnels"))
        except SandboxError as error:
            if not _missing(error):
                raise
            return []
        return [made(Tunnel, one) for one in answer["tunnels"]]

    async def close_tunnel(self, tunnel: int | Tunnel) -> None:
        """Ends a tunnel, by its port or itself. One that is closed is no error."""
        port = checks.port_number(tunnel.port if isinstance(tunnel, Tunnel) else tunnel)
        try:
            await self._box.json(wire.request("DELETE", f"/tunnels/{port}", repeatable=True))
        except SandboxError as error:
            if not _missing(error):
                raise

    async def fetch(
        self,
        port: int,
        path: str = "/",
        *,
        method: str = "GET",
        headers: Mapping[str, str] | None = None,
        content: str | bytes | io.Pieces | None = None,
        timeout: float | None = wire.ANSWER_SECONDS,
    ) -> httpx.Response:
        """A request to a server in the sandbox; returns httpx's response, read, whatever its status.

        Raises ServiceNotRespondingError when nothing listens on the port. `timeout` bounds the wait for each part of the answer.
        """
        checks.milliseconds(timeout)
        target = _target(port, path)
        whole = content.encode() if isinstance(content, str) else content if isinstance(content, bytes) else None
        streamed = None if isinstance(content, (str, bytes)) else content
        request = wire.Request(method.upper(), target, whole, self._for_server(headers), False, timeout)
        response = await self._box.passed(request, streamed)
        await self._box.transport.read(response, timeout)
        if "x-atoll-error" in response.headers:
            raise error_of_answer(response.status_code, response.reason_phrase, response.content)
        return response

    def _for_server(self, headers: Mapping[str, str] | None) -> dict[str, str]:
        """The daemon's token beside the caller's own headers: Authorization is then the server's."""
        found = {name.lower(): value for name, value in (headers or {}).items()}
        token = self._box.transport.place.token
        if token and "authorization" in found:
            found["x-atoll-token"] = token
        return {**found, **wire.FOR_THE_APP}

    async def ws_connect(
        self, port: int, path: str = "/", *, headers: Mapping[str, str] | None = None, subprotocols: Sequence[str] = ()
    ) -> AsyncWebSocket:
        """A WebSocket to a server in the sandbox."""
        return await self._box.websocket(_target(port, path), self._for_server(headers), subprotocols)


def _target(port: int, path: str) -> str:
    if not isinstance(path, str) or not path.startswith("/"):
        raise checks.invalid("path", "the path of a request begins with '/'")
    return wire.proxied(checks.port_number(port, 1), path)
