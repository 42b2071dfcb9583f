# Made by tools/unasync.py from ../_async/backups.py: change that file.
"""Backups of one directory: `createBackup` and `restoreBackup` of the TypeScript SDK, which restores what is made here, and the
other way round.

The archive (squashfs) is made in the sandbox. A second sandbox, the keeper, gets the archive and nothing else, and the daemon
makes a backup of the keeper. The keeper lives for the call only.
"""

from __future__ import annotations

import contextlib
import math
import posixpath
import re
import shlex
import uuid
from datetime import datetime, timezone
from typing import Any, Literal, Mapping, Sequence, Union

from .. import _checks as checks
from .. import _wire as wire
from ..errors import BackupCreateError, BackupExpiredError, BackupRestoreError, InvalidBackupConfigError, SandboxError
from ..models import made
from ..models_storage import BoxBackup, DirectoryBackup
from .files import FileStream, Files

#: What `create_backup` of either SDK gave: an object, or its JSON, `{"id": …, "dir": …}`.
DirectoryBackupLike = Union[DirectoryBackup, Mapping[str, Any]]

#: Seconds that a backup is kept unless told otherwise: three days, as upstream's.
TTL_SECONDS = 259200.0
#: Seconds for each step (packing, sending, keeping, unpacking) unless told otherwise.
STEP_SECONDS = 600.0
#: Characters of a name.
NAME_MAX = 256

_ID = re.compile(r"[a-z0-9][a-z0-9-]{0,62}")
_KEEPER = re.compile(r"backup-([0-9a-f-]{36})")
_CONTROL = re.compile(r"[\x00-\x1f\x7f]")
_FULL = re.compile(r"No space left on device|Disk quota exceeded")

#: A keeper.
_SPEC = {"labels": {"atoll.backup": "directory"}, "network": {"mode": "off"}}

# That of the TypeScript SDK. $1 directory, $2 archive. Everything is unpacked beside the directory first, so an archive that
# cannot be read and a disk that is full change nothing. Then the old entries go and the new ones come by renames; the directory
# itself stays the same, for the shells that are in it.
_RESTORE = """
dir=$1
command -v unsquashfs >/dev/null || { echo 'unsquashfs is not in this image' >&2; exit 127; }
[ ! -e "$dir" ] || [ -d "$dir" ] || { echo "$dir is not a directory" >&2; exit 1; }
mkdir -p -- "$(dirname -- "$dir")" && new=$(mktemp -d -- "$(dirname -- "$dir")/.restore-XXXXXX") || exit 1
trap 'rm -rf -- "$new"' EXIT
unsquashfs -no-progress -d "$new/files" "$2" >/dev/null || exit 1
mkdir -p -- "$dir" && mkdir -- "$new/old" || exit 1
if ! find "$dir" -mindepth 1 -maxdepth 1 -exec mv -t "$new/old" -- {} +; then
  find "$new/old" -mindepth 1 -maxdepth 1 -exec mv -t "$dir" -- {} +
  exit 1
fi
find "$new/files" -mindepth 1 -maxdepth 1 -exec mv -t "$dir" -- {} + &&
  chown --reference="$new/files" -- "$dir" && chmod --reference="$new/files" -- "$dir"
"""


def _archive(archive: str) -> str:
    return f"/var/backups/{archive}.sqsh"


def _invalid(reason: str) -> InvalidBackupConfigError:
    return InvalidBackupConfigError(reason, http_status=400, context={"reason": reason})


def _directory(value: checks.StrPath) -> str:
    """The directory in the sandbox, without a slash at its end."""
    text = checks.path_text(value, "dir")
    parts = [part for part in text.split("/") if part not in ("", ".")]
    if not text.startswith("/") or not parts or ".." in parts or "\n" in text:
        raise _invalid("dir must be an absolute path without '..', and not the root directory: backup() copies a whole sandbox")
    return "/" + "/".join(parts)


def _wish(name: str | None, ttl: float) -> dict[str, Any]:
    """What the daemon is told about the backup."""
    if not isinstance(name, (str, type(None))):
        raise TypeError(f"name is a str, not {type(name).__name__}")
    if isinstance(ttl, bool) or not isinstance(ttl, (int, float)):
        raise TypeError(f"ttl is a number of seconds, not {type(ttl).__name__}")
    if name and (len(name) > NAME_MAX or _CONTROL.search(name)):
        raise _invalid(f"name must be a string of at most {NAME_MAX} characters, without control characters")
    if not math.isfinite(ttl) or ttl <= 0:
        raise _invalid("ttl must be a positive number of seconds")
    return {"ttl": math.ceil(ttl), "name": name or None}


def _handle(backup: DirectoryBackupLike, dir: checks.StrPath | None) -> DirectoryBackup:
    given = backup.to_dict() if isinstance(backup, DirectoryBackup) else backup
    if not isinstance(given, Mapping) or not isinstance(given.get("id"), str):
        raise TypeError("a backup of a directory is what create_backup() gave, or a mapping like {'id': …, 'dir': …}")
    if not _ID.fullmatch(given["id"]):
        raise _invalid("id must be the id of a backup")
    return DirectoryBackup(given["id"], _directory(given.get("dir") if dir is None else dir))  # type: ignore[arg-type]


def _archive_in(known: BoxBackup) -> str:
    """The path of the archive that a backup keeps."""
    keeper = _KEEPER.fullmatch(known.sandbox)
    if not keeper:
        raise _invalid(f"{known.id} is a backup of a whole sandbox: use restore_from()")
    if known.expires_at and known.expires_at <= datetime.now(timezone.utc):
        context = {"backupId": known.id, "expiredAt": known.expires_at.isoformat()}
        hint = "Restore a newer one, or give a longer ttl= when it is made."
        raise BackupExpiredError(f"Backup {known.id} has expired", http_status=400, context=context, suggestion=hint)
    return _archive(keeper[1])


def _restore_error(wanted: DirectoryBackup, answer: Mapping[str, Any]) -> BackupRestoreError:
    stderr, code = str(answer.get("stderr") or ""), answer.get("exitCode")
    lines = [line for line in stderr.split("\n") if line.strip()] or [f"exit code {code}"]
    why = next((line for line in lines if _FULL.search(line)), lines[-1])
    context = {"dir": wanted.dir, "backupId": wanted.id, "stderr": stderr, "exitCode": code}
    return BackupRestoreError(f"Failed to restore {wanted.dir}: {why}", http_status=500, context=context)


class Backups(Files):
    def create_backup(
        self,
        dir: checks.StrPath,
        *,
        name: str | None = None,
        ttl: float = TTL_SECONDS,
        excludes: Sequence[str] = (),
        gitignore: bool = False,
        compression: Literal["gzip", "lz4", "zstd"] = "lz4",
        timeout: float = STEP_SECONDS,
    ) -> DirectoryBackup:
        """Keeps one directory where the daemon keeps backups, for `ttl` seconds; it outlives the sandbox.

        `excludes` are patterns from the directory on; `gitignore` leaves out what git ignores. `timeout` is for each step:
        packing, sending, keeping. `delete_backup(backup.id)` deletes it. `backup()` keeps a whole sandbox instead.
        """
        wanted, wish, limit = _directory(dir), _wish(name, ttl), _limit(timeout)
        if compression not in ("gzip", "lz4", "zstd"):
            raise checks.invalid("compression", "use 'gzip', 'lz4' or 'zstd'")
        unique = str(uuid.uuid4())
        path, keeper = _archive(unique), f"/v1/sandboxes/backup-{unique}"
        pack = {
            "dir": wanted, "archivePath": path, "excludes": checks.names(excludes, "excludes") or None,
            "gitignore": bool(gitignore), "compression": {"format": compression}, "sessionId": wire.NO_SESSION,
        }
        drop = f"rm -f /var/backups/{unique}.*"
        try:
            self._box.json(wire.request("POST", "/api/backup/create", pack, read_seconds=limit))
            self._box.json(wire.request("PUT", keeper, _SPEC, repeatable=True, read_seconds=limit))
            wrong = self._copy((self._box.base, path), (keeper, path), limit)
            if wrong:
                raise BackupCreateError(wrong, http_status=500, context={"dir": wanted})
            kept = self._box.json(wire.request("POST", f"{keeper}/backups", wish, read_seconds=limit))
        except BaseException:
            drop = f"pkill -f '{unique}[.]sqsh'; {drop}"  # it may still be packing
            self._forget(keeper)
            raise
        finally:
            self._tidy(keeper, drop)
        return DirectoryBackup(kept["id"], wanted)

    def restore_backup(
        self, backup: DirectoryBackupLike, *, dir: checks.StrPath | None = None, timeout: float = STEP_SECONDS
    ) -> DirectoryBackup:
        """Makes a directory what it was: its own, or `dir`. What it holds now is gone. The sandbox may be another one."""
        wanted, limit = _handle(backup, dir), _limit(timeout)
        known = made(BoxBackup, self._box.json(wire.request("GET", f"/v1/backups/{wanted.id}"), now=True))
        archive = _archive_in(known)
        # A directory of its own: an upload that ends after a cancelled call has tidied up finds no place, and leaves nothing.
        keeper, place = f"/v1/sandboxes/restore-{uuid.uuid4()}", f"/var/backups/{uuid.uuid4()}"
        path = f"{place}/archive.sqsh"
        try:
            self._fill(keeper, known, limit)
            wrong = self._copy((keeper, archive), (self._box.base, path), limit)
            if wrong:
                raise _restore_error(wanted, {"stderr": wrong})
            script = shlex.join(["bash", "-c", _RESTORE, "restore", wanted.dir, path])
            answer = self._shell(self._box.base, script, limit, repeatable=False)
            if answer["exitCode"] != 0:
                raise _restore_error(wanted, answer)
        finally:
            self._tidy(keeper, f"rm -rf {place}")
        return wanted

    def _fill(self, keeper: str, known: BoxBackup, limit: float) -> None:
        """A keeper with the files of a backup. It is not made from it (`from`): it would then appear after a call that was
        cancelled has tidied up."""
        for image in (None, known.image):
            self._box.json(wire.request("PUT", keeper, {**_SPEC, "image": image}, repeatable=True, read_seconds=limit))
            try:
                self._box.json(wire.request("POST", f"{keeper}/restore", {"backup": known.id}, read_seconds=limit))
                return
            except SandboxError as error:
                if image or error.code != "INVALID_STATE":
                    raise
            # The default image is another one than it was then.
            self._box.json(wire.request("DELETE", keeper, repeatable=True))

    def _copy(self, source: tuple[str, str], target: tuple[str, str], limit: float) -> str | None:
        """From one sandbox to another, through this client. Says what is wrong when something else has arrived than was sent."""
        self._shell(target[0], f"mkdir -p {posixpath.dirname(target[1])}", limit)
        with FileStream(self._box, _bytes("GET", source, limit)) as pieces:
            self._box.json(_bytes("PUT", target, limit), pieces)
        sums = [self._shell(where, f"sha256sum <{path}", limit) for where, path in (source, target)]
        if sums[0]["exitCode"] == 0 and sums[0]["stdout"] == sums[1]["stdout"]:
            return None
        return f"the archive {source[1]} did not arrive whole: {sums[1]['stderr'].strip() or 'its checksum is another one'}"

    def _shell(self, sandbox: str, command: str, limit: float, repeatable: bool = True) -> dict[str, Any]:
        body = {"command": command, "sessionId": wire.NO_SESSION, "cwd": "/", "origin": "internal"}
        request = wire.request("POST", f"{sandbox}/api/execute", body, repeatable=repeatable, read_seconds=limit)
        return self._box.json(request)

    def _forget(self, keeper: str) -> None:
        """A backup of the keeper that nobody has the id of."""
        with contextlib.suppress(SandboxError):
            for one in (self._box.json(wire.request("GET", f"{keeper}/backups"), now=True))["backups"]:
                self._box.json(wire.request("DELETE", f"/v1/backups/{one['id']}", repeatable=True), now=True)

    def _tidy(self, keeper: str, drop: str) -> None:
        """The keeper and the archive go, whatever has happened. A sandbox that was destroyed meanwhile is not made again."""
        with contextlib.suppress(SandboxError):
            self._box.json(wire.request("DELETE", keeper, repeatable=True), now=True)
        gone = False
        with contextlib.suppress(SandboxError):
            gone = self._box.info() is None
        with contextlib.suppress(SandboxError):
            if not gone:
                self._shell(self._box.base, drop, wire.ANSWER_SECONDS)


def _limit(timeout: float) -> float:
    """How long an answer may take. Nothing is without an end here: a keeper would stay."""
    if checks.milliseconds(timeout) is None:
        raise TypeError("timeout is a number of seconds, not None")
    return timeout + wire.GRACE_SECONDS


def _bytes(method: str, place: tuple[str, str], limit: float) -> wire.Request:
    """The route of a file's bytes, in any sandbox."""
    query = {"path": place[1], "sessionId": wire.NO_SESSION}
    return wire.request(method, f"{place[0]}/api/file", query=query, read_seconds=limit)
