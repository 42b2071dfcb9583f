"""Lists that are written in pieces while their objects change and their reader stalls, compared with what there is."""

import json
import socket

import pytest
from atoll import box_path

POOL = "it makes snapshots"
COUNT = 500


def unchunked(answer):
    head, _, rest = answer.partition(b"\r\n\r\n")
    assert b"Transfer-Encoding: chunked" in head, head
    text, pieces = b"", 0
    while size := int(rest.partition(b"\r\n")[0], 16):
        start = rest.index(b"\r\n") + 2
        text, rest, pieces = text + rest[start : start + size], rest[start + size + 2 :], pieces + 1
    return text, pieces


def read_late(daemon, path, meanwhile):
    """The answer for a reader that takes the head, and the rest only after `meanwhile`: the object, and in how many pieces it came."""
    with daemon.connect(unix=True) as s:
        s.sendall(f"GET {path} HTTP/1.1\r\nHost: localhost\r\n\r\n".encode())
        answer = s.recv(16)
        meanwhile()
        s.shutdown(socket.SHUT_WR)
        while piece := s.recv(65536):
            answer += piece
    text, pieces = unchunked(answer)
    return json.loads(text), pieces


def test_snapshots_that_go_while_they_are_listed(daemon):
    """Names that take six times their bytes in JSON: more than the sockets hold. What is deleted is left out, and nothing else."""
    if daemon.request("GET", "/v1/health").json()["host"]["pool"]["kind"] == "plain":
        pytest.skip("no pool: no snapshots")
    path, name = box_path("long-snaps", "/snapshots"), "\x01" * 95 + "{:05}"
    assert daemon.request("PUT", box_path("long-snaps"), {}).status == 201
    try:
        ids = []
        for i in range(COUNT):
            reply = daemon.request("POST", path, {"name": name.format(i)})
            assert reply.status == 201, reply
            ids.append(reply.json()["id"])

        def delete():
            for i in ids[-20:]:
                assert daemon.request("DELETE", f"{path}/{i}").status == 204

        listed, pieces = read_late(daemon, path, delete)
        assert pieces > 10
        left = COUNT - 20  # and some of the others, which were on their way already
        seen = [s["id"] for s in listed["snapshots"]]
        assert left <= len(seen) < COUNT and seen[:left] == ids[:left] and set(seen) <= set(ids)
        assert [s["name"] for s in listed["snapshots"]][:left] == [name.format(i) for i in range(left)]
        assert daemon.request("GET", path).json()["snapshots"] == listed["snapshots"][:left]
    finally:
        daemon.destroy("long-snaps")


def test_secrets_of_a_full_table(daemon):
    """Each has the most hosts that it may have: a megabyte of JSON, sorted by name whatever their order was."""
    hosts = [f"{i:03}.{'h' * 60}.example" for i in range(16)]
    names = [f"long-{(i * 7919) % 300:03}-{'n' * 50}" for i in range(300)]
    for name in names:
        assert daemon.request("PUT", f"/v1/secrets/{name}", {"value": "v", "hosts": hosts}).status == 201
    gone = sorted(names)[-5:]

    def delete():
        for name in gone:
            assert daemon.request("DELETE", f"/v1/secrets/{name}").status == 200
    try:
        listed, pieces = read_late(daemon, "/v1/secrets", delete)
        assert pieces > 10
        assert [s["name"] for s in listed["secrets"]] == sorted(names)[:-5]
        assert all(s["hosts"] == hosts for s in listed["secrets"])
    finally:
        for name in names:
            daemon.request("DELETE", f"/v1/secrets/{name}")
