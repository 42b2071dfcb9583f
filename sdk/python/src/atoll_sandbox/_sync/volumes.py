# Made by tools/unasync.py from ../_async/volumes.py: change that file.
"""Volumes, which outlive sandboxes and which several share; buckets."""

from __future__ import annotations

from typing import Any

from .. import _wire as wire
from .commands import Scope


class Volumes(Scope):
    def create_volume(self, name: str, *, size: int | None = None) -> dict[str, Any]:
        """Makes a volume of the daemon, or changes its size in bytes. `volumes=[…]` of a sandbox gives it to that."""
        body = {} if size is None else {"size": size}
        return self._box.json(wire.request("POST", f"/v1/volumes/{wire.segment(name)}", body, repeatable=True))

    def volumes(self) -> list[dict[str, Any]]:
        """All volumes of the daemon: `name`, `size`, `users`, …"""
        return list((self._box.json(wire.request("GET", "/v1/volumes")))["volumes"])

    def delete_volume(self, name: str) -> None:
        """Deletes a volume that no sandbox names."""
        self._box.json(wire.request("DELETE", f"/v1/volumes/{wire.segment(name)}"))

    def mount_bucket(
        self, bucket: str, path: str, *, endpoint: str, secret: str, prefix: str | None = None, read_only: bool = False
    ) -> None:
        """Mounts a bucket with keys that the sandbox never sees: `secret` names a secret of the daemon with `aws`."""
        body = {"bucket": bucket, "path": path, "endpoint": endpoint, "secret": secret, "prefix": prefix, "readOnly": read_only}
        self._box.json(wire.request("POST", "/mounts", body))

    def unmount_bucket(self, path: str) -> None:
        self._box.json(wire.request("DELETE", "/mounts", query={"path": path}))

    def mounts(self) -> list[dict[str, Any]]:
        """The buckets that every start of the sandbox mounts."""
        return list((self._box.json(wire.request("GET", "/mounts")))["mounts"])
