# Made by tools/unasync.py from ../_async/secrets.py: change that file.
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


class Secrets:
    """The secrets of an Atoll; `secrets=["openai"]` of `Sandbox` gives one to a sandbox.

        with Secrets() as secrets:
            secrets.put("openai", key, hosts=["api.openai.com"], env="OPENAI_API_KEY")

    `url` and `token` say which Atoll, as for `Sandbox`.
    """

    def __init__(self, *, url: str | None = None, token: str | None = None) -> None:
        self._transport = Transport(locate(url, token), wire.READY_SECONDS)

    def __repr__(self) -> str:
        return f"<{type(self).__name__} at {self._transport.place.where}>"

    def __enter__(self) -> Secrets:
        return self

    def __exit__(self, *error: object) -> None:
        self.close()

    def close(self) -> None:
        """Closes all connections."""
        self._transport.close()

    def _json(self, method: str, name: str | None = None, body: Mapping[str, Any] | None = None) -> dict[str, Any]:
        path = "/v1/secrets" if name is None else f"/v1/secrets/{wire.segment(name)}"
        request = wire.request(method, path, body, repeatable=method != "DELETE")
        response = self._transport.exchange(request)
        return wire.json_of(self._transport.read(response, request.read_seconds))

    def put(
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
        return _secret(self._json("PUT", name, {**given, "aws": None if aws is None else dict(aws)}))

    def list(self) -> list[Secret]:
        """All secrets without their values, sorted by name."""
        return [_secret(one) for one in (self._json("GET"))["secrets"]]

    def get(self, name: str) -> Secret | None:
        """One secret without its value; None when there is none."""
        try:
            return _secret(self._json("GET", name))
        except SandboxError as error:
            if error.code != "NOT_FOUND":
                raise
            return None

    def delete(self, name: str) -> None:
        """Deletes a secret and takes it from all sandboxes at once."""
        self._json("DELETE", name)
