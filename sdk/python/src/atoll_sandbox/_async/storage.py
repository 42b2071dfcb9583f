"""The files of the sandbox at moments: snapshots, forks, differences, backups of all of it."""

from __future__ import annotations

from typing import Any, Sequence, Union

from .. import _checks as checks
from .. import _wire as wire
from .._io import aio as io
from ..errors import BackupCreateError
from ..models import made
from ..models_storage import BackupUsage, BoxBackup, Snapshot, SnapshotDiff
from .commands import Scope

#: A snapshot, or its id; where it belongs to the same sandbox, also its name.
SnapshotLike = Union[str, Snapshot]

#: A backup of a whole sandbox, or its id.
BackupLike = Union[str, BoxBackup]

#: Seconds that files may take to be put into place unless told otherwise.
FILES_SECONDS = 600.0


def _id(snapshot: SnapshotLike) -> str:
    found = snapshot.id if isinstance(snapshot, Snapshot) else snapshot
    if not isinstance(found, str) or not found:
        raise TypeError("a snapshot is a Snapshot, or the str of its id or name")
    return found


def _backup_id(backup: BackupLike) -> str:
    found = backup.id if isinstance(backup, BoxBackup) else backup
    if not isinstance(found, str) or not found:
        raise TypeError("a backup of a sandbox is a BoxBackup, or the str of its id")
    return found


def _source(sandbox: str | None, snapshot: SnapshotLike | None, backup: BackupLike | None) -> dict[str, Any]:
    if sum(one is not None for one in (sandbox, snapshot, backup)) != 1:
        raise TypeError("files come from either a sandbox, a snapshot or a backup")
    if snapshot is not None:
        return {"from": {"snapshot": _id(snapshot)}}
    return {"from": {"backup": _backup_id(backup)} if backup is not None else {"sandbox": checks.sandbox_id(sandbox)}}


def _filling(method: str, path: str, body: dict[str, Any], timeout: float) -> wire.Request:
    """A request that is answered when files are in their place."""
    checks.milliseconds(timeout)
    return wire.request(method, path, body, read_seconds=timeout + wire.GRACE_SECONDS)


class AsyncStorage(Scope):
    async def snapshot(self, name: str | None = None) -> Snapshot:
        """Keeps the files and settings of this moment. The sandbox runs on."""
        return made(Snapshot, await self._box.json(_filling("POST", "/snapshots", {"name": name}, FILES_SECONDS)))

    async def snapshots(self) -> list[Snapshot]:
        """The snapshots of this sandbox, oldest first."""
        answer = await self._box.json(wire.request("GET", "/snapshots"))
        return [made(Snapshot, one) for one in answer["snapshots"]]

    async def delete_snapshot(self, snapshot: SnapshotLike) -> None:
        """Deletes a snapshot. Sandboxes that were made from it keep their files."""
        await self._box.json(wire.request("DELETE", f"/snapshots/{wire.segment(_id(snapshot))}"))

    async def restore(self, snapshot: SnapshotLike) -> None:
        """Puts the files of a snapshot back. The processes end; the next call starts the sandbox again."""
        await self._box.json(_filling("POST", "/restore", {"snapshot": _id(snapshot)}, FILES_SECONDS))

    async def diff(self, since: SnapshotLike) -> SnapshotDiff:
        """Which paths were added, changed and deleted since a snapshot of this sandbox."""
        return made(SnapshotDiff, await self._box.json(wire.request("GET", "/diff", query={"from": _id(since)})))

    async def fork(self, wanted: int | Sequence[str] = 1) -> list[str]:
        """Makes sandboxes with the files and settings of this one, all or none, and returns their ids.

        A number names them `{id}-1`, `{id}-2` …, and leaves out names that exist; a list says their names. The first call of each
        starts it.
        """
        if isinstance(wanted, (str, bool)):
            raise TypeError("fork takes a number or a list of ids")
        body: dict[str, Any] = {"count": wanted} if isinstance(wanted, int) else {"ids": checks.names(wanted, "wanted")}
        answer = await self._box.json(_filling("POST", "/fork", body, FILES_SECONDS))
        return [one["id"] for one in answer["sandboxes"]]

    async def replace(
        self,
        *,
        sandbox: str | None = None,
        snapshot: SnapshotLike | None = None,
        backup: BackupLike | None = None,
        timeout: float = FILES_SECONDS,
    ) -> None:
        """Makes the files of another sandbox, of a snapshot or of a backup the files of this one. The processes of this one end;
        the other sandbox runs on."""
        await self._box.json(_filling("POST", "/replace", _source(sandbox, snapshot, backup), timeout))

    async def create_from(
        self,
        *,
        sandbox: str | None = None,
        snapshot: SnapshotLike | None = None,
        backup: BackupLike | None = None,
        timeout: float = FILES_SECONDS,
    ) -> None:
        """Makes this sandbox, which must not exist, with the files and settings of another one, of a snapshot or of a backup."""
        checks.milliseconds(timeout)
        await self._box.create_from(_source(sandbox, snapshot, backup), timeout + wire.GRACE_SECONDS)

    # ---- Backups of the whole sandbox

    async def backup(
        self, name: str | None = None, *, ttl: float | None = None, wait: bool = True, timeout: float | None = None
    ) -> BoxBackup:
        """Copies the whole sandbox to where it outlives it, while it runs. Only what changed since the last backup is copied.

        It is deleted after `ttl` seconds. With `wait=False` the answer comes at once: `get_backup` shows the progress. After
        `timeout` seconds TimeoutError is raised; the backup goes on.
        """
        limit, kept = checks.milliseconds(timeout), checks.milliseconds(ttl, "ttl")
        until = io.deadline(timeout if limit else None)
        body = {"name": name, "ttl": kept and max(1, round(kept / 1000)), "wait": False}
        made_so_far = made(BoxBackup, await self._box.json(_filling("POST", "/backups", body, FILES_SECONDS)))
        looks = 0
        while wait and made_so_far.state == "making":
            try:
                await io.sleep(wire.delay(looks), until)
            except io.DeadlinePassed:
                hint = "It goes on: get_backup() shows its progress, delete_backup() cancels it."
                raise TimeoutError(f"backup {made_so_far.id} was not made within {timeout or 0:g} s. {hint}") from None
            made_so_far, looks = await self.get_backup(made_so_far), looks + 1
        if wait and made_so_far.state == "failed":
            context = {"dir": "/", "backupId": made_so_far.id}
            raise BackupCreateError(made_so_far.error or "The backup could not be made", http_status=500, context=context)
        return made_so_far

    async def backups(self) -> list[BoxBackup]:
        """The backups of this id, oldest first, also those of an earlier sandbox. Makes nothing."""
        answer = await self._box.json(wire.request("GET", "/backups"), now=True)
        return [made(BoxBackup, one) for one in answer["backups"]]

    async def backup_usage(self) -> BackupUsage:
        """What the backups of this id take, with hidden ones. Makes nothing."""
        return made(BackupUsage, (await self._box.json(wire.request("GET", "/backups"), now=True))["usage"])

    async def get_backup(self, backup: BackupLike) -> BoxBackup:
        """A backup as it is now. Raises BackupNotFoundError."""
        request = wire.request("GET", f"/v1/backups/{wire.segment(_backup_id(backup))}")
        return made(BoxBackup, await self._box.json(request, now=True))

    async def delete_backup(self, backup: BackupLike) -> None:
        """Deletes a backup, or cancels one that is being made."""
        await self._box.json(wire.request("DELETE", f"/v1/backups/{wire.segment(_backup_id(backup))}"), now=True)

    async def restore_from(self, backup: BackupLike, *, timeout: float = FILES_SECONDS) -> None:
        """Puts the files of a backup of any sandbox back. The processes end; the next call starts the sandbox again."""
        await self._box.json(_filling("POST", "/restore", {"backup": _backup_id(backup)}, timeout))
