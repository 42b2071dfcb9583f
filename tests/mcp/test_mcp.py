"""The Model Context Protocol: the official client (npm, pinned) against a real daemon, over HTTP and through `atoll mcp`;
and what no good client sends."""

import json
import os
import re
import subprocess
from pathlib import Path

import atoll as lib
import npmdir
import pytest

OWN_DAEMON = "it kills the daemon"
POOL = "limits of disk and snapshots come from it"

HERE = Path(__file__).resolve().parent
ZYGOTE = True  # contexts start as they do for users


def node(*args, **kwargs):
    return subprocess.run(["node", "run.mjs", *args], cwd=HERE, capture_output=True, text=True, check=False, **kwargs)


SCENARIOS = npmdir.scenarios(HERE, node)


@pytest.mark.skipif(not SCENARIOS, reason="npm is missing")
def test_there_are_scenarios():
    assert len(SCENARIOS) > 9


@pytest.mark.parametrize("kind", ["http", "stdio"])
@pytest.mark.parametrize("name", SCENARIOS)
def test_client(daemon, name, kind):
    env = {**os.environ, "ATOLL_URL": f"http://{daemon.address}", "ATOLL_TOKEN": daemon.token, "ATOLL_BIN": str(lib.BIN)}
    r = node(name, kind, env=env, timeout=150)
    assert r.returncode == 0, r.stdout + r.stderr


@pytest.mark.skipif(not SCENARIOS, reason="npm is missing")
def test_the_settings_of_the_documentation_work(daemon):
    """Each block of JSON in docs/mcp.md, with the address and the token of this daemon."""
    page = (lib.ROOT / "docs/mcp.md").read_text(encoding="utf-8")
    blocks = [json.loads(text) for text in re.findall(r"^```json\n(.*?)^```$", page, re.M | re.S)]
    servers = [server for block in blocks for server in (block.get("mcpServers") or block["servers"]).values()]
    assert [("command" in s, "url" in s) for s in servers] == [(True, False), (True, False), (False, True)]
    env = {**os.environ, "PATH": f"{lib.BIN}:{os.environ['PATH']}", "ATOLL_RUN": str(daemon.run), "ATOLL_DATA": str(daemon.data)}
    for server in servers:
        settings = json.dumps(server).replace("127.0.0.1:8700", daemon.address).replace("TOKEN", daemon.token)
        r = subprocess.run(["node", "settings.mjs", settings], cwd=HERE, env=env, capture_output=True, text=True, check=False, timeout=120)
        assert r.stdout == "42\n", r.stderr
    lib.wait_for(lambda: daemon.boxes() == [], "the end of their boxes")


HELLO = {"jsonrpc": "2.0", "id": 1, "method": "initialize", "params": {"protocolVersion": "2025-06-18"}}


def post(daemon, message, session=None, **kw):
    headers = {"Content-Type": "application/json", **({"Mcp-Session-Id": session} if session else {})}
    return daemon.request("POST", "/mcp", message, headers=headers, **kw)


def begin(daemon):
    reply = post(daemon, HELLO)
    assert reply.status == 200 and reply.json()["result"]["protocolVersion"] == "2025-06-18"
    return {k.lower(): v for k, v in dict(reply.headers).items()}["mcp-session-id"]


def end(daemon, session):
    assert daemon.request("DELETE", "/mcp", headers={"Mcp-Session-Id": session}).status == 200


def test_a_token_is_needed(daemon):
    assert post(daemon, HELLO, unix=False, token=False).status == 401


@pytest.mark.parametrize("message, code", [
    ("{", -32700),
    ("[]", -32600),
    ('[{"jsonrpc":"2.0","id":1,"method":"ping"}]', -32600),
    ('{"id":1,"method":"ping"}', -32600),
    ('{"jsonrpc":"2.0","id":{},"method":"ping"}', -32600),
    ('{"jsonrpc":"2.0","id":1}', -32600),
    ('{"jsonrpc":"2.0","id":1,"method":5}', -32600),
])
def test_what_is_no_message_is_refused(daemon, message, code):
    session = begin(daemon)
    reply = post(daemon, message, session)
    assert reply.status == 400 and reply.json()["error"]["code"] == code, reply
    end(daemon, session)


@pytest.mark.parametrize("method, params, code", [
    ("nonsense", {}, -32601),
    ("tools/call", {}, -32602),
    ("tools/call", {"name": "run_command", "arguments": []}, -32602),
    ("resources/read", {"uri": 5}, -32602),
    ("resources/read", {"uri": "atoll://%00/files/x"}, -32002),
    ("resources/read", {"uri": "atoll:///files/x"}, -32002),
    ("resources/read", {"uri": "atoll://" + "a" * 5000}, -32002),
])
def test_wrong_requests_get_an_error(daemon, method, params, code):
    session = begin(daemon)
    reply = post(daemon, {"jsonrpc": "2.0", "id": "x", "method": method, "params": params}, session).json()
    assert reply["id"] == "x" and reply["error"]["code"] == code, reply
    end(daemon, session)


def test_a_fork_without_arguments_is_one(daemon, box):
    pool = daemon.request("GET", "/v1/health").json()["host"]["pool"]
    if pool["kind"] == "plain":
        pytest.skip(f"no pool on this host: {pool['reason']}")
    daemon.request("PUT", lib.box_path(box), {})
    session = begin(daemon)
    made = []
    for arguments, n in (({}, 1), ({"count": 2}, 2), ({"ids": [box + "-x"]}, 1)):
        call = {"name": "fork_sandbox", "arguments": {"sandbox": box, **arguments}}
        reply = post(daemon, {"jsonrpc": "2.0", "id": 1, "method": "tools/call", "params": call}, session).json()
        assert not reply["result"].get("isError"), reply
        forks = [s["id"] for s in json.loads(reply["result"]["content"][0]["text"])["sandboxes"]]
        assert len(forks) == n
        made += forks
    for fork in made:
        daemon.destroy(fork)
    end(daemon, session)


def test_errors_are_in_the_words_of_tools(daemon, box):
    daemon.request("PUT", lib.box_path(box), {})
    session = begin(daemon)

    def fails(tool, **arguments):
        call = {"name": tool, "arguments": arguments}
        result = post(daemon, {"jsonrpc": "2.0", "id": 1, "method": "tools/call", "params": call}, session).json()["result"]
        assert result["isError"]
        return result["content"][0]["text"]
    assert fails("fork_sandbox", sandbox=box, name="x") == "fork_sandbox has no argument 'name'; it takes 'ids', 'count', 'sandbox'"
    assert fails("list_sandboxes", all=True) == "list_sandboxes has no argument 'all'; it takes none"
    assert "list_sandboxes shows all; create_sandbox makes one." in fails("snapshot_sandbox", sandbox="nobody-here")
    assert "Choose another id" in fails("fork_sandbox", sandbox=box, ids=[box])
    assert "list_processes shows all." in fails("stop_process", sandbox=box, process="none")
    end(daemon, session)


def test_sessions_are_needed_and_end(daemon):
    assert post(daemon, {"jsonrpc": "2.0", "id": 1, "method": "tools/list"}).status == 400
    assert post(daemon, HELLO, "nonsense").status == 404
    session = begin(daemon)
    assert post(daemon, {"jsonrpc": "2.0", "method": "notifications/initialized"}, session).status == 202
    assert post(daemon, {"jsonrpc": "2.0", "id": 1, "result": {}}, session).status == 202
    end(daemon, session)
    assert post(daemon, {"jsonrpc": "2.0", "id": 1, "method": "tools/list"}, session).status == 404
    assert daemon.request("DELETE", "/mcp").status == 400
    assert daemon.request("GET", "/mcp").status == 405


def test_a_session_outlives_the_daemon(daemon):
    session = begin(daemon)
    call = {"jsonrpc": "2.0", "id": 1, "method": "tools/call", "params": {"name": "run_command", "arguments": {"command": "echo 7 > /tmp/x; echo $HOSTNAME"}}}
    box = post(daemon, call, session).json()["result"]["content"][0]["text"].strip()
    lib.wait_for(lambda: box in daemon.boxes())
    daemon.kill_daemon()
    call["params"]["arguments"]["command"] = "cat /tmp/x"
    reply = lib.wait_for(lambda: post(daemon, call, session).json().get("result"), "an answer of the new daemon")
    assert reply["content"][0]["text"] == "7\n", reply
    end(daemon, session)
    lib.wait_for(lambda: box not in daemon.boxes(), "the end of its box")


def test_a_pipe_gets_all_its_answers(daemon):
    lines = [HELLO, {"jsonrpc": "2.0", "id": 2, "method": "tools/call", "params": {"name": "run_command", "arguments": {"command": "echo piped"}}}]
    text = "\n".join(json.dumps(m) for m in lines) + "\nnonsense"
    env = {**os.environ, "ATOLL_URL": f"http://{daemon.address}", "ATOLL_TOKEN": daemon.token}
    r = subprocess.run([lib.BIN / "atoll", "mcp"], input=text, env=env, capture_output=True, text=True, check=True, timeout=60)
    answers = {m["id"]: m for m in map(json.loads, r.stdout.splitlines())}
    assert answers[2]["result"]["content"][0]["text"] == "piped\n"
    assert answers[None]["error"]["code"] == -32700


def test_no_daemon_is_an_answer():
    env = {**os.environ, "ATOLL_URL": "http://127.0.0.1:1", "ATOLL_TOKEN": "x"}
    r = subprocess.run([lib.BIN / "atoll", "mcp"], input=json.dumps(HELLO), env=env, capture_output=True, text=True, check=False, timeout=60)
    assert "127.0.0.1:1" in json.loads(r.stdout)["error"]["message"]


def named(daemon, name):
    reply = daemon.request("POST", "/v1/tokens", {"name": name})
    assert reply.status == 201, reply
    return {"Authorization": f"Bearer {reply.json()['token']}"}


def over_tcp(daemon, message, headers):
    return daemon.request("POST", "/mcp", message, headers={"Content-Type": "application/json", **headers}, unix=False, token=False)


def test_a_session_belongs_to_its_token(daemon):
    """Its id alone, read in a log or a box, is worth nothing to the holder of another token. It ends with its token, whoever gets its name next."""
    ping = {"jsonrpc": "2.0", "id": 2, "method": "ping"}
    ann, bob = named(daemon, "ann"), named(daemon, "bob")
    reply = over_tcp(daemon, HELLO, ann)
    session = {"Mcp-Session-Id": {k.lower(): v for k, v in dict(reply.headers).items()}["mcp-session-id"]}
    own = {"Mcp-Session-Id": begin(daemon)}
    root = {"Authorization": f"Bearer {daemon.token}"}
    assert over_tcp(daemon, ping, {**ann, **session}).status == 200 and over_tcp(daemon, ping, {**root, **own}).status == 200
    for headers in ({**bob, **session}, {**root, **session}, {**ann, **own}):
        assert over_tcp(daemon, ping, headers).status == 404, headers
        assert daemon.request("DELETE", "/mcp", headers=headers, unix=False, token=False).status == 404
    daemon.kill_daemon()
    assert over_tcp(daemon, ping, {**bob, **session}).status == 404 and over_tcp(daemon, ping, {**ann, **session}).status == 200
    assert daemon.request("DELETE", "/v1/tokens/ann").status == 200
    ann = named(daemon, "ann")
    assert over_tcp(daemon, ping, {**ann, **session}).status == 404
    for name in ("ann", "bob"):
        assert daemon.request("DELETE", f"/v1/tokens/{name}").status == 200
    end(daemon, own["Mcp-Session-Id"])


def test_pages_of_other_origins_are_refused(daemon):
    """A browser sends the origin of a page. Pages of boxes, and pages whose name was moved to this machine, may not call."""
    root = {"Authorization": f"Bearer {daemon.token}"}
    port = daemon.address.rsplit(":", 1)[1]
    for origin in ("http://evil.example", "https://evil.example", "http://192.0.2.1", f"http://8000-box-token.localhost:{port}", "null", "",
                   "file://localhost", "http://localhost.evil.example", "http://localhost/x", "http://"):
        reply = over_tcp(daemon, HELLO, {**root, "Origin": origin})
        assert reply.status == 403 and reply.json()["code"] == "FORBIDDEN", (origin, reply)
        assert daemon.request("DELETE", "/mcp", headers={**root, "Origin": origin}, unix=False, token=False).status == 403
    for origin in (f"http://{daemon.address}", "http://localhost:6274", "http://127.0.0.1:6274", "http://[::1]:6274"):
        reply = over_tcp(daemon, HELLO, {**root, "Origin": origin})
        assert reply.status == 200, (origin, reply)
        end(daemon, {k.lower(): v for k, v in dict(reply.headers).items()}["mcp-session-id"])
