"""Files at moments, and where they come from: snapshots, backups, volumes, buckets."""

from __future__ import annotations

from dataclasses import dataclass, field
from datetime import datetime
from typing import Dict, List, Literal

from .models import Record


@dataclass(frozen=True)
class Snapshot:
    """The files and settings of a sandbox at one moment."""

    id: str
    sandbox: str
    #: Bytes that the sandbox was charged for then.
    size: int
    image: str
    created_at: datetime
    name: str | None = None


@dataclass(frozen=True)
class SnapshotDiff:
    """Paths that differ from a snapshot."""

    added: List[str]
    changed: List[str]
    deleted: List[str]
    #: There are more than could be listed.
    truncated: bool = False


@dataclass(frozen=True)
class BoxBackup:
    """A copy of a whole sandbox that outlives it."""

    id: str
    sandbox: str
    state: Literal["making", "ready", "failed"]
    image: str
    #: Bytes that it takes where backups are kept.
    size: int
    #: Bytes of changed files; while it is made, those read so far.
    bytes: int
    #: Made by the schedule of the sandbox.
    scheduled: bool
    created_at: datetime
    name: str | None = None
    #: The backup that it builds on; None: it is whole.
    parent: str | None = None
    expires_at: datetime | None = None
    #: Why it failed.
    error: str | None = None


@dataclass(frozen=True)
class BackupUsage:
    """What backups take where they are kept. Hidden ones were deleted while others build on them."""

    bytes: int
    hidden: int
    hidden_bytes: int
    #: What the backups of one sandbox may take; None: any number.
    allowed: int | None = None


@dataclass(frozen=True)
class DirectoryBackup(Record):
    """A copy of one directory, where the daemon keeps backups: see `create_backup`. `get_backup(id)` says more about it."""

    id: str
    dir: str

    def to_dict(self) -> Dict[str, str]:
        """The backup as JSON may hold it; both SDKs restore that."""
        return {"id": self.id, "dir": self.dir}


@dataclass(frozen=True)
class Volume(Record):
    """A directory with a size of its own that outlives sandboxes and that several share."""

    name: str
    #: Bytes that it may hold.
    size: int
    #: Number of sandboxes that name it.
    users: int
    created_at: datetime
    #: Bytes that it holds; not in lists.
    used: int | None = None
    #: The ids of at most 100 sandboxes that name it; not in lists.
    used_by: List[str] = field(default_factory=list)


@dataclass(frozen=True)
class Mount(Record):
    """A bucket that every start of the sandbox mounts."""

    bucket: str
    path: str
    endpoint: str
    secret: str
    prefix: str | None = None
    read_only: bool = False
