"""/v1/sandbox/…: upstream's bridge, its shapes and statuses; and the two example clients."""

import base64
import contextlib
import io
import json
import os
import re
import subprocess
import sys
import tarfile

import pytest
from atoll import ROOT, wait_for

EXAMPLES = ROOT / "examples" / "bridge"
LIMIT = 32 * 1024 * 1024


@pytest.fixture
def bid(daemon):
    """A sandbox of the bridge."""
    name = daemon.request("POST", "/v1/sandbox").json()["id"]
    yield name
    assert daemon.request("DELETE", f"/v1/sandbox/{name}").status == 204


def call(daemon, method, path, body=None, session=None, **options):
    headers = {"Session-Id": session} if session else {}
    return daemon.request(method, f"/v1/sandbox/{path}", body, headers=headers, **options)


def refused(reply, status, code, words=""):
    assert reply.status == status, reply
    error = reply.json()
    assert set(error) == {"error", "code"} and error["code"] == code and words in error["error"], error


def run(daemon, bid, argv, session=None, **fields):
    """(exit code or error, stdout, stderr)"""
    reply = call(daemon, "POST", f"{bid}/exec", {"argv": argv, **fields}, session)
    assert reply.status == 200 and reply.headers["Content-Type"] == "text/event-stream", reply
    out, end = {"stdout": b"", "stderr": b""}, None
    for block in reply.body.decode().strip("\n").split("\n\n"):
        event, data = re.fullmatch(r"event: (\w+)\ndata: (.*)", block).groups()
        assert end is None
        if event in out:
            out[event] += base64.b64decode(data, validate=True)
        else:
            end = json.loads(data)
            assert (set(end), event) in (({"exit_code"}, "exit"), ({"error", "code"}, "error"))
    return end.get("exit_code", end.get("code")), out["stdout"], out["stderr"]


def test_an_id_is_26_letters_and_nothing_is_made_yet(daemon):
    first, second = (daemon.request("POST", "/v1/sandbox").json()["id"] for _ in range(2))
    assert re.fullmatch("[a-z2-7]{26}", first) and first != second
    assert daemon.inspect(first) is None


@pytest.mark.parametrize("name", ["UPPER", "a-b", "a1", "a" * 129, "a.b", "%61%2f"])
def test_an_id_that_is_none(daemon, name):
    refused(call(daemon, "GET", f"{name}/running"), 400, "invalid_request", "Invalid sandbox ID format")


@pytest.mark.parametrize("name", ["a" * 128, "admin", "root", "z" * 64])
def test_ids_that_are_no_sandbox_ids_work_too(daemon, name):
    try:
        assert run(daemon, name, ["sh", "-c", "echo $0", "hi"]) == (0, b"hi\n", b"")
        assert call(daemon, "GET", f"{name}/running").json() == {"running": True}
    finally:
        assert call(daemon, "DELETE", name).status == 204


def test_the_token_is_needed(daemon):
    for method, path in (("POST", "/v1/sandbox"), ("GET", "/v1/sandbox/abc/running"), ("GET", "/v1/pool/stats"), ("GET", "/v1/openapi.json")):
        reply = daemon.request(method, path, unix=False, token=False)
        assert (reply.status, reply.json()) == (401, {"error": "Unauthorized", "code": "unauthorized"})
    assert daemon.request("GET", "/health", unix=False, token=False).json() == {"ok": True}
    assert daemon.request("GET", f"/v1/openapi.json?token={daemon.token}", unix=False, token=False).status == 200
    assert daemon.request("GET", f"/v1/pool/stats?token={daemon.token}", unix=False, token=False).status == 401
    assert b"openapi.json" in daemon.request("GET", "/v1/openapi").body


# ---- commands


@pytest.mark.parametrize("argv, result", [
    (["echo", "hi"], (0, b"hi\n", b"")),
    (["sh", "-c", "echo out; echo err >&2; exit 3"], (3, b"out\n", b"err\n")),
    (["printf", "%s|", "a b", "it's", "$HOME", "new\nline", "tab\t", "\\", "", "*", "ü"],
     (0, "a b|it's|$HOME|new\nline|tab\t|\\||*|ü|".encode(), b"")),
    (["sh", "-c", "printf '\\377\\000x'"], (0, b"\xff\x00x", b"")),
    (["kill", "-9", "$$"], (1, b"", None)),
    (["A=1"], (127, b"", None)),
    (["sh", "-c", "head -c 1000000 /dev/zero"], (0, bytes(1000000), b"")),
])
def test_commands(daemon, bid, argv, result):
    code, out, err = run(daemon, bid, argv)
    assert (code, out) == result[:2] and (result[2] is None or err == result[2]), err


def test_directory_and_time_limit(daemon, bid):
    assert run(daemon, bid, ["mkdir", "-p", "/workspace/sub"])[0] == 0
    assert run(daemon, bid, ["pwd"], cwd="/workspace/sub/../sub") == (0, b"/workspace/sub\n", b"")
    assert run(daemon, bid, ["pwd"], cwd="sub") == (0, b"/workspace/sub\n", b"")
    for cwd in ("/etc", "../etc", "/workspace/../etc", "/workspacex"):
        refused(call(daemon, "POST", f"{bid}/exec", {"argv": ["pwd"], "cwd": cwd}), 403, "invalid_request", "/workspace")
    assert run(daemon, bid, ["sleep", "60"], timeout_ms=100)[0] == 124
    assert run(daemon, bid, ["sleep", "60"], session="s", timeout_ms=100)[0] == "exec_error"


@pytest.mark.parametrize("body", [b"{", b"", b"[]", {"argv": []}, {"argv": "ls"}, {"argv": [1]}, {"argv": ["a\0b"]}, {}])
def test_bad_commands(daemon, bid, body):
    refused(call(daemon, "POST", f"{bid}/exec", body), 400, "invalid_request")


def test_calls_share_a_shell_only_in_a_session(daemon, bid):
    assert call(daemon, "POST", f"{bid}/session", {"id": "s.1", "cwd": "/tmp", "env": {"A": "1"}}).json() == {"id": "s.1"}
    assert run(daemon, bid, ["sh", "-c", "echo $A; pwd"], session="s.1") == (0, b"1\n/tmp\n", b"")
    assert run(daemon, bid, ["sh", "-c", "echo -$A-"]) == (0, b"--\n", b"")
    refused(call(daemon, "POST", f"{bid}/session", {"id": "s.1"}), 502, "session_error", "already exists")
    assert re.fullmatch(r"session_\d+_[0-9a-f]{12}", call(daemon, "POST", f"{bid}/session").json()["id"])
    gone = call(daemon, "DELETE", f"{bid}/session/s.1")
    assert gone.status == 200 and set(gone.json()) == {"success", "sessionId", "timestamp"} and gone.json()["sessionId"] == "s.1"
    refused(call(daemon, "DELETE", f"{bid}/session/s.1"), 502, "session_error", "not found")
    empty = daemon.request("POST", f"/v1/sandbox/{bid}/exec", {"argv": ["true"]}, headers={"Session-Id": ""})
    assert empty.status == 200, empty
    for bad in ("a b", "..", "a/b", "x" * 129):
        refused(call(daemon, "POST", f"{bid}/exec", {"argv": ["true"]}, session=bad), 400, "invalid_request", "session ID")


# ---- files


def test_files(daemon, bid):
    data = os.urandom(300_000)
    refused(call(daemon, "GET", f"{bid}/file/workspace/a/b"), 404, "workspace_read_not_found", "File not found: /workspace/a/b")
    assert call(daemon, "PUT", f"{bid}/file/workspace/a/b%20c", data).json() == {"ok": True}
    reply = call(daemon, "GET", f"{bid}/file/workspace/./a/x/../b%20c")
    assert (reply.status, reply.headers["Content-Type"], reply.body) == (200, "application/octet-stream", data)
    assert call(daemon, "PUT", f"{bid}/file/workspace/empty", b"").json() == {"ok": True}
    assert call(daemon, "GET", f"{bid}/file/workspace/empty").body == b""
    for path in ("etc/passwd", "workspace/../etc/passwd", "workspacex", "workspace/%2e%2e/etc/passwd"):
        refused(call(daemon, "GET", f"{bid}/file/{path}"), 403, "invalid_request", "within /workspace")
        refused(call(daemon, "PUT", f"{bid}/file/{path}", b"x"), 403, "invalid_request", "within /workspace")
    refused(call(daemon, "GET", f"{bid}/file/"), 400, "invalid_request", "empty")
    refused(call(daemon, "GET", f"{bid}/file/workspace/empty/x"), 404, "workspace_read_not_found")
    refused(call(daemon, "PUT", f"{bid}/file/workspace", b"x"), 502, "workspace_archive_write_error", "write failed: ")


def upload(daemon, head, size):
    """Sends a body until the daemon wants no more of it; the status and the body of the answer."""
    with daemon.connect(unix=True) as sock:
        sock.sendall(head.encode())
        with contextlib.suppress(BrokenPipeError, ConnectionResetError):
            for _ in range(size // 65536 + 1):
                sock.sendall(bytes(65536))
        with sock.makefile("rb") as f:
            status = int(f.readline().split()[1])
            length = 0
            while (line := f.readline().strip()):
                if line.lower().startswith(b"content-length:"):
                    length = int(line.split(b":")[1])
            return status, f.read(length)


def test_the_largest_file_and_one_byte_more(daemon, bid):
    assert call(daemon, "PUT", f"{bid}/file/workspace/f", bytes(LIMIT)).json() == {"ok": True}
    for head in (f"Content-Length: {LIMIT + 1}\r\n\r\n", "Transfer-Encoding: chunked\r\n\r\n" + f"{LIMIT + 1:x}\r\n"):
        status, answer = upload(daemon, f"PUT /v1/sandbox/{bid}/file/workspace/f2 HTTP/1.1\r\nHost: x\r\n{head}", LIMIT + 1)
        assert status == 413 and json.loads(answer)["code"] == "payload_too_large", answer
    refused(call(daemon, "GET", f"{bid}/file/workspace/f2"), 404, "workspace_read_not_found")


def test_archives(daemon, bid):
    run(daemon, bid, ["sh", "-c", "cd /workspace; mkdir -p d .venv; echo 1 >d/f; echo 2 >.venv/g; echo 3 >'x y'"])
    reply = call(daemon, "POST", f"{bid}/persist?excludes=.venv,x%20y,./none")
    assert (reply.status, reply.headers["Content-Type"]) == (200, "application/octet-stream")
    with tarfile.open(fileobj=io.BytesIO(reply.body)) as tar:
        assert sorted(tar.getnames()) == [".", "./d", "./d/f"]
    refused(call(daemon, "POST", f"{bid}/persist?excludes=a/../b"), 400, "invalid_request", "..")
    run(daemon, bid, ["sh", "-c", "rm -rf /workspace"])
    assert call(daemon, "POST", f"{bid}/hydrate", reply.body).json() == {"ok": True}
    assert run(daemon, bid, ["cat", "/workspace/d/f"]) == (0, b"1\n", b"")
    refused(call(daemon, "POST", f"{bid}/hydrate", b""), 400, "invalid_request", "Empty")
    refused(call(daemon, "POST", f"{bid}/hydrate", b"no archive"), 502, "workspace_archive_write_error", "tar failed (exit 2)")
    status, answer = upload(daemon, f"POST /v1/sandbox/{bid}/hydrate HTTP/1.1\r\nHost: x\r\nContent-Length: {LIMIT + 1}\r\n\r\n", LIMIT + 1)
    assert status == 400 and "too large" in json.loads(answer)["error"], answer
    assert run(daemon, bid, ["sh", "-c", "ls /tmp/sandbox-* 2>/dev/null | wc -l"])[1] == b"0\n"


def test_an_archive_whose_client_leaves_is_gone(daemon, bid):
    found = "ls /tmp/sandbox-persist-* 2>/dev/null; pgrep -x tar"
    daemon.execute(bid, "truncate -s 2G /workspace/f")
    with daemon.connect(unix=True) as sock:
        sock.sendall(f"POST /v1/sandbox/{bid}/persist HTTP/1.1\r\nHost: x\r\nContent-Length: 0\r\n\r\n".encode())
        wait_for(lambda: "sandbox-persist" in daemon.execute(bid, found)["stdout"], "the archive is being made")
    wait_for(lambda: daemon.execute(bid, found)["stdout"] == "", "neither the archive nor its tar is left")


def test_an_archive_that_cannot_be_made(daemon, bid):
    run(daemon, bid, ["sh", "-c", "rm -rf /workspace; echo >/workspace"])
    refused(call(daemon, "POST", f"{bid}/persist"), 502, "workspace_archive_read_error", "tar failed (exit 2): ")
    assert run(daemon, bid, ["sh", "-c", "ls /tmp/sandbox-* 2>/dev/null | wc -l"])[1] == b"0\n"


# ---- the rest


def test_a_terminal(daemon, bid):
    refused(call(daemon, "GET", f"{bid}/pty"), 400, "invalid_request", "WebSocket upgrade required")
    ws = daemon.websocket(f"/v1/sandbox/{bid}/pty?cols=100&rows=30&session=t")
    ws.send(b"stty size; echo $((6*7))\n")
    seen = b""
    while b"30 100\r\n42\r\n" not in seen:
        message = ws.receive()
        seen += message if isinstance(message, bytes) else b""
    ws.close()


def test_a_tunnel(daemon, bid):
    name = f"app-{bid}"
    reply = call(daemon, "POST", f"{bid}/tunnel/8080", {"name": name})
    tunnel = reply.json()
    assert reply.status == 200 and (tunnel["port"], tunnel["name"]) == (8080, name), reply
    assert set(tunnel) == {"id", "port", "url", "hostname", "createdAt", "name"} and tunnel["hostname"] == f"{name}.localhost"
    assert call(daemon, "POST", f"{bid}/tunnel/8080", {"name": name}).json() == tunnel
    assert daemon.request("GET", f"/v1/sandboxes/{bid}/tunnels").json()["tunnels"] == [tunnel]
    refused(call(daemon, "POST", f"{bid}/tunnel/8080", {"name": f"b-{bid}"}), 502, "tunnel_error", "tunnel failed: ")
    other = call(daemon, "POST", f"{bid}/tunnel/8081").json()
    assert set(other) == set(tunnel) - {"name"} and bid not in other["hostname"]
    for _ in range(2):
        assert call(daemon, "DELETE", f"{bid}/tunnel/8080").status == 204
    assert [t["port"] for t in daemon.request("GET", f"/v1/sandboxes/{bid}/tunnels").json()["tunnels"]] == [8081]
    for port in ("80", "3000", "70000", "x"):
        refused(call(daemon, "POST", f"{bid}/tunnel/{port}"), 400, "invalid_request", "Invalid port")
    for bad in ("UPPER", "a b", "-a", "a.b", "x" * 64, ""):
        refused(call(daemon, "POST", f"{bid}/tunnel/8082", {"name": bad}), 400, "invalid_request")
    refused(call(daemon, "POST", f"{bid}/tunnel/8082", {"name": 5}), 400, "invalid_request", "name must be a string")
    refused(call(daemon, "POST", f"{bid}/tunnel/8082", b"{"), 400, "invalid_request", "JSON")


def test_mounts_are_checked(daemon, bid):
    def wrong(words, **body):
        refused(call(daemon, "POST", f"{bid}/mount", {"mountPath": "/mnt", "bucket": "data", **body}), 400, "invalid_request", words)

    there = {"endpoint": "https://s3.example"}
    wrong("bucket must be a non-empty string", bucket="", options=there)
    wrong("mountPath must be a non-empty string", mountPath="", options=there)
    wrong("mountPath must be a non-empty string", mountPath="/a\0b", options=there)
    wrong("longer than 4096", mountPath="/" + "a" * 4096, options=there)
    wrong("options must be an object", options=[])
    wrong("options.endpoint must be a string", options={"endpoint": 5})
    wrong("binding must be a string", options={}, binding=5)
    wrong("binding must be a non-empty string", options={}, binding="")
    wrong("binding must be a non-empty string for R2", options={})
    wrong("not both", options=there, binding="B")
    for field, value in (("s3fsOptions", ["a", 1]), ("s3fsOptions", "a"), ("readOnly", "yes"), ("prefix", 1), ("credentialProxy", 1),
                         ("credentials", {"accessKeyId": "a"})):
        wrong(f"options.{field} must", options={**there, field: value})
    refused(call(daemon, "POST", f"{bid}/mount", b"{"), 400, "invalid_request", "Invalid JSON body")
    refused(call(daemon, "POST", f"{bid}/mount", {"mountPath": "/mnt", "options": there}), 400, "invalid_request", "for remote mounts")
    refused(call(daemon, "POST", f"{bid}/mount", {"mountPath": "/mnt", "binding": "B", "options": {}}), 502, "mount_error", "options.endpoint")
    refused(call(daemon, "POST", f"{bid}/unmount", {"mountPath": "/mnt/.."}), 400, "invalid_request", "filesystem root")


def test_buckets_are_checked_and_refused(daemon, bid):
    refused(call(daemon, "POST", f"{bid}/mount", {"mountPath": "rel", "options": {}}), 400, "invalid_request", "absolute")
    refused(call(daemon, "POST", f"{bid}/mount", {"mountPath": "/mnt"}), 400, "invalid_request", "options")
    refused(call(daemon, "POST", f"{bid}/unmount", {}), 400, "invalid_request", "mountPath")
    refused(call(daemon, "POST", f"{bid}/unmount", {"mountPath": "/mnt"}), 502, "unmount_error")


def test_the_pool_and_unknown_paths(daemon, bid):
    assert call(daemon, "GET", f"{bid}/running").json() == {"running": True}
    stats = daemon.request("GET", "/v1/pool/stats").json()
    assert set(stats) == {"warm", "assigned", "total", "config", "maxInstances"}
    assert stats["assigned"] >= 1 and stats["total"] == stats["warm"] + stats["assigned"] and stats["maxInstances"] is None
    assert stats["config"] == {"warmTarget": 0, "refreshInterval": 10000, "maxInstances": 0, "scaleBatchSize": 5}
    for path in ("prime", "shutdown-prewarmed"):
        assert daemon.request("POST", f"/v1/pool/{path}").json() == {"ok": True}
    refused(call(daemon, "GET", f"{bid}/nothing"), 404, "invalid_request")
    refused(call(daemon, "GET", f"{bid}/exec"), 405, "invalid_request")
    assert call(daemon, "DELETE", "neverused").status == 204


def test_a_box_is_the_same_sandbox_on_both_sides(daemon, bid):
    run(daemon, bid, ["sh", "-c", "echo 1 >/workspace/f"])
    assert daemon.execute(bid, "cat /workspace/f")["stdout"] == "1\n"
    assert daemon.request("DELETE", f"/v1/sandboxes/{bid}").status == 204
    refused(call(daemon, "GET", f"{bid}/file/workspace/f"), 404, "workspace_read_not_found")


# ---- the examples


def environment(daemon):
    return {"PATH": os.environ["PATH"], "ATOLL_URL": f"http://{daemon.address}", "ATOLL_TOKEN": daemon.token}


def shell(daemon, *arguments, data=b"", **env):
    return subprocess.run([EXAMPLES / "sandbox.sh", *arguments], input=data, env={**environment(daemon), **env}, capture_output=True, check=False)


def test_the_client_in_shell(daemon):
    box = shell(daemon, "new").stdout.decode().strip()
    try:
        r = shell(daemon, box, "exec", "sh", "-c", "echo out; echo err >&2; exit 3")
        assert (r.returncode, r.stdout, r.stderr) == (3, b"out\n", b"err\n")
        assert shell(daemon, box, "put", "workspace/f", data=b"data").returncode == 0
        assert shell(daemon, box, "get", "workspace/f").stdout == b"data"
        archive = shell(daemon, box, "save").stdout
        assert shell(daemon, box, "exec", "rm", "/workspace/f").returncode == 0
        assert shell(daemon, box, "load", data=archive).returncode == 0
        assert shell(daemon, box, "get", "workspace/f").stdout == b"data"
        assert shell(daemon, box, "get", "workspace/none").returncode != 0
    finally:
        assert shell(daemon, box, "rm").returncode == 0


def test_the_client_in_python(daemon):
    r = subprocess.run([sys.executable, EXAMPLES / "sandbox.py"], env=environment(daemon), capture_output=True, check=False)
    assert (r.returncode, r.stdout) == (0, b"42\n"), r


def test_the_record_of_changes_names_the_client(daemon, bid):
    """A door acts as its caller: not as the daemon's own socket."""
    token = daemon.request("POST", "/v1/tokens", {"name": f"br-{bid[:8]}"}).json()["token"]
    headers = {"Authorization": f"Bearer {token}"}
    assert daemon.request("GET", f"/v1/sandbox/{bid}/running", headers=headers, unix=False, token=False).status == 200
    assert daemon.request("DELETE", f"/v1/sandbox/{bid}", headers=headers, unix=False, token=False).status == 204
    (record,) = [r for r in daemon.request("GET", "/v1/audit").json()["records"] if r.get("sandbox") == bid]
    assert {k: record.get(k) for k in ("by", "door", "token", "method", "route", "status", "address")} == {
        "by": "token", "door": "bridge", "token": f"br-{bid[:8]}", "method": "DELETE", "route": "/v1/sandboxes/{id}", "status": 204,
        "address": "127.0.0.1"}
