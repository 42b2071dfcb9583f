"""Files in a box: contents in and out, names, directories, lists, and every way in which they fail."""

import base64
import hashlib
import http.client
import json
import os
import pathlib
import re
import subprocess
import threading

import pytest
from boxapi import ISO, NO_SESSION, check_error, memory_kb

W = "/workspace"
MIB = 1 << 20


def post(api, route, text):
    """A body byte for byte, for JSON that no library writes."""
    return api.call(route, text if isinstance(text, bytes) else text.encode())


def temporaries(api, directory=W):
    return api.sh(f"find {directory} -name '.atoll-tmp*'")


# ---- write and read


def test_text(api):
    answer = api.ok("/api/write", path=f"{W}/a/b/c.txt", content="grüße\n", sessionId="s")
    assert answer["path"] == f"{W}/a/b/c.txt"
    answer = api.ok("/api/read", path=f"{W}/a/b/c.txt", sessionId="s")
    assert {k: answer[k] for k in ("path", "content", "encoding", "isBinary", "mimeType", "size")} == {
        "path": f"{W}/a/b/c.txt", "content": "grüße\n", "encoding": "utf-8", "isBinary": False,
        "mimeType": "text/plain", "size": 8}


def test_binary_is_base64_both_ways(api):
    data = bytes(range(256)) * 5
    api.ok("/api/write", path=f"{W}/x.png", content=base64.b64encode(data).decode(), encoding="base64")
    answer = api.ok("/api/read", path=f"{W}/x.png")
    assert (answer["encoding"], answer["isBinary"], answer["mimeType"], answer["size"]) == (
        "base64", True, "image/png", len(data))
    assert base64.b64decode(answer["content"]) == data
    assert api.get(f"{W}/x.png") == data


def test_the_encoding_can_be_asked_for(api):
    api.put(f"{W}/a.txt", "ä".encode())
    assert api.ok("/api/read", path=f"{W}/a.txt", encoding="base64")["content"] == "w6Q="
    api.put(f"{W}/b.bin", b"a\xffb\x00c")
    for encoding in ("utf-8", "utf8"):
        answer = api.ok("/api/read", path=f"{W}/b.bin", encoding=encoding)
        assert answer["content"] == "a\ufffdb\0c" and answer["isBinary"] is True and answer["size"] == 5
    for route, body in (("/api/read", {}), ("/api/write", {"content": ""})):
        api.invalid(route, "encoding", path=f"{W}/a.txt", encoding="latin-1", **body)
    assert api.get(f"{W}/a.txt") == "ä".encode()


@pytest.mark.parametrize("name, data, mime, binary", [
    ("a.json", b"{}", "application/json", False),
    ("a.svg", b"<svg/>", "image/svg+xml", False),
    ("a.tar.gz", b"x", "application/gzip", True),
    ("A.PDF", b"x", "application/pdf", True),
    ("noext", b"plain words\n", "text/plain", False),
    ("script", b"#!/bin/sh\n", "text/x-shellscript", False),
    ("png", b"\x89PNG\r\n\x1a\n", "image/png", True),
    ("bytes", b"\x00\x01\x02", "application/octet-stream", True),
    ("latin", b"gr\xfc\xdfe", "application/octet-stream", True),
    ("empty", b"", "inode/x-empty", False),
    ("cut", b"a" * 4095 + "ä".encode(), "text/plain", False),
])
def test_the_kind_of_a_file(api, name, data, mime, binary):
    api.put(f"{W}/{name}", data)
    answer = api.ok("/api/read", path=f"{W}/{name}")
    assert (answer["mimeType"], answer["isBinary"]) == (mime, binary)
    assert answer["encoding"] == ("base64" if binary else "utf-8")


@pytest.mark.parametrize("content", ["", "x", "é" * 40_000, "a\\\"\n\t\0\u2028😀" * 9_000], ids=["empty", "one", "long", "escaped"])
@pytest.mark.parametrize("order", ["path content sessionId encoding", "encoding sessionId content path",
                                   "content path", "path encoding content", "content encoding path"])
@pytest.mark.parametrize("encoding", ["utf-8", "base64"])
def test_members_in_any_order(api, content, order, encoding):
    body = {"path": f"{W}/f", "sessionId": "s", "encoding": encoding,
            "content": content if encoding == "utf-8" else base64.b64encode(content.encode()).decode()}
    names = order.split() + (["encoding"] if encoding == "base64" and "encoding" not in order else [])
    reply = post(api, "/api/write", json.dumps({n: body[n] for n in names}))
    assert reply.status == 200, reply
    assert api.get(f"{W}/f") == content.encode()
    assert not temporaries(api)


@pytest.mark.parametrize("text, code", [
    ("", "INVALID_JSON"),
    ("[]", "INVALID_JSON"),
    ("7", "INVALID_JSON"),
    ('"path"', "INVALID_JSON"),
    ('{"path":"/workspace/f","content":"x"', "INVALID_JSON"),
    ('{"path":"/workspace/f","content":"x"}}', "INVALID_JSON"),
    ('{"path":"/workspace/f","content":"x","content":"y"}', "INVALID_JSON"),
    ('{"path":null,"path":"/workspace/f","content":"x"}', "INVALID_JSON"),
    (b'{"path":"/workspace/f","content":"\xff"}', "INVALID_JSON"),
    ('{"path":"/workspace/f","content":"\\ud800"}', "INVALID_JSON"),
    ('{"path":"/workspace/f","else":' + "[" * 100 + "}", "INVALID_JSON"),
], ids=range(11))
def test_bodies_that_are_no_request(api, text, code):
    check_error(post(api, "/api/write", text), code, 400)
    assert api.sh(f"ls {W}") == ""


@pytest.mark.parametrize("text, field", [
    ("{}", "path"),
    ('{"path":"/workspace/f"}', "content"),
    ('{"path":"/workspace/f","content":null}', "content"),
    ('{"path":7,"content":"x"}', "path"),
    ('{"path":"/workspace/f","content":["x"]}', "content"),
    ('{"path":"/workspace/f","content":{"path":"x"}}', "content"),
    ('{"path":"/workspace/f","content":true}', "content"),
    ('{"path":"","content":"x"}', "path"),
    ('{"path":"/workspace/\\u0000f","content":"x"}', "path"),
    ('{"path":"/%s","content":"x"}' % ("y/" * 2100), "path"),
    ('{"path":"/workspace/f","content":"x","encoding":"%s"}' % ("u" * 100), "encoding"),
    ('{"path":"/workspace/f","content":"x","sessionId":"%s"}' % ("u" * 300), "sessionId"),
], ids=range(12))
def test_fields_that_are_wrong(api, text, field):
    error = check_error(post(api, "/api/write", text), "VALIDATION_FAILED", 400)
    assert error["context"]["validationErrors"][0]["field"] == field
    assert api.sh(f"ls {W}") == ""


def test_keys_that_only_begin_like_ours(api):
    other = '"path\\n%s":"/workspace/wrong",' % ("x" * 200)
    nested = '"else":{"path":"/workspace/wrong","content":["a",{"path":1}]},'
    reply = post(api, "/api/write", "{" + other + nested + '"path":"/workspace/f","content":"x"}')
    assert reply.status == 200 and api.sh(f"ls {W}") == "f\n"


@pytest.mark.parametrize("content", ["!!!", "YQ", "YQ=", "YQ==YQ==", "Y=Q=", "YQ==\n", "YW Jj", "YQ==" * 30_000], ids=range(8))
@pytest.mark.parametrize("first", [True, False])
def test_bad_base64(api, content, first):
    body = {"path": f"{W}/f", "content": content, "encoding": "base64"}
    if first:
        body = {"encoding": "base64", **body}
    error = api.fails("/api/write", "VALIDATION_FAILED", 400, **body)
    assert error["context"]["validationErrors"][0]["code"] == "INVALID_BASE64"
    assert api.sh(f"ls -A {W}") == ""


@pytest.mark.parametrize("route", ["/api/read", "/api/read/stream", "/api/delete", "/api/mkdir", "/api/exists", "/api/list-files"])
def test_paths_are_checked_everywhere(api, route):
    for path in ("", "a\0b", "x" * 4097, 7, None, ["/"]):
        api.invalid(route, "path", path=path)
    api.invalid(route, "path")
    api.invalid(route, "sessionId", path=W, sessionId=7)


def test_empty_files_by_the_raw_route(api):
    assert api.put(f"{W}/empty", b"").status == 200
    assert api.ok("/api/read", path=f"{W}/empty")["content"] == "" and api.get(f"{W}/empty") == b""
    check_error(api.daemon.request("PUT", api.path("/api/file"), b"x"), "VALIDATION_FAILED", 400)
    head = api.daemon.request("HEAD", api.file_url("/etc/passwd"))
    assert head.status == 200 and int(head.headers["Content-Length"]) == len(api.get("/etc/passwd")) and not head.body


# ---- odd names


@pytest.mark.parametrize("name", ["sp ace", "qu'o\"te", "new\nline", "tab\t", "ünï☃", "-dash", "--help", "x" * 255, "$HOME",
                                  "*", "~", "a;b|c&d", "back\\slash", "%41", "...", ".hidden", "\x7f\x01"], ids=range(17))
def test_odd_names(api, name):
    path = f"{W}/odd dir/{name}"
    api.ok("/api/write", path=path, content=name)
    assert api.ok("/api/read", path=path, encoding="utf-8")["content"] == name
    assert api.get(path) == name.encode()
    files = api.ok("/api/list-files", path=f"{W}/odd dir", options={"includeHidden": True})["files"]
    assert [f["name"] for f in files] == [name]
    assert api.ok("/api/exists", path=path)["exists"] is True
    api.ok("/api/rename", oldPath=path, newPath=path[:-1] + "2")
    api.ok("/api/move", sourcePath=path[:-1] + "2", destinationPath=f"/dev/shm/{name}")
    api.ok("/api/delete", path=f"/dev/shm/{name}")
    assert api.ok("/api/exists", path=f"/dev/shm/{name}")["exists"] is False
    api.ok("/api/mkdir", path=path)
    assert api.ok("/api/read", path="/proc/self/comm")["size"] > 0


# ---- atomic writes


def test_mode_and_owner_are_kept(api):
    api.sh(f"cd {W} && echo old > f && chown 1000:1001 f && chmod 4751 f && echo old > g")
    for path in ("f", "g", "new"):
        api.ok("/api/write", path=f"{W}/{path}", content="new")
    assert api.sh(f"cd {W} && stat -c '%n %a %u:%g' f g new") == "f 4751 1000:1001\ng 644 0:0\nnew 644 0:0\n"


def test_links_are_written_through(api):
    api.sh(f"cd {W} && mkdir d && echo old > d/real && ln -s d/real l1 && ln -s l1 l2 && ln -s l4 l3 && ln -s d/later l4")
    api.ok("/api/write", path=f"{W}/l2", content="one")
    api.ok("/api/write", path=f"{W}/l3", content="two")
    assert api.sh(f"cd {W} && cat d/real d/later && find . -type l | sort | xargs") == "onetwo./l1 ./l2 ./l3 ./l4\n"


def test_a_reader_sees_the_old_or_the_new(api):
    size, rounds = 300_000, 12
    api.put(f"{W}/f", b"0" * size)

    def write(digit):
        for _ in range(rounds):
            assert api.put(f"{W}/f", digit * size).status == 200

    writers = [threading.Thread(target=write, args=(d,)) for d in (b"1", b"2", b"3")]
    for w in writers:
        w.start()
    while any(w.is_alive() for w in writers):
        seen = api.get(f"{W}/f")
        assert len(seen) == size and len(set(seen)) == 1
    for w in writers:
        w.join()
    assert not temporaries(api)


def test_a_client_that_goes_away_leaves_the_old(api):
    api.put(f"{W}/f", b"old")
    bodies = {"PUT " + api.file_url(f"{W}/f"): b"x" * 100_000,
              "POST " + api.path("/api/write"): b'{"path":"/workspace/f","content":"' + b"x" * 100_000}
    for line, data in bodies.items():
        s = api.daemon.connect(unix=True)
        s.sendall(f"{line} HTTP/1.1\r\nHost: x\r\nContent-Length: 1000000\r\n\r\n".encode() + data)
        wait = api.daemon.connect(unix=True)  # it has arrived once its temporary file is there
        wait.close()
        api.sh(f"until [ -n \"$(find {W} -name '.atoll-tmp*')\" ]; do :; done", timeoutMs=20_000)
        s.close()
        api.sh(f"while [ -n \"$(find {W} -name '.atoll-tmp*')\" ]; do :; done", timeoutMs=20_000)
    assert api.get(f"{W}/f") == b"old"


def test_what_cannot_be_renamed_over_is_written_in_place(api):
    # A file of /proc: nothing can be put beside it.
    pid = api.run("sleep 60 >/dev/null 2>&1 & echo $!")["stdout"].strip()
    api.ok("/api/write", path=f"/proc/{pid}/oom_score_adj", content="321")
    assert api.ok("/api/read", path=f"/proc/{pid}/oom_score_adj")["content"] == "321\n"
    api.sh(f"kill {pid}")


# ---- failures


@pytest.fixture
def full(api):
    """/dev/shm with 1 MiB left, and a file in it."""
    api.sh("echo old > /dev/shm/f && fallocate -l $(($(df --output=avail -B1 /dev/shm | tail -n1) - 1048576)) /dev/shm/fill")
    yield api
    api.sh("rm -f /dev/shm/fill")


def test_no_space(full):
    big = b"x" * (3 * MIB)
    error = check_error(full.put("/dev/shm/f", big), "NO_SPACE", 500)
    assert error["context"] == {"path": "/dev/shm/f", "operation": "file.write"} and error["operation"] == "file.write"
    for body in ({"path": "/dev/shm/f", "content": big.decode()}, {"content": big.decode(), "path": "/dev/shm/f"}):
        full.fails("/api/write", "NO_SPACE", 500, **body)
    full.sh(f"mkdir {W}/d && head -c 3M /dev/zero > {W}/d/big && echo small > {W}/d/small")
    full.fails("/api/move", "NO_SPACE", 500, sourcePath=f"{W}/d", destinationPath="/dev/shm/moved")
    assert full.sh(f"ls {W}/d; ls -A /dev/shm; cat /dev/shm/f") == "big\nsmall\nf\nfill\nold\n"


def test_targets_that_are_no_files(api):
    api.sh(f"cd {W} && mkdir dir && mkfifo fifo && ln -s loop loop && ln -s dir linkdir && echo x > file")
    api.sh(f"python3 -c 'import socket; socket.socket(socket.AF_UNIX).bind(\"{W}/sock\")'")
    expected = {f"{W}/dir": ("IS_DIRECTORY", 400), f"{W}/linkdir": ("IS_DIRECTORY", 400), "/": ("IS_DIRECTORY", 400),
                f"{W}/fifo": ("FILESYSTEM_ERROR", 500), f"{W}/sock": ("FILESYSTEM_ERROR", 500),
                "/dev/null": ("FILESYSTEM_ERROR", 500), "/dev/zero": ("FILESYSTEM_ERROR", 500),
                "/dev/ptmx": ("FILESYSTEM_ERROR", 500), "/dev/stdin": ("FILESYSTEM_ERROR", 500),
                f"{W}/loop": ("TOO_MANY_LINKS", 500), f"{W}/file/x": ("NOT_DIRECTORY", 400),
                f"{W}/" + "y" * 256: ("NAME_TOO_LONG", 400)}
    for path, (code, status) in expected.items():
        error = api.fails("/api/write", code, status, path=path, content="x")
        assert error["context"] == {"path": path, "operation": "file.write"}
        check_error(api.put(path, b"x"), code, status)
        error = api.fails("/api/read", code, status, path=path)
        assert error["context"] == {"path": path, "operation": "file.read"}
        events = api.events("/api/read/stream", path=path)
        assert [e["type"] for e in events] == ["error"] and events[0]["code"] == code
        check_error(api.daemon.request("GET", api.file_url(path)), code, status)
    assert not temporaries(api)


def test_where_nothing_may_be_written(api):
    api.fails("/api/write", "READ_ONLY", 403, path="/dev/new", content="x")
    api.fails("/api/write", "PERMISSION_DENIED", 403, path="/proc/sys/kernel/hostname", content="x")
    api.fails("/api/mkdir", "READ_ONLY", 403, path="/dev/new")
    api.fails("/api/delete", "READ_ONLY", 403, path="/dev/null")
    api.fails("/api/rename", "READ_ONLY", 403, oldPath="/dev/null", newPath="/dev/nix")
    api.fails("/api/delete", "PERMISSION_DENIED", 403, path="/proc/cpuinfo")
    api.fails("/api/mkdir", "FILE_NOT_FOUND", 404, path="/proc/new")


def set_file_limit(pid, soft):
    """From inside the box's user namespace: even the host's root may lack the capability outside of it."""
    subprocess.run(["nsenter", "--user", f"--target={pid}", "prlimit", f"--pid={pid}",
                    f"--nofile={soft}:"], check=True)


def test_too_many_files(api):
    agent = api.agent_pid()
    limits = pathlib.Path(f"/proc/{agent}/limits").read_text()
    before = re.search(r"Max open files +(\d+)", limits)[1]
    api.ok("/api/exists", path="/")  # its connection to the agent is kept, and used again
    set_file_limit(agent, 3)
    try:
        api.fails("/api/read", "TOO_MANY_FILES", 500, path="/etc/passwd")
    finally:
        set_file_limit(agent, before)
    api.ok("/api/read", path="/etc/passwd")


# ---- reading: limits and files that change


def test_the_limit_of_a_read(api):
    api.sh(f"cd {W} && head -c 32M /dev/zero | tr '\\0' a > text.txt && head -c 24M /dev/zero > bin")
    for name, size in (("text.txt", 32 * MIB), ("bin", 24 * MIB)):
        assert api.ok("/api/read", path=f"{W}/{name}")["size"] == size
        api.sh(f"printf a >> {W}/{name}")
        error = api.fails("/api/read", "FILE_TOO_LARGE", 413, path=f"{W}/{name}")
        actual = 32 * MIB + (1 if name == "text.txt" else 4)
        assert error["context"] == {"path": f"{W}/{name}", "operation": "file.read", "maxSize": 32 * MIB,
                                    "actualSize": actual}
    events = api.stream("/api/read/stream", path=f"{W}/bin")
    with events:
        assert next(iter(events))["size"] == 24 * MIB + 1


@pytest.mark.parametrize("path", ["/proc/cpuinfo", "/proc/self/status", "/proc/self/mountinfo", "/proc/self/environ"])
def test_files_that_the_kernel_makes_up(api, path):
    assert os.stat(path).st_size == 0
    answer = api.ok("/api/read", path=path, encoding="utf-8")
    assert answer["size"] == len(answer["content"].encode()) > 0
    assert len(api.get(path)) > 0
    events = api.events("/api/read/stream", path=path)
    assert events[0]["size"] == events[-1]["bytesRead"] > 0


def begun(api, route, body=None, method="POST"):
    c, r = api.open(route, body, method)
    return c, r, r.read(50_000)


def test_a_file_that_shrinks_while_it_is_read(api):
    api.sh(f"head -c 20M /dev/zero | tr '\\0' a > {W}/f.txt")
    c, r, first = begun(api, "/api/read", {"path": f"{W}/f.txt"})
    api.sh(f"truncate -s 8M {W}/f.txt")
    answer = json.loads(first + r.read())
    assert answer["size"] == len(answer["content"]) < 20 * MIB
    c.close()
    api.sh(f"truncate -s 20M {W}/f.txt")
    c, r, _ = begun(api, api.file_url(f"{W}/f.txt").removeprefix(api.path("")), method="GET")
    api.sh(f"truncate -s 8M {W}/f.txt")
    with pytest.raises(http.client.IncompleteRead):
        r.read()
    c.close()
    api.ok("/api/exists", path=W)


def test_a_file_that_grows_while_it_is_read(api):
    api.sh(f"head -c 20M /dev/zero | tr '\\0' a > {W}/f.txt")
    with api.stream("/api/read/stream", path=f"{W}/f.txt") as events:
        size = next(iter(events))["size"]
        api.sh(f"head -c 5M /dev/zero >> {W}/f.txt")
        rest = list(events)
    assert rest[-1]["bytesRead"] == size == 20 * MIB == sum(len(e["data"]) for e in rest[:-1])


# ---- the stream of a file


def test_a_text_is_streamed_whole_characters_at_a_time(api):
    content = "aä☃😀" * 40_000
    api.put(f"{W}/s.txt", content.encode())
    events = api.events("/api/read/stream", path=f"{W}/s.txt", sessionId="s")
    assert events[0] == {"type": "metadata", "mimeType": "text/plain", "size": len(content.encode()), "isBinary": False,
                         "encoding": "utf-8"}
    chunks = [e["data"] for e in events[1:-1]]
    assert all(e["type"] == "chunk" for e in events[1:-1]) and "".join(chunks) == content
    assert all(65_531 < len(c.encode()) <= 65_535 for c in chunks[:-1])
    assert events[-1] == {"type": "complete", "bytesRead": len(content.encode())}


def test_bytes_are_streamed_as_base64_that_joins(api):
    data = os.urandom(200_000)
    api.put(f"{W}/s.bin", data)
    events = api.events("/api/read/stream", path=f"{W}/s.bin")
    assert events[0]["encoding"] == "base64" and events[0]["isBinary"] is True
    chunks = [e["data"] for e in events[1:-1]]
    assert base64.b64decode("".join(chunks)) == data and len(base64.b64decode(chunks[0])) == 65_535
    api.put(f"{W}/empty", b"")
    assert [e["type"] for e in api.events("/api/read/stream", path=f"{W}/empty")] == ["metadata", "complete"]


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
        reply = post(api, "/api/write", json.dumps({"path": name, "content": content, "sessionId": "s"}))
        assert reply.status == 200 and reply.json()["path"] == name
        assert api.ok("/api/read", path=name, sessionId="s", encoding="utf-8")["size"] == len(content)
        assert api.ok("/api/exists", path=f"{W}/sub/{name}")["exists"] is True
    api.ok("/api/rename", oldPath="short", newPath="../up", sessionId="s")
    assert api.ok("/api/exists", path="up", sessionId="another")["exists"] is True
    assert api.put("raw", b"1", headers={"X-Session-Id": "s"}).status == 200
    assert api.sh(f"ls {W} {W}/sub") == f"{W}:\nsub\nup\n\n{W}/sub:\nlong\nraw\n"


# ---- length


def test_a_gigabyte_in_and_out_in_constant_memory(api):
    size, piece = 1_000_000_000, bytes(range(256)) * 4096
    agent = api.agent_pid()

    def pieces():
        left = size
        while left:
            yield piece[:left]
            left -= min(left, len(piece))

    c = http.client.HTTPConnection("localhost", timeout=60)
    c.sock = api.daemon.connect(unix=True, timeout=60)
    c.request("PUT", api.file_url(f"{W}/big"), pieces(), {"Content-Length": str(size)})
    assert c.getresponse().read() and api.sh(f"stat -c %s {W}/big") == f"{size}\n"
    c.close()
    assert memory_kb(agent) < 4096
    got, end = 0, hashlib.sha256()
    c, r = api.open(api.file_url(f"{W}/big").removeprefix(api.path("")), method="GET")
    view = memoryview(bytearray(MIB))
    while n := r.readinto(view):
        got += n
        if got > size - 4 * MIB:
            end.update(view[:n])
    c.close()
    assert got == size and memory_kb(agent) < 4096
    api.ok("/api/delete", path=f"{W}/big")


def test_a_long_json_text_in_constant_memory(api):
    agent = api.agent_pid()
    long, content = "0123456789abcdef" * (2 * MIB + 1), "0123456789abcdef" * (MIB // 2)
    for body in ({"path": f"{W}/f", "content": long}, {"content": content, "encoding": "base64", "path": f"{W}/f"},
                 {"path": f"{W}/f", "content": content, "encoding": "base64"}):
        content = body["content"]
        assert api.call("/api/write", body).status == 200
        wanted = content.encode() if "encoding" not in body else base64.b64decode(content)
        assert api.sh(f"sha256sum < {W}/f").split()[0] == hashlib.sha256(wanted).hexdigest()
    assert memory_kb(agent) < 4096
