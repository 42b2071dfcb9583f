# Made by tools/unasync.py from ../_async/backups.py: change that file.
"""Copies of one directory, kept by the caller: upstream's `createBackup` and `restoreBackup`, with a directory as the bucket."""

from __future__ import annotations

import json
import os
import re
import shlex
import shutil
import uuid
from datetime import datetime, timedelta, timezone
from pathlib import Path
from typing import Any, Literal, Sequence, Union

from .. import _checks as checks
from .. import _wire as wire
from ..errors import BackupExpiredError, BackupNotFoundError, BackupRestoreError, InvalidBackupConfigError
from ..models import time_of
from ..models_storage import DirectoryBackup
from .files import Files

#: A backup, or its id.
DirectoryBackupLike = Union[str, DirectoryBackup]

#: Seconds that a backup is kept unless told otherwise: three days, as upstream's.
TTL_SECONDS = 259200.0
#: Seconds for packing or unpacking unless told otherwise.
PACK_SECONDS = 600.0

_ID = re.compile(r"[A-Za-z0-9][A-Za-z0-9-]{0,62}")

# The archive is unpacked beside the directory first: a bad one changes nothing.
_UNPACK = """set -e
target={target} archive={archive}
mkdir -p -- "$target"
fresh=$(mktemp -d -- "${{target%/*}}/.restore.XXXXXX")
trap 'rm -rf -- "$fresh" "$archive"' EXIT
unsquashfs -quiet -no-progress -force -dest "$fresh" "$archive"
find "$target" -mindepth 1 -maxdepth 1 -exec rm -rf -- {{}} +
find "$fresh" -mindepth 1 -maxdepth 1 -exec mv -t "$target" -- {{}} +
"""


def _directory(value: checks.StrPath) -> str:
    """The directory in the sandbox, without a slash at its end."""
    text = checks.path_text(value, "dir")
    parts = text.split("/")
    if text.startswith("/") and ".." not in parts and any(parts):
        return "/" + "/".join(part for part in parts if part not in ("", "."))
    reason = "dir is an absolute path without '..', and not the root: backup() copies a whole sandbox"
    raise InvalidBackupConfigError(f"'{text}' cannot be backed up: {reason}", http_status=400, context={"reason": reason})


def _place(store: checks.StrPath, backup: str) -> Path:
    if not isinstance(backup, str) or not _ID.fullmatch(backup):
        raise TypeError("a backup of a directory is a DirectoryBackup, or the str of its id")
    return Path(store) / "backups" / backup


def _archive(backup: str) -> str:
    return f"/var/backups/{backup}.sqsh"


def _read(place: Path) -> DirectoryBackup:
    """What the store holds; raises when it is missing or too old."""
    context = {"backupId": place.name}
    try:
        kept = json.loads((place / "meta.json").read_text(encoding="utf-8"))
        created, size = time_of(kept["createdAt"]), int(kept["sizeBytes"])
        expires = created + timedelta(seconds=kept["ttl"])
        found = DirectoryBackup(kept["id"], kept["dir"], size, created, kept.get("name"), expires)
        whole = (place / "data.sqsh").stat().st_size == size
    except (OSError, ValueError, KeyError, TypeError) as error:
        hint = "Check the id, and that store= is the one that it was made with."
        raise BackupNotFoundError(
            f"There is no backup {place.name} in {place.parent.parent}", http_status=404, context=context, suggestion=hint
        ) from error
    if not whole:
        raise BackupRestoreError(
            f"The archive of backup {place.name} is not whole", http_status=500, context={"dir": found.dir, **context},
            suggestion="Restore another backup.",
        )
    if expires < datetime.now(timezone.utc):
        raise BackupExpiredError(
            f"Backup {place.name} has expired", http_status=400, context={**context, "expiredAt": expires.isoformat()},
            suggestion="Restore a newer one, or give a longer ttl= when it is made.",
        )
    return found


class Backups(Files):
    def create_backup(
        self,
        dir: checks.StrPath,
        *,
        store: checks.StrPath,
        name: str | None = None,
        ttl: float = TTL_SECONDS,
        excludes: Sequence[str] = (),
        gitignore: bool = False,
        compression: Literal["gzip", "lz4", "zstd"] = "lz4",
        timeout: float = PACK_SECONDS,
    ) -> DirectoryBackup:
        """Packs a directory of the sandbox and fetches the archive into `store`, a directory of this machine.

        `excludes` are patterns from the directory on; `gitignore` leaves out what git ignores. The files are those of upstream's
        bucket: `backups/{id}/data.sqsh` and `meta.json`. `backup()` copies a whole sandbox to the daemon's own place instead.
        """
        packed, kept = _directory(dir), checks.milliseconds(ttl, "ttl") or 0
        checks.milliseconds(timeout)
        if compression not in ("gzip", "lz4", "zstd"):
            raise checks.invalid("compression", "use 'gzip', 'lz4' or 'zstd'")
        backup = str(uuid.uuid4())
        place = _place(store, backup)
        body = {
            "dir": packed, "archivePath": _archive(backup), "excludes": checks.names(excludes, "excludes") or None,
            "gitignore": bool(gitignore), "compression": {"format": compression}, "sessionId": wire.NO_SESSION,
        }
        limit = timeout + wire.GRACE_SECONDS
        answer = self._box.json(wire.request("POST", "/api/backup/create", body, read_seconds=limit))
        place.mkdir(parents=True)
        try:
            self._fetch(backup, place)
            created = datetime.now(timezone.utc)
            told = {"id": backup, "dir": packed, "name": name, "sizeBytes": int(answer["sizeBytes"]), "ttl": kept / 1000,
                    "createdAt": created.isoformat()}
            (place / "meta.json").write_text(json.dumps(told), encoding="utf-8")
        except BaseException:
            shutil.rmtree(place, ignore_errors=True)
            raise
        return _read(place)

    def _fetch(self, backup: str, place: Path) -> None:
        """The archive leaves the sandbox, whatever happens."""
        try:
            with open(place / "data.sqsh", "wb") as file:
                with self.read_file_stream(_archive(backup), session=wire.NO_SESSION) as pieces:
                    for piece in pieces:
                        file.write(piece)
                file.flush()
                os.fsync(file.fileno())
        finally:
            self.delete_file(_archive(backup), session=wire.NO_SESSION)

    def restore_backup(
        self,
        backup: DirectoryBackupLike,
        *,
        store: checks.StrPath,
        dir: checks.StrPath | None = None,
        timeout: float = PACK_SECONDS,
    ) -> DirectoryBackup:
        """Makes a directory what it was: its own, or `dir`. What it holds now is gone. The sandbox may be another one."""
        checks.milliseconds(timeout)
        found = _read(_place(store, backup.id if isinstance(backup, DirectoryBackup) else backup))
        target = found.dir if dir is None else _directory(dir)
        archive = _archive(found.id)
        with open(_place(store, found.id) / "data.sqsh", "rb") as file:
            self.write_file(archive, file, session=wire.NO_SESSION)
        script = _UNPACK.format(target=shlex.quote(target), archive=shlex.quote(archive))
        body: dict[str, Any] = {"command": script, "sessionId": wire.NO_SESSION, "origin": "internal",
                                "timeoutMs": checks.milliseconds(timeout)}
        limit = timeout + wire.GRACE_SECONDS
        answer = self._box.json(wire.request("POST", "/api/execute", body, read_seconds=limit))
        if answer.get("exitCode") != 0:
            words = str(answer.get("stderr") or "").strip()
            context = {"dir": target, "backupId": found.id, "stderr": words, "exitCode": answer.get("exitCode")}
            message = f"Backup {found.id} could not be restored to {target}: {words}"
            raise BackupRestoreError(message, http_status=500, context=context)
        return found
