"""Secrets of an Atoll: values that the gate puts into requests of sandboxes, and that no sandbox sees."""

from __future__ import annotations

from typing import Any, Mapping, Sequence

from .. import _checks as checks
from .. import _wire as wire
from .._place import locate
from ..errors import SandboxError
from ..models import made
from ..models_network import Secret
from .transport import Transport


def _secret(answer: Mapping[str, Any]) -> Secret:
    return made(Secret, answer, places=answer.get("in"))


class AsyncSecrets:
    """The secrets of an Atoll; `secrets=["openai"]` of `AsyncSandbox` gives one to a sandbox.

        async with AsyncSecrets() as secrets:
            await secrets.put("openai", key, hosts=["api.openai.com"], env="OPENAI_API_KEY")

    `url` and `token` say which Atoll, as for `AsyncSandbox`.
    """

    def __init__(self, *, url: str | None = None, token: str | None = None) -> None:
        self._transport = Transport(locate(url, token), wire.READY_SECONDS)

    def __repr__(self) -> str:
        return f"<{type(self).__name__} at {self._transport.place.where}>"

    async def __aenter__(self) -> AsyncSecrets:
        return self

    async def __aexit__(self, *error: object) -> None:
        await self.aclose()

    async def aclose(self) -> None:
        """Closes all connections."""
        await self._transport.aclose()

    async def _json(self, method: str, name: str | None = None, body: Mapping[str, Any] | None = None) -> dict[str, Any]:
        path = "/v1/secrets" if name is None else f"/v1/secrets/{wire.segment(name)}"
        request = wire.request(method, path, body, repeatable=method != "DELETE")
        response = await self._transport.exchange(request)
        return wire.json_of(await self._transport.read(response, request.read_seconds))

    async def put(
        self,
        name: str,
        value: str,
        *,
        hosts: Sequence[str],
        places: Sequence[str] | None = None,
        env: str | None = None,
        header: str | None = None,
        aws: Mapping[str, str] | None = None,
    ) -> Secret:
        """Makes or replaces a secret. Its value goes only to `hosts`, over TLS that the gate has verified, in the place of the
        placeholder that sandboxes have in the variable `env`. The placeholder may stand in `places` only: `"header:X-Key"`,
        `"query:key"`, `"path"`; without them in the headers that keys usually stand in, such as Authorization.
        `header` (`"Authorization: Bearer {}"`) needs no placeholder; `aws` (`accessKeyId`, `region`, `service`,
        `sessionToken`) signs requests, the value is the secret key."""
        given = {"value": value, "hosts": checks.names(hosts, "hosts"), "env": env, "header": header}
        given["in"] = None if places is None else checks.names(places, "places")
        return _secret(await self._json("PUT", name, {**given, "aws": None if aws is None else dict(aws)}))

    async def list(self) -> list[Secret]:
        """All secrets without their values, sorted by name."""
        return [_secret(one) for one in (await self._json("GET"))["secrets"]]

    async def get(self, name: str) -> Secret | None:
        """One secret without its value; None when there is none."""
        try:
            return _secret(await self._json("GET", name))
        except SandboxError as error:
            if error.code != "NOT_FOUND":
                raise
            return None

    async def delete(self, name: str) -> None:
        """Deletes a secret and takes it from all sandboxes at once."""
        await self._json("DELETE", name)
