# Made by tools/unasync.py from ../_async/storage.py: change that file.
"""The files of the sandbox at moments: snapshots, forks, differences."""

from __future__ import annotations

from typing import Any, Sequence, Union

from .. import _checks as checks
from .. import _wire as wire
from ..models import Snapshot, SnapshotDiff, made
from .commands import Scope

#: A snapshot, or its id; where it belongs to the same sandbox, also its name.
SnapshotLike = Union[str, Snapshot]


def _id(snapshot: SnapshotLike) -> str:
    found = snapshot.id if isinstance(snapshot, Snapshot) else snapshot
    if not isinstance(found, str) or not found:
        raise TypeError("a snapshot is a Snapshot, or the str of its id or name")
    return found


def _source(sandbox: str | None, snapshot: SnapshotLike | None) -> dict[str, Any]:
    if (sandbox is None) == (snapshot is None):
        raise TypeError("files come from either a sandbox or a snapshot")
    return {"from": {"snapshot": _id(snapshot)} if snapshot is not None else {"sandbox": checks.sandbox_id(sandbox or "")}}


class Storage(Scope):
    def snapshot(self, name: str | None = None) -> Snapshot:
        """Keeps the files and settings of this moment. The sandbox runs on."""
        return made(Snapshot, self._box.json(wire.request("POST", "/snapshots", {"name": name})))

    def snapshots(self) -> list[Snapshot]:
        """The snapshots of this sandbox, oldest first."""
        answer = self._box.json(wire.request("GET", "/snapshots"))
        return [made(Snapshot, one) for one in answer["snapshots"]]

    def delete_snapshot(self, snapshot: SnapshotLike) -> None:
        """Deletes a snapshot. Sandboxes that were made from it keep their files."""
        self._box.json(wire.request("DELETE", f"/snapshots/{wire.segment(_id(snapshot))}"))

    def restore(self, snapshot: SnapshotLike) -> None:
        """Puts the files of a snapshot back. The processes end; the next call starts the sandbox again."""
        self._box.json(wire.request("POST", "/restore", {"snapshot": _id(snapshot)}))

    def diff(self, since: SnapshotLike) -> SnapshotDiff:
        """Which paths were added, changed and deleted since a snapshot of this sandbox."""
        return made(SnapshotDiff, self._box.json(wire.request("GET", "/diff", query={"from": _id(since)})))

    def fork(self, wanted: int | Sequence[str] = 1) -> list[str]:
        """Makes sandboxes with the files and settings of this one, all or none, and returns their ids.

        A number names them `{id}-1`, `{id}-2` …, and leaves out names that exist; a list says their names. The first call of each
        starts it.
        """
        if isinstance(wanted, str):
            raise TypeError("fork takes a number or a list of ids")
        body: dict[str, Any] = {"count": wanted} if isinstance(wanted, int) else {"ids": list(wanted)}
        answer = self._box.json(wire.request("POST", "/fork", body))
        return [one["id"] for one in answer["sandboxes"]]

    def replace(self, *, sandbox: str | None = None, snapshot: SnapshotLike | None = None) -> None:
        """Makes the files of another sandbox, or of a snapshot, the files of this one. The processes of this one end; the other
        sandbox runs on."""
        self._box.json(wire.request("POST", "/replace", _source(sandbox, snapshot)))

    def create_from(self, *, sandbox: str | None = None, snapshot: SnapshotLike | None = None) -> None:
        """Makes this sandbox, which must not exist, with the files and settings of another one or of a snapshot."""
        self._box.create_from(_source(sandbox, snapshot))
