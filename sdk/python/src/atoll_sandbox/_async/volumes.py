"""Volumes, which outlive sandboxes and which several share; buckets."""

from __future__ import annotations

from .. import _checks as checks
from .. import _wire as wire
from ..models import made
from ..models_storage import Mount, Volume
from .commands import Scope

#: Seconds that s3fs has to mount a bucket.
MOUNT_SECONDS = 120.0


def _volume(name: str) -> str:
    if not isinstance(name, str) or not name:
        raise TypeError("the name of a volume is a str that is not empty")
    return f"/v1/volumes/{wire.segment(name)}"


class AsyncBuckets(Scope):
    async def mount_bucket(
        self,
        bucket: str,
        path: checks.StrPath,
        *,
        endpoint: str,
        secret: str,
        prefix: str | None = None,
        read_only: bool = False,
    ) -> None:
        """Mounts a bucket with keys that the sandbox never sees: `secret` names a secret of the daemon with `aws`.

        Every start of the sandbox mounts it again. Raises BucketMountError with the words of s3fs.
        """
        if not isinstance(bucket, str) or not isinstance(endpoint, str) or not isinstance(secret, str):
            raise TypeError("bucket, endpoint and secret are str: secret is the name of a secret, see Secrets")
        body = {"bucket": bucket, "path": checks.path_text(path), "endpoint": endpoint, "secret": secret, "prefix": prefix,
                "readOnly": bool(read_only)}
        await self._box.json(wire.request("POST", "/mounts", body, read_seconds=MOUNT_SECONDS))

    async def unmount_bucket(self, path: checks.StrPath) -> None:
        """Takes a bucket away. One that a program uses stays, and the error says so."""
        query = {"path": checks.path_text(path)}
        await self._box.json(wire.request("DELETE", "/mounts", query=query, read_seconds=MOUNT_SECONDS))

    async def mounts(self) -> list[Mount]:
        """The buckets that every start of the sandbox mounts."""
        return [made(Mount, one) for one in (await self._box.json(wire.request("GET", "/mounts")))["mounts"]]


class AsyncVolumes(Scope):
    async def create_volume(self, name: str, *, size: int | None = None) -> Volume:
        """Makes a volume of the daemon, or changes its size in bytes. `volumes=[…]` of a sandbox gives it to that."""
        body = {} if size is None else {"size": size}
        return made(Volume, await self._box.json(wire.request("POST", _volume(name), body, repeatable=True), now=True))

    async def volumes(self) -> list[Volume]:
        """All volumes of the daemon."""
        answer = await self._box.json(wire.request("GET", "/v1/volumes"), now=True)
        return [made(Volume, one) for one in answer["volumes"]]

    async def get_volume(self, name: str) -> Volume:
        """A volume with what it holds and who uses it."""
        return made(Volume, await self._box.json(wire.request("GET", _volume(name)), now=True))

    async def delete_volume(self, name: str) -> None:
        """Deletes a volume that no sandbox names."""
        await self._box.json(wire.request("DELETE", _volume(name)), now=True)
