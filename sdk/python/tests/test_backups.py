"""Backups of whole sandboxes, and of directories."""

from __future__ import annotations

import json
from datetime import timedelta
from pathlib import Path
from typing import Any, Callable

import pytest

from atoll_sandbox import (
    BackupCreateError,
    BackupExpiredError,
    BackupNotFoundError,
    BackupRestoreError,
    InvalidBackupConfigError,
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


def test_a_directory_goes_to_a_store_and_comes_back(sandbox: Any, make: Make, other_id: str, tmp_path: Path) -> None:
    sandbox.exec("mkdir -p /workspace/p/src 'a b'; cd /workspace/p; git init -q; echo '*.log' > .gitignore; echo one > src/a; "
                 "echo x > x.log; ln -s src/a link; chmod 751 src; head -c 3000000 /dev/urandom > big").check()
    whole = sandbox.create_backup("/workspace/p", store=tmp_path, name="mine", compression="zstd")
    assert (whole.dir, whole.name) == ("/workspace/p", "mine") and whole.size > 3000000
    assert whole.expires_at - whole.created_at == timedelta(days=3)
    assert sorted(file.name for file in (tmp_path / "backups" / whole.id).iterdir()) == ["data.sqsh", "meta.json"]
    assert sandbox.readdir("/var/backups") == []
    before = sandbox.exec("cd /workspace/p && find . -printf '%P %m %l\\n' | sort; sha256sum big").stdout
    sandbox.exec("cd /workspace/p && rm -r src && echo more > new")
    assert sandbox.restore_backup(whole, store=tmp_path) == whole
    assert sandbox.exec("cd /workspace/p && find . -printf '%P %m %l\\n' | sort; sha256sum big").stdout == before
    assert sandbox.readdir("/var/backups") == []

    less = sandbox.create_backup("/workspace/p/", store=tmp_path, excludes=["big"], gitignore=True)
    other = make(other_id)
    other.restore_backup(less.id, store=tmp_path, dir="/workspace/q")
    assert other.readdir("/workspace/q") == [".git", ".gitignore", "link", "src"]
    assert other.read_file("/workspace/q/link") == "one\n"


def test_backups_that_cannot_be(sandbox: Any, tmp_path: Path) -> None:
    for wrong in ("relative", "/", "/workspace/../etc", "//"):
        with pytest.raises(InvalidBackupConfigError, match="absolute"):
            sandbox.create_backup(wrong, store=tmp_path)
    assert sandbox.info() is None, "nothing was sent"
    with pytest.raises(BackupCreateError):
        sandbox.create_backup("/workspace/none", store=tmp_path)
    for unknown in ("0b5b1b0e-0000-4000-8000-000000000001", "x"):
        with pytest.raises(BackupNotFoundError, match="store="):
            sandbox.restore_backup(unknown, store=tmp_path)
    for wrong in (7, "../x", "", None):  # type: ignore[assignment]
        with pytest.raises(TypeError):
            sandbox.restore_backup(wrong, store=tmp_path)
    with pytest.raises(SandboxError, match="compression"):
        sandbox.create_backup("/workspace", store=tmp_path, compression="rar")
    for ttl in (0, -1, float("nan")):
        with pytest.raises(ValueError):
            sandbox.create_backup("/workspace", store=tmp_path, ttl=ttl)


def test_old_and_broken_backups_change_nothing(sandbox: Any, tmp_path: Path) -> None:
    sandbox.write_file("/workspace/d/f", "kept")
    made = sandbox.create_backup("/workspace/d", store=tmp_path)
    place = tmp_path / "backups" / made.id
    meta = json.loads((place / "meta.json").read_text())
    (place / "meta.json").write_text(json.dumps({**meta, "createdAt": "2020-01-01T00:00:00+00:00"}))
    with pytest.raises(BackupExpiredError, match="ttl="):
        sandbox.restore_backup(made, store=tmp_path)
    (place / "meta.json").write_text(json.dumps(meta))
    archive = (place / "data.sqsh").read_bytes()
    (place / "data.sqsh").write_bytes(archive[:-1])
    with pytest.raises(BackupRestoreError, match="not whole"):
        sandbox.restore_backup(made, store=tmp_path)
    (place / "data.sqsh").write_bytes(b"\0" * len(archive))
    with pytest.raises(BackupRestoreError) as broken:
        sandbox.restore_backup(made, store=tmp_path)
    assert broken.value.dir == "/workspace/d" and broken.value.stderr
    assert sandbox.exec("cat /workspace/d/f; ls -A /workspace /var/backups").stdout == "kept/var/backups:\n\n/workspace:\nd\n"
