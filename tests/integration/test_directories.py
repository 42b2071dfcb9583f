"""Directories of a box: made, deleted, renamed, moved, listed; and where relative paths begin."""

import json
import os

import pytest
from boxapi import ISO, NO_SESSION

W = "/workspace"


# ---- directories


def test_mkdir(api):
    assert api.ok("/api/mkdir", path=f"{W}/d")["recursive"] is False
    answer = api.ok("/api/mkdir", path=f"{W}/a//b/../c/", recursive=True)
    assert answer["recursive"] is True and answer["path"] == f"{W}/a//b/../c/"
    api.ok("/api/mkdir", path=f"{W}/a/c", recursive=True)
    assert api.sh(f"cd {W} && find . | sort | xargs") == ". ./a ./a/b ./a/c ./d\n"
    error = api.fails("/api/mkdir", "FILESYSTEM_ERROR", 500, path=f"{W}/d")
    assert error["context"] == {"path": f"{W}/d", "operation": "directory.create", "exitCode": 1}
    api.fails("/api/mkdir", "FILE_NOT_FOUND", 404, path=f"{W}/no/e")
    api.sh(f"touch {W}/file")
    api.fails("/api/mkdir", "FILESYSTEM_ERROR", 500, path=f"{W}/file", recursive=True)
    api.fails("/api/mkdir", "NOT_DIRECTORY", 400, path=f"{W}/file/x", recursive=True)
    api.invalid("/api/mkdir", "recursive", path=f"{W}/x", recursive="yes")


def test_delete(api):
    api.sh(f"cd {W} && mkdir dir && touch file && ln -s dir link && mkfifo fifo")
    for name in ("file", "link", "fifo"):
        assert api.ok("/api/delete", path=f"{W}/{name}")["path"] == f"{W}/{name}"
    error = api.fails("/api/delete", "IS_DIRECTORY", 400, path=f"{W}/dir")
    assert error["message"] == (f"Cannot delete directory with deleteFile() at '{W}/dir'. "
                                "Use exec('rm -rf <path>') instead.")
    error = api.fails("/api/delete", "FILE_NOT_FOUND", 404, path=f"{W}/file")
    assert error["context"] == {"path": f"{W}/file", "operation": "file.delete"}
    assert api.sh(f"ls -A {W}") == "dir\n"


def test_exists(api):
    api.sh(f"cd {W} && mkdir dir && ln -s gone dangling && ln -s dir link && mkfifo fifo")
    expected = {f"{W}/dir": True, f"{W}/link": True, f"{W}/fifo": True, "/": True, f"{W}/dangling": False,
                f"{W}/none": False, "/dev/null/x": False, f"{W}/" + "y" * 300: False}
    for path, there in expected.items():
        answer = api.ok("/api/exists", path=path)
        assert (answer["exists"], answer["path"]) == (there, path)


def test_rename_is_mv(api):
    api.sh(f"cd {W} && mkdir d1 d2 && echo 1 > a && echo 2 > b && echo 3 > d1/x && mkdir d2/d1 && touch d2/d1/full")
    answer = api.ok("/api/rename", oldPath=f"{W}/a", newPath=f"{W}/b")
    assert (answer["path"], answer["newPath"]) == (f"{W}/a", f"{W}/b")
    api.ok("/api/move", sourcePath=f"{W}/b", destinationPath=f"{W}/d1")
    assert api.sh(f"cd {W} && cat d1/b") == "1\n"
    api.fails("/api/rename", "FILE_EXISTS", 409, oldPath=f"{W}/d1", newPath=f"{W}/d2")
    error = api.fails("/api/rename", "FILE_NOT_FOUND", 404, oldPath=f"{W}/none", newPath=f"{W}/x")
    assert error["context"] == {"path": f"{W}/none", "operation": "file.rename"}
    api.fails("/api/rename", "FILE_NOT_FOUND", 404, oldPath=f"{W}/d1", newPath=f"{W}/none/x")
    api.fails("/api/move", "RESOURCE_BUSY", 409, sourcePath="/", destinationPath=f"{W}/x")
    api.invalid("/api/rename", "newPath", oldPath=f"{W}/d1")
    api.invalid("/api/move", "sourcePath", destinationPath=f"{W}/d1")


def test_rename_to_another_name_of_the_same_file(api):
    api.sh(f"cd {W} && mkdir d && echo 1 > a && ln a b && ln a d/a && ln -s . here")
    for new in ("b", "d"):  # mv: onto a directory is into it
        api.sh(f"cd {W} && ln -f d/a a")
        api.ok("/api/rename", oldPath=f"{W}/a", newPath=f"{W}/{new}")
        assert api.sh(f"cd {W} && ls && cat b d/a") == "b\nd\nhere\n1\n1\n"
    for same in (f"{W}/b", f"{W}/./b", f"{W}/here/b"):  # its own name is no other
        api.ok("/api/rename", oldPath=f"{W}/b", newPath=same)
        assert api.sh(f"cat {W}/b") == "1\n"


def test_move_across_mounts(api):
    api.sh(f"cd {W} && mkdir -p t/sub && echo deep > t/sub/f && chmod 751 t/sub/f && ln -s sub/f t/link && mkfifo t/p &&"
           " echo old > /dev/shm/taken && echo new > single && chown 5:6 single")
    answer = api.ok("/api/move", sourcePath=f"{W}/t", destinationPath="/dev/shm/t2")
    assert answer["newPath"] == "/dev/shm/t2"
    assert api.sh("cd /dev/shm/t2 && stat -c '%a %F' sub/f p && readlink link && cat link") == (
        "751 regular file\n644 fifo\nsub/f\ndeep\n")
    api.ok("/api/rename", oldPath=f"{W}/single", newPath="/dev/shm/taken")
    assert api.sh("stat -c %u:%g /dev/shm/taken; cat /dev/shm/taken") == "5:6\nnew\n"
    api.sh(f"mkdir -p {W}/d/x /dev/shm/d/x && touch /dev/shm/d/x/full")
    api.fails("/api/move", "FILE_EXISTS", 409, sourcePath=f"{W}/d/x", destinationPath="/dev/shm/d")
    api.fails("/api/move", "READ_ONLY", 403, sourcePath=f"{W}/d/x", destinationPath="/dev/x")
    assert api.sh(f"ls -A {W}; ls -A /dev/shm /dev/shm/d") == "d\n/dev/shm:\nd\nt2\ntaken\n\n/dev/shm/d:\nx\n"


# ---- lists


def test_move_across_mounts_that_cannot_be(api):
    api.sh(f"mkdir -p {W}/ro/d && echo 1 > {W}/ro/d/f && mkfifo {W}/ro/d/fifo && echo 2 > /dev/shm/file")
    error = api.fails("/api/move", "READ_ONLY", 403, sourcePath="/dev/null", destinationPath=f"{W}/null")
    assert error["context"]["path"] == "/dev/null"
    error = api.fails("/api/move", "NOT_DIRECTORY", 400, sourcePath=f"{W}/ro/d", destinationPath="/dev/shm/file")
    assert ".atoll-tmp" not in error["message"]
    assert api.sh(f"ls -A {W} {W}/ro/d /dev/shm; cat /dev/shm/file") == f"/dev/shm:\nfile\n\n{W}:\nro\n\n{W}/ro/d:\nf\nfifo\n2\n"


def test_list_has_upstreams_fields(api):
    api.sh(f"mkdir -p {W}/l/sub && cd {W}/l && echo hi > f && chmod 640 f && ln -s f link && ln -s . sub/up &&"
           " touch .hidden sub/deep sub/.h && mkdir .hd && touch .hd/x && mkfifo p && chmod 6755 p && mkdir -m 1777 sticky &&"
           " touch -d '2001-02-03T04:05:06.789Z' f && touch -d '1960-01-01T00:00:00Z' p")
    answer = api.ok("/api/list-files", path=f"{W}/l")
    assert answer["path"] == f"{W}/l" and answer["count"] == len(answer["files"]) == 5
    by = {f["name"]: f for f in answer["files"]}
    assert by["f"] == {"name": "f", "absolutePath": f"{W}/l/f", "relativePath": "f", "type": "file", "size": 3,
                       "modifiedAt": "2001-02-03T04:05:06.789Z", "mode": "rw-r-----",
                       "permissions": {"readable": True, "writable": True, "executable": False}}
    assert {n: (f["type"], f["mode"]) for n, f in by.items() if n != "f"} == {
        "link": ("symlink", "rwxrwxrwx"), "sub": ("directory", "rwxr-xr-x"), "p": ("other", "rwsr-sr-x"),
        "sticky": ("directory", "rwxrwxrwt")}
    assert all(ISO.match(f["modifiedAt"]) for f in answer["files"]) and by["p"]["modifiedAt"][:4] == "1960"


def names(api, path, **options):
    answer = api.ok("/api/list-files", path=path, options=options)
    assert answer["count"] == len(answer["files"])
    return sorted(f["relativePath"] for f in answer["files"])


@pytest.mark.parametrize("path", [".", "./sub/..", f"{W}/", "//workspace//./", f"{W}/sub/..", f"{W}/link/.."], ids=range(6))
def test_list_names_things_plainly(api, path):
    api.sh(f"mkdir {W}/sub && ln -s sub {W}/link")
    answer = api.ok("/api/list-files", path=path, sessionId=NO_SESSION)
    assert answer["path"] == path
    assert {f["absolutePath"] for f in answer["files"]} == {f"{W}/sub", f"{W}/link"}


def test_list_hidden_and_recursive(api):
    api.sh(f"mkdir -p {W}/l/sub/.hid/in && cd {W}/l && touch f .hidden sub/deep sub/.h sub/.hid/in/x && ln -s .. sub/up")
    assert names(api, f"{W}/l") == ["f", "sub"]
    assert names(api, f"{W}/l", includeHidden=True) == [".hidden", "f", "sub"]
    assert names(api, f"{W}/l/", recursive=True) == ["f", "sub", "sub/deep", "sub/up"]
    assert names(api, f"{W}/l", recursive=True, includeHidden=True) == [
        ".hidden", "f", "sub", "sub/.h", "sub/.hid", "sub/.hid/in", "sub/.hid/in/x", "sub/deep", "sub/up"]
    assert names(api, f"{W}/l/sub/.hid") == ["in"]
    api.fails("/api/list-files", "NOT_DIRECTORY", 400, path=f"{W}/l/f")
    error = api.fails("/api/list-files", "FILE_NOT_FOUND", 404, path=f"{W}/none")
    assert error["context"] == {"path": f"{W}/none", "operation": "directory.list"}
    api.invalid("/api/list-files", "recursive", path=W, options={"recursive": 1})
    api.invalid("/api/list-files", "options", path=W, options=[])


def test_list_parents_before_children(api):
    api.sh(f"cd {W} && for a in a b c; do for b in 1 2 3; do mkdir -p $a/$b && touch $a/$b/f; done; done")
    seen = set()
    for f in api.ok("/api/list-files", path=W, options={"recursive": True})["files"]:
        parent = os.path.dirname(f["relativePath"])
        assert not parent or parent in seen
        seen.add(f["relativePath"])
    assert len(seen) == 3 + 9 + 9


def test_a_huge_directory(api):
    huge = "/dev/shm/huge"
    api.sh(f"mkdir {huge} && cd {huge} && seq -f 'file-with-a-rather-long-name-%.0f' 10000 | xargs touch")
    c, r = api.open("/api/list-files", {"path": huge})
    first = r.read(1000)
    # Nobody reads it on, and nobody else waits for that.
    assert api.ok("/api/exists", path=huge)["exists"] is True
    answer = json.loads(first + r.read())
    c.close()
    assert answer["count"] == len({f["name"] for f in answer["files"]}) == 10_000


def test_a_deep_tree(api):
    api.sh(f"cd {W} && p=. && for i in $(seq 400); do p=$p/d; done && mkdir -p $p && touch $p/f")
    files = api.ok("/api/list-files", path=W, options={"recursive": True})["files"]
    assert len(files) == 401 and files[-1]["relativePath"] == "d/" * 400 + "f"
    assert api.ok("/api/read", path=f"{W}/" + "d/" * 400 + "f")["content"] == ""


# ---- relative paths


def test_relative_paths_begin_in_the_work_directory(api):
    api.ok("/api/write", path="rel/f", content="x", sessionId=NO_SESSION)
    assert api.sh(f"cat {W}/rel/f") == "x"
    answer = api.ok("/api/list-files", path="rel", sessionId=NO_SESSION)
    assert answer["path"] == "rel" and answer["files"][0]["absolutePath"] == f"{W}/rel/f"


def test_relative_paths_follow_the_session(api):
    api.sh(f"mkdir -p {W}/sub")
    api.daemon.execute(api.box, f"cd {W}/sub", sessionId="s")
    long = "x" * 200_000  # it is on disk before the session's name has come
    for name, content in (("short", "x"), ("long", long)):
        reply = api.call("/api/write", {"path": name, "content": content, "sessionId": "s"})
        assert reply.status == 200 and reply.json()["path"] == name
        assert api.ok("/api/read", path=name, sessionId="s", encoding="utf-8")["size"] == len(content)
        assert api.ok("/api/exists", path=f"{W}/sub/{name}")["exists"] is True
    api.ok("/api/rename", oldPath="short", newPath="../up", sessionId="s")
    assert api.ok("/api/exists", path="up", sessionId="another")["exists"] is True
    assert api.put("raw", b"1", headers={"X-Session-Id": "s"}).status == 200
    assert api.sh(f"ls {W} {W}/sub") == f"{W}:\nsub\nup\n\n{W}/sub:\nlong\nraw\n"
