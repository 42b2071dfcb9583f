"""Backups of whole sandboxes, and of directories."""

from __future__ import annotations

import asyncio
import contextlib
import json
import re
import uuid
from datetime import datetime, timedelta, timezone
from typing import Any, Callable

import pytest

from atoll_sandbox import (
    AsyncSandbox,
    Atoll,
    BackupCreateError,
    BackupExpiredError,
    BackupNotFoundError,
    BackupRestoreError,
    DirectoryBackup,
    FileSystemError,
    InvalidBackupConfigError,
    RPCTransportError,
    Sandbox,
    SandboxError,
    ValidationFailedError,
)

from .conftest import until

Make = Callable[..., Any]


@pytest.fixture
def other_id(box_id: str) -> Any:
    yield f"{box_id}-other"
    with Sandbox(f"{box_id}-other") as one:
        one.destroy()


def clean(sandbox: Any) -> None:
    for one in sandbox.backups():
        sandbox.delete_backup(one)


def test_a_sandbox_is_backed_up_and_restored(sandbox: Any, make: Make, other_id: str) -> None:
    sandbox.write_file("/root/f", "one")
    first = sandbox.backup("nightly", ttl=3600)
    try:
        assert (first.sandbox, first.name, first.state, first.parent) == (sandbox.id, "nightly", "ready", None)
        assert first.size > 0 and not first.scheduled and first.expires_at - first.created_at == timedelta(hours=1)
        sandbox.write_file("/root/f", "two")
        second = sandbox.backup()
        assert second.parent == first.id and second.expires_at is None
        assert [one.id for one in sandbox.backups()] == [first.id, second.id]
        usage = sandbox.backup_usage()
        assert (usage.bytes, usage.hidden, usage.hidden_bytes) == (first.size + second.size, 0, 0)
        assert usage.allowed is not None and usage.allowed > usage.bytes
        with Atoll() as atoll:
            everything = atoll.backup_usage()
        assert everything.bytes >= usage.bytes and everything.allowed is None
        sandbox.restore_from(first)
        assert sandbox.info().state == "stopped" and sandbox.read_file("/root/f") == "one"
        # They outlive the sandbox, and make others.
        sandbox.destroy()
        assert [one.id for one in sandbox.backups()] == [first.id, second.id] and sandbox.info() is None
        other = make(other_id, labels={"of": "a backup"})
        other.create_from(backup=second)
        assert other.read_file("/root/f") == "two" and other.info().labels == {"of": "a backup"}
        other.replace(backup=first.id)
        assert other.read_file("/root/f") == "one"
        sandbox.delete_backup(second)
        with pytest.raises(BackupNotFoundError) as missing:
            other.restore_from(second)
        assert missing.value.code == "BACKUP_NOT_FOUND" and missing.value.suggestion
    finally:
        clean(sandbox)
    assert sandbox.backups() == []


def test_a_backup_can_be_watched_and_cancelled(sandbox: Any) -> None:
    sandbox.exec("head -c 30000000 /dev/urandom > /root/big")
    try:
        begun = sandbox.backup(wait=False)
        assert begun.state in ("making", "ready")
        assert until(lambda: sandbox.get_backup(begun).state == "ready", "the backup")
        with pytest.raises(TimeoutError, match="get_backup"):
            sandbox.exec("head -c 30000000 /dev/urandom > /root/big")
            sandbox.backup(timeout=0.001)
    finally:
        until(lambda: all(one.state != "making" for one in sandbox.backups()), "backups under way")
        clean(sandbox)


def test_backups_by_the_clock(sandbox: Any) -> None:
    sandbox.configure(backup={"every": "1s", "keep": 2})
    try:
        until(lambda: any(one.scheduled and one.state == "ready" for one in sandbox.backups()), "a backup of the schedule")
        sandbox.configure(backup={})
        until(lambda: all(one.state != "making" for one in sandbox.backups()), "backups under way")
        assert 1 <= len(sandbox.backups()) <= 3
        with pytest.raises(ValidationFailedError, match="backup"):
            sandbox.configure(backup={"evry": "1h"})
    finally:
        sandbox.configure(backup={})
        clean(sandbox)


def leftovers(sandbox: Any) -> list[str]:
    """Archives, directories, keepers."""
    inside: str = sandbox.exec("ls -A /var/backups; ls -Ad /workspace/.restore-* 2>/dev/null").stdout
    with Atoll() as atoll:
        return inside.split() + [one.id for one in atoll.sandboxes() if one.id.startswith(("backup-", "restore-"))]


def nothing_is_left(sandbox: Any) -> None:
    assert leftovers(sandbox) == []


def kept_directories() -> list[str]:
    with Atoll() as atoll:
        return [one.id for one in atoll.backups() if one.sandbox.startswith("backup-")]


LOOK = "find . -printf '%P %m %l\\n' | sort; sha256sum big"


def test_a_directory_is_kept_and_comes_back(sandbox: Any, make: Make, other_id: str) -> None:
    sandbox.exec("mkdir -p '/workspace/a b/src'; cd '/workspace/a b'; git init -q; echo '*.log' > .gitignore; echo one > src/a; "
                 "echo x > x.log; ln -s src/a link; chmod 751 src; chmod 711 .; head -c 3000000 /dev/urandom > big").check()
    whole = sandbox.create_backup("/workspace/a b/", name="with a blank", compression="zstd", ttl=3599.5)
    less = None
    try:
        assert whole.dir == "/workspace/a b" and whole["id"] == whole.id
        known = sandbox.get_backup(whole.id)
        assert (known.name, known.state) == ("with a blank", "ready")
        assert known.expires_at - known.created_at == timedelta(hours=1)
        before = sandbox.exec(f"cd '/workspace/a b' && {LOOK}").stdout
        session = sandbox.create_session(cwd="/workspace/a b")
        session.exec("rm -r src && echo more > new && chmod 700 .").check()
        assert session.restore_backup(whole) == whole
        # The files of the backup and no others; the directory is still the same one.
        assert session.exec(LOOK).stdout == before
        nothing_is_left(sandbox)

        less = sandbox.create_backup("/workspace/a b", excludes=["big"], gitignore=True)
        sandbox.destroy()
        other = make(other_id)
        handle = json.loads(json.dumps(less.to_dict()))
        assert other.restore_backup(handle, dir="/workspace/deep/er") == DirectoryBackup(less.id, "/workspace/deep/er")
        assert other.readdir("/workspace/deep/er") == [".git", ".gitignore", "link", "src"]
        other.restore_backup({**handle, "id": whole.id})
        assert other.exec(f"cd '/workspace/a b' && {LOOK}").stdout == before
        nothing_is_left(other)
    finally:
        for one in (whole, less):
            if one:
                sandbox.delete_backup(one.id)
    with pytest.raises(BackupNotFoundError):
        other.restore_backup(whole)


def test_directories_that_cannot_be_kept(sandbox: Any) -> None:
    for wrong in ("relative", "/", "/workspace/../etc", "//", "/./", "/a\nb"):
        with pytest.raises(InvalidBackupConfigError, match="absolute"):
            sandbox.create_backup(wrong)
        with pytest.raises(InvalidBackupConfigError, match="absolute"):
            sandbox.restore_backup({"id": "bak-0000", "dir": wrong})
    wishes: list[dict[str, Any]] = [{"ttl": 0}, {"ttl": -1}, {"ttl": float("nan")}, {"ttl": float("inf")}, {"name": "a\nb"},
                                    {"name": "x" * 257}]
    for wish in wishes:
        with pytest.raises(InvalidBackupConfigError) as config:
            sandbox.create_backup("/workspace", **wish)
        assert config.value.reason == config.value.message
    for mistake in ({"ttl": "1"}, {"ttl": True}, {"name": 7}, {"excludes": "*.log"}, {"excludes": [1]}, {"timeout": None}):
        with pytest.raises(TypeError):
            sandbox.create_backup("/workspace", **mistake)
    with pytest.raises(ValidationFailedError, match="compression"):
        sandbox.create_backup("/workspace", compression="rar")
    for mapping in (7, "bak-0000", None, {}, {"id": 7, "dir": "/a"}, {"id": "bak-0000"}):
        with pytest.raises(TypeError):
            sandbox.restore_backup(mapping)
    with pytest.raises(InvalidBackupConfigError, match="id"):
        sandbox.restore_backup({"id": "../x", "dir": "/a"})
    with pytest.raises(BackupNotFoundError):
        sandbox.restore_backup({"id": "bak-0000", "dir": "/a"})
    assert sandbox.info() is None, "nothing was made"
    known = set(kept_directories())
    with pytest.raises(BackupCreateError) as failed:
        sandbox.create_backup("/workspace/none")
    assert failed.value.code == "BACKUP_CREATE_FAILED" and set(kept_directories()) <= known
    nothing_is_left(sandbox)


def test_a_backup_that_cannot_be_put_back_changes_nothing(sandbox: Any, make: Make) -> None:
    sandbox.exec("mkdir -p /workspace/d; echo kept > /workspace/d/f; head -c 12M /dev/urandom > /workspace/d/big").check()
    before = sandbox.exec("cd /workspace; find . | sort; sha256sum d/*").stdout
    whole, made = sandbox.backup(), None
    try:
        with pytest.raises(InvalidBackupConfigError, match="whole sandbox"):
            sandbox.restore_backup({"id": whole.id, "dir": "/workspace/d"})
        made = sandbox.create_backup("/workspace/d")
        with pytest.raises(BackupRestoreError, match="is not a directory") as refused:
            sandbox.restore_backup(made, dir="/workspace/d/f")
        assert (refused.value.dir, refused.value.backup_id, refused.value.exit_code) == ("/workspace/d/f", made.id, 1)
        sandbox.exec("mv /usr/bin/unsquashfs /usr/bin/gone").check()
        with pytest.raises(BackupRestoreError, match="unsquashfs is not in this image"):
            sandbox.restore_backup(made)
        sandbox.exec("mv /usr/bin/gone /usr/bin/unsquashfs; head -c 58M /dev/urandom > /tmp/fill").check()
        sandbox.configure(limits={"disk": 84 << 20})
        with pytest.raises((BackupRestoreError, FileSystemError), match="(?i)quota exceeded|no space"):
            sandbox.restore_backup(made)
        sandbox.configure(limits={"disk": 1 << 30})
        assert sandbox.exec("cd /workspace; find . | sort; sha256sum d/*").stdout == before
        nothing_is_left(sandbox)
        with pytest.raises(SandboxError) as missing:
            make(f"{sandbox.id}-none", create=False).restore_backup(made)
        assert missing.value.code == "SANDBOX_NOT_FOUND"
        nothing_is_left(sandbox)
    finally:
        for one in (whole, made):
            if one:
                sandbox.delete_backup(one.id)


def test_a_backup_that_expires(sandbox: Any) -> None:
    sandbox.write_file("/workspace/d/f", "kept")
    made = sandbox.create_backup("/workspace/d", ttl=1)
    until(lambda: datetime.now(timezone.utc) > expiry(sandbox, made.id), "its end")
    with pytest.raises((BackupExpiredError, BackupNotFoundError)) as over:
        sandbox.restore_backup(made)
    assert over.value.context["backupId"] == made.id
    nothing_is_left(sandbox)


def expiry(sandbox: Any, backup: str) -> datetime:
    try:
        found: datetime = sandbox.get_backup(backup).expires_at
        return found
    except BackupNotFoundError:  # it has been swept
        return datetime.min.replace(tzinfo=timezone.utc)


def test_a_keeper_of_another_image(sandbox: Any) -> None:
    """As one is that was made before the default image became another one."""
    archive = str(uuid.uuid4())
    sandbox.start()
    with Sandbox(sandbox.id) as plain:
        whole = plain.backup()
        plain.delete_backup(whole)
    with Sandbox(f"backup-{archive}", image=whole.image, destroy_on_exit=True) as keeper:
        keeper.exec(f"mkdir /tmp/d /var/backups; echo one > /tmp/d/f; mksquashfs /tmp/d /var/backups/{archive}.sqsh").check()
        kept = keeper.backup(ttl=600)
    try:
        sandbox.restore_backup({"id": kept.id, "dir": "/workspace/d"})
        assert sandbox.read_file("/workspace/d/f") == "one\n"
        nothing_is_left(sandbox)
    finally:
        sandbox.delete_backup(kept.id)


def is_deleted(sandbox: Sandbox, backup: str) -> bool:
    """Deletes the backup, unless a restore that was cancelled is still about to end."""
    try:
        sandbox.delete_backup(backup)
    except FileSystemError as e:
        assert e.code == "RESOURCE_BUSY", e
        return False
    return True


def test_backups_that_are_cancelled_leave_nothing(box_id: str) -> None:
    async def run() -> None:
        async with AsyncSandbox(box_id) as sandbox:
            (await sandbox.exec("mkdir /workspace/d; head -c 20M /dev/urandom > /workspace/d/f")).check()
            before = (await sandbox.exec("sha256sum /workspace/d/*")).stdout
            kept = await sandbox.create_backup("/workspace/d")
            for seconds in (0.01, 0.04, 0.08, 0.16, 0.24, 0.32):
                with contextlib.suppress(asyncio.TimeoutError):
                    await sandbox.delete_backup((await asyncio.wait_for(sandbox.create_backup("/workspace/d"), seconds)).id)
                with contextlib.suppress(asyncio.TimeoutError):
                    await asyncio.wait_for(sandbox.restore_backup(kept), seconds)
                with Sandbox(box_id) as plain:
                    # A script that has begun ends by itself, and the clean-up of a call that was cancelled goes on.
                    until(lambda: plain.exec("pgrep -f 'restore-[X]XXXXX'").stdout == "", "what was begun")
                    until(lambda: not leftovers(plain), "the clean-up")
                    assert plain.exec("sha256sum /workspace/d/*").stdout == before
            with Sandbox(box_id) as plain:
                until(lambda: is_deleted(plain, kept.id), "the end of its last restore")

    known = set(kept_directories())
    asyncio.run(run())
    assert set(kept_directories()) <= known


def test_backups_that_are_cut_off_leave_nothing(network: Callable[..., Any], make: Make, box_id: str, daemon: Any) -> None:
    """Answers are lost, one after the other."""
    known, lost = set(kept_directories()), []
    with Sandbox(box_id) as plain:
        plain.write_file("/workspace/d/f", "kept")
        kept = plain.create_backup("/workspace/d")
        try:
            for connection, limit in [(1, 0), (1, 500), (1, 1000), *((2, limit) for limit in range(0, 2400, 300))]:
                for restore in (False, True):
                    bad = network(lambda n: limit if n == connection else None)
                    sandbox = make(box_id, url=bad.url, token=daemon.token)
                    try:
                        if restore:
                            sandbox.restore_backup(kept)
                        else:
                            plain.delete_backup(sandbox.create_backup("/workspace/d").id)
                    except RPCTransportError:
                        lost.append(bad.requests)
                    assert set(kept_directories()) <= known | {kept.id}
                    assert plain.exec("cat /workspace/d/*").stdout == "kept"
                    nothing_is_left(plain)
        finally:
            plain.delete_backup(kept.id)
    said = "".join(f"{request}\n" for requests in lost for request in requests)
    for wanted in ("POST .*/api/backup/create", "PUT .*/backup-", "PUT .*/restore-", "DELETE /v1/backups/"):
        assert re.search(wanted, said), wanted
