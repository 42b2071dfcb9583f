"""Contents of files in a box: in and out, names, limits, and every way in which they fail."""

import base64
import hashlib
import http.client
import io
import json
import os
import pathlib
import re
import socket
import subprocess
import tarfile
import threading

import pytest
from atoll import box_path, wait_for
from boxapi import check_error, memory_kb

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


KINDS = [b'{"a": 1}', b"[1, 2]\n", b'{"a": 1}\n{"b": 2}\n', b"{no json", b'"text"', b'<?xml version="1.0"?><a/>', b"<!DOCTYPE html><html></html>",
         b"<svg xmlns='x'>", b"#!/bin/sh\necho", b"#!/usr/bin/env bash\n", b"#!/usr/bin/env python3\n", b"#!/usr/bin/perl -w\n",
         b"#!/usr/bin/env node\nx", b"#!/opt/other\n", b"<?php echo 1;", b"plain\n", "grüße\n".encode(), b"a\x1b[31mb", b"a\x01b", b"{\\rtf1",
         b"%PDF-1.4", b"%!PS-Adobe", b"RIFF\x10\0\0\0WEBPVP8 ", b"RIFF\x10\0\0\0WAVEfmt ", b"RIFF\x10\0\0\0AVI LIST", b"GIF89a",
         b"II*\0\x08\0\0\0", b"fLaC\0\0\0\x22", b"\0\0\0\x20ftypisom\0\0\2\0", b"7z\xbc\xaf\x27\x1c\0\4", b"Rar!\x1a\7\0", b"wOF2",
         b"BM\x10\0\0\0\0\0\0\0\x36\0\0\0\x28\0\0\0", b"PK\5\6" + bytes(18), b"\x1f\x8b\x08\0", tarfile.TarInfo("f").tobuf() + bytes(1024)]


def test_without_an_extension_it_is_what_file_says(api):
    for i, data in enumerate(KINDS):
        api.put(f"{W}/k{i}", data)
    said = api.sh(f"cd {W} && file --mime-type -b $(seq -f k%g 0 {len(KINDS) - 1})").split("\n")[:-1]
    assert [api.ok("/api/read", path=f"{W}/k{i}")["mimeType"] for i in range(len(KINDS))] == said


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


def test_attributes_are_kept(api):
    script = "import os; os.setxattr('{0}', 'user.note', b'mine'); os.setxattr('{0}', 'user.empty', b'')"
    shown = "import os; print({{n: os.getxattr('{0}', n) for n in sorted(os.listxattr('{0}'))}}, oct(os.stat('{0}').st_mode))"
    for path in (f"{W}/attributed", f"{W}/in place"):
        api.put(path, b"old")
        api.sh(f'chmod 640 "{path}" && python3 -c "{script.format(path)}"')
        before = api.sh(f'python3 -c "{shown.format(path)}"')
        if "in place" in path:  # more than fits into what is copied
            api.sh(f"""python3 -c "import os; os.setxattr('{path}', 'user.long', b'x' * 5000)" || true""")
            before = api.sh(f'python3 -c "{shown.format(path)}"')
        api.ok("/api/write", path=path, content="new")
        assert api.get(path) == b"new" and "mine" in before
        assert api.sh(f'python3 -c "{shown.format(path)}"') == before


def test_a_path_that_is_as_long_as_paths_can_be(api):
    path = f"{W}/" + ("d" * 99 + "/") * 40
    path += "f" * (4095 - len(path))
    api.ok("/api/write", path=path, content="far")
    assert api.ok("/api/read", path=path)["content"] == "far"
    api.ok("/api/write", path=path, content="again")
    assert api.ok("/api/read", path=path)["content"] == "again"
    api.fails("/api/write", "NAME_TOO_LONG", 400, path=path + "f", content="")


def test_a_directory_that_moves_under_an_upload(api):
    api.sh(f"mkdir {W}/before")
    s = api.daemon.connect(unix=True)
    s.settimeout(60)
    s.sendall(f"PUT {api.file_url(W + '/before/f')} HTTP/1.1\r\nHost: x\r\nContent-Length: 4\r\n\r\nab".encode())
    wait_for(lambda: api.sh(f"ls -A {W}/before"), "the upload has begun")
    api.sh(f"mv {W}/before {W}/after")
    s.sendall(b"cd")
    assert b" 200 " in s.recv(4096).split(b"\r\n")[0]
    s.close()
    assert api.sh(f"ls -A {W}/after; cat {W}/after/f") == "f\nabcd"
    s = api.daemon.connect(unix=True)
    s.sendall(f"PUT {api.file_url(W + '/after/g')} HTTP/1.1\r\nHost: x\r\nContent-Length: 4\r\n\r\nab".encode())
    wait_for(lambda: len(api.sh(f"ls -A {W}/after").split()) == 2, "the upload has begun")
    api.sh(f"mv {W}/after {W}/last")
    s.close()
    wait_for(lambda: api.sh(f"ls -A {W}/last") == "f\n", "nothing is left of it")


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
        api.sh(f"until [ -n \"$(find {W} -name '.atoll-tmp*')\" ]; do :; done", timeoutMs=60_000)
        s.close()
        api.sh(f"while [ -n \"$(find {W} -name '.atoll-tmp*')\" ]; do :; done", timeoutMs=60_000)
    assert api.get(f"{W}/f") == b"old"


LONG_ACL = """
import os, struct
entries = [(1, 6, 0xffffffff), *((2, 4, uid) for uid in range(1, 600)), (4, 4, 0xffffffff), (16, 6, 0xffffffff), (32, 4, 0xffffffff)]
open("/dev/shm/acl", "w").write("old")
os.setxattr("/dev/shm/acl", "system.posix_acl_access", struct.pack("<I", 2) + b"".join(struct.pack("<HHI", *e) for e in entries))
"""


def test_what_cannot_be_renamed_over_is_written_in_place(api):
    # More attributes than are copied (ATTRIBUTES_MAX): the file must stay the same one.
    inode = api.sh("python3 - && stat -c %i /dev/shm/acl", stdin=LONG_ACL)
    api.ok("/api/write", path="/dev/shm/acl", content="321")
    assert api.ok("/api/read", path="/dev/shm/acl")["content"] == "321"
    assert api.sh("stat -c %i /dev/shm/acl; rm /dev/shm/acl") == inode


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


@pytest.mark.parametrize("asked, status, body, said", [
    ("bytes=0-3", 206, b"0123", "bytes 0-3/10"), ("bytes=4-", 206, b"456789", "bytes 4-9/10"), ("bytes=-3", 206, b"789", "bytes 7-9/10"),
    ("bytes=8-99", 206, b"89", "bytes 8-9/10"), ("bytes=10-", 416, b"", "bytes */10"), ("bytes=0-1,4-5", 200, b"0123456789", None),
    ("lines=1-2", 200, b"0123456789", None), ("bytes=5-1", 200, b"0123456789", None),
])
def test_a_download_of_a_range(daemon, box, asked, status, body, said):
    path = box_path(box, "/api/file?path=/tmp/digits")
    assert daemon.request("PUT", path, b"0123456789").status == 200
    r = daemon.request("GET", path, headers={"Range": asked})
    assert (r.status, r.body, r.headers["Content-Range"]) == (status, body, said)
    if status != 416:
        assert r.headers["Accept-Ranges"] == "bytes" and int(r.headers["Content-Length"]) == len(body)
    r = daemon.request("GET", path, headers={"Range": asked, "If-Range": '"x"'})
    assert (r.status, r.body) == (200, b"0123456789")


def test_ranges_of_a_long_file(daemon, box):
    daemon.execute(box, "seq -w 0 999999 >/tmp/long")
    r = daemon.request("GET", box_path(box, "/api/file?path=/tmp/long"), headers={"Range": "bytes=700000-1399999"})
    assert (r.status, r.body) == (206, b"".join(b"%06d\n" % i for i in range(100000, 200000)))


# ---- a directory as a tar


def test_a_directory_as_a_tar(daemon, box, api):
    api.sh("mkdir -p '/tmp/tree/a b' && printf one > '/tmp/tree/a b/-f' && ln -s nowhere /tmp/tree/link && head -c 3000000 /dev/urandom > /tmp/tree/big")
    reply = daemon.request("GET", box_path(box, "/api/file?path=/tmp/tree&archive=tar"))
    assert reply.status == 200 and reply.headers["content-type"] == "application/x-tar"
    with tarfile.open(fileobj=io.BytesIO(reply.body)) as tar:
        assert tar.extractfile("tree/a b/-f").read() == b"one"
        assert tar.getmember("tree/link").linkname == "nowhere"
        assert hashlib.sha256(tar.extractfile("tree/big").read()).hexdigest() in api.sh("sha256sum /tmp/tree/big")


def test_what_is_no_archive(daemon, box, api):
    api.sh("echo x > /tmp/plain-file")
    check_error(daemon.request("GET", box_path(box, "/api/file?path=/tmp/plain-file&archive=tar")), "NOT_DIRECTORY", 400)
    check_error(daemon.request("GET", box_path(box, "/api/file?path=/tmp/gone&archive=tar")), "FILE_NOT_FOUND", 404)
    assert daemon.request("GET", box_path(box, "/api/file?path=/tmp/plain-file&archive=zip")).body == b"x\n"


def test_a_client_that_leaves_ends_the_tar(daemon, box, api):
    api.sh("mkdir -p /tmp/endless && head -c 30000000 /dev/zero > /tmp/endless/zeros")
    with socket.socket(socket.AF_UNIX) as s:
        s.settimeout(60)
        s.connect(daemon.socket)
        s.sendall(f"GET {box_path(box, '/api/file?path=/tmp/endless&archive=tar')} HTTP/1.1\r\nHost: localhost\r\n\r\n".encode())
        assert s.recv(1000).startswith(b"HTTP/1.1 200")
        assert api.sh("pgrep -x tar | wc -l").strip() == "1"
    wait_for(lambda: api.sh("pgrep -x tar | wc -l").strip() == "0", "tar has ended")
