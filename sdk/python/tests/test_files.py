from __future__ import annotations

import hashlib
import io
from pathlib import PurePosixPath
from typing import Any, Iterator

import pytest

from atoll_sandbox import FileNotFoundError, FileSystemError, PermissionDeniedError, SandboxError

MEGABYTE = bytes((i * 7 ^ i >> 8) & 255 for i in range(1 << 20))


def test_text_and_bytes(sandbox: Any) -> None:
    sandbox.write_file("src/deep/main.py", "print('grüße')\n")
    assert sandbox.read_file(PurePosixPath("/workspace/src/deep/main.py")) == "print('grüße')\n"
    sandbox.write_file("raw", b"\x00\xff\r\n")
    assert sandbox.read_file("raw", encoding=None) == b"\x00\xff\r\n"
    assert sandbox.read_file("raw", encoding="latin-1") == "\x00ÿ\r\n"
    with pytest.raises(UnicodeDecodeError):
        sandbox.read_file("raw")
    sandbox.write_file("latin", "ÿ", encoding="latin-1")
    assert sandbox.read_file("latin", encoding=None) == b"\xff"


def test_names_with_everything_in_them(sandbox: Any) -> None:
    name = "/workspace/ä b&c=?#%+'\""
    sandbox.write_file(name, "")
    assert sandbox.read_file(name) == ""
    assert [info.name for info in sandbox.list_files("/workspace")] == [name.rpartition("/")[2]]


def test_directories(sandbox: Any) -> None:
    sandbox.mkdir("a/b/c", recursive=True)
    with pytest.raises(SandboxError):
        sandbox.mkdir("x/y/z")
    sandbox.write_file("a/one", "1")
    sandbox.write_file("a/.hidden", "")
    assert [info.name for info in sandbox.list_files("a") if info.type == "file"] == ["one"]
    everything = sandbox.list_files("a", recursive=True, include_hidden=True)
    assert {info.relative_path: info.type for info in everything} == {
        "b": "directory", "b/c": "directory", "one": "file", ".hidden": "file",
    }
    one = next(info for info in everything if info.name == "one")
    assert (one.size, one.absolute_path, one.permissions["readable"]) == (1, "/workspace/a/one", True)
    sandbox.rename_file("a/one", "a/two")
    sandbox.move_file("a/two", "three")
    assert (sandbox.exists("a/one"), sandbox.exists("three"), sandbox.exists("a")) == (False, True, True)
    sandbox.delete_file("three")
    assert not sandbox.exists("three")


def test_what_the_file_system_refuses(sandbox: Any) -> None:
    with pytest.raises(FileNotFoundError) as missing:
        sandbox.read_file("/nope")
    assert (missing.value.code, missing.value.path) == ("FILE_NOT_FOUND", "/nope")
    with pytest.raises(FileSystemError) as directory:
        sandbox.read_file("/workspace")
    assert directory.value.code == "IS_DIRECTORY"
    with pytest.raises(FileSystemError):
        sandbox.delete_file("/workspace")
    with pytest.raises((PermissionDeniedError, FileSystemError)):
        sandbox.write_file("/proc/version", "x")
    with pytest.raises(FileNotFoundError):
        sandbox.list_files("/nope")


def test_thirty_megabytes_in_and_out(sandbox: Any) -> None:
    def pieces() -> Iterator[bytes]:
        for _ in range(30):
            yield MEGABYTE

    digest = hashlib.sha256(MEGABYTE * 30).hexdigest()
    sandbox.write_file("big.bin", pieces())
    assert sandbox.exec("sha256sum < big.bin").stdout.split()[0] == digest
    back = hashlib.sha256()
    with sandbox.read_file_stream("big.bin") as file:
        assert (file.size, file.mime_type) == (30 << 20, "application/octet-stream")
        for piece in file:
            back.update(piece)
    assert back.hexdigest() == digest
    assert hashlib.sha256(sandbox.read_file("big.bin", encoding=None)).hexdigest() == digest


def test_file_objects(sandbox: Any) -> None:
    sandbox.write_file("object", io.BytesIO(b"one\ntwo\n"))
    assert sandbox.read_file("object") == "one\ntwo\n"
    assert b"".join(sandbox.read_file_stream("object")) == b"one\ntwo\n"


def test_a_source_that_fails_leaves_the_old_content(sandbox: Any) -> None:
    sandbox.write_file("f", "old")

    def broken() -> Iterator[bytes]:
        yield b"new" * 1000
        raise RuntimeError("no more")

    with pytest.raises(RuntimeError, match="no more"):
        sandbox.write_file("f", broken())
    assert sandbox.read_file("f") == "old"
    with pytest.raises(TypeError, match="pieces of a file are bytes"):
        sandbox.write_file("f", iter(["text"]))
    assert sandbox.read_file("f") == "old"


def test_watch(sandbox: Any) -> None:
    sandbox.mkdir("kept")
    with sandbox.watch("/workspace", include=["*.txt"]) as changes:
        sandbox.exec("touch ignored.log seen.txt")
        first, second = next(changes), next(changes)
    assert (first.type, first.path) == ("watching", "/workspace")
    assert (second.event_type, second.path, second.is_directory) == ("create", "/workspace/seen.txt", False)
    with pytest.raises(FileNotFoundError):
        list(sandbox.watch("/workspace/none"))
    version = sandbox.check_changes("/workspace").version
    assert sandbox.check_changes("/workspace", since=version).status == "unchanged"
    sandbox.write_file("more.txt", "")
    assert sandbox.check_changes("/workspace", since=version).status == "changed"


def test_names_stat_and_removal(sandbox: Any) -> None:
    make = "mkdir -p d/e && echo hello > d/f && chmod 640 d/f && touch -d @86400 d/f && ln -s f d/link && : > d/.hidden"
    sandbox.exec(make, check=True)
    assert sandbox.readdir("/workspace/d") == [".hidden", "e", "f", "link"] == sandbox.readdir("d")
    found = sandbox.stat("/workspace/d/link")
    assert (found.type, found.size, found.mode, found.is_file, found.is_dir) == ("file", 6, 0o640, True, False)
    assert found.modified_at.timestamp() == 86400
    assert sandbox.stat("d").is_dir and sandbox.stat("/dev/null").type == "other" and sandbox.stat("d/.hidden").is_file
    for path in ("/workspace/none", "none", "d/f/x"):
        with pytest.raises(FileNotFoundError) as missing:
            sandbox.stat(path)
        assert missing.value.path == path
    for call in (sandbox.readdir, sandbox.rm):
        with pytest.raises(FileNotFoundError):
            call("none")
    with pytest.raises(FileSystemError, match="recursive=True") as refused:
        sandbox.rm("d")
    assert refused.value.code == "IS_DIRECTORY"
    sandbox.rm("none", force=True)
    sandbox.rm("d/f")
    sandbox.rm("d/link")
    sandbox.rm("/workspace/d", recursive=True)
    assert sandbox.readdir() == []
    name = "-rf 'x' $(id)\n"
    sandbox.write_file(f"{name}/f", "x")
    assert sandbox.stat(f"{name}/f").size == 1
    sandbox.rm(name, recursive=True)
    assert sandbox.readdir() == []
