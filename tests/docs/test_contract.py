"""api/openapi.yaml is true: every route of the agent stands in it, and what a daemon answers has the shape it says, with no
field that it does not name."""

import copy
import json
import os
import re
from pathlib import Path

import jsonschema
import pytest
import yaml
from atoll import box_path

ROOT = Path(__file__).resolve().parents[2]
DOC = yaml.safe_load((ROOT / "api/openapi.yaml").read_text(encoding="utf-8"))
PAGE = ROOT / "docs/api.md"
HERE = "/v1/sandboxes/{id}"
INSIDE = {"inside", "commands", "sessions", "processes", "files", "code", "sockets"}
OPERATIONS = {op["operationId"]: (method, path, op) for path, item in DOC["paths"].items() for method, op in item.items()
              if method != "parameters" and INSIDE & set(op.get("tags", [])) and "operationId" in op}
SOCKETS = {name for name, (_, _, op) in OPERATIONS.items() if "101" in op["responses"]}


def closed(schema):
    """As JSON Schema, without fields that are not named."""
    schema = copy.deepcopy(schema)
    if "$ref" in schema:
        return closed(DOC["components"]["schemas"][schema["$ref"].rpartition("/")[2]])
    if "allOf" in schema:
        parts = [closed(part) for part in schema.pop("allOf")]
        schema = {"type": "object", "required": sum((p.get("required", []) for p in parts), []),
                  "properties": {k: v for p in parts for k, v in p["properties"].items()}}
    if schema.pop("nullable", False):
        schema["type"] = [schema["type"], "null"]
    if "properties" in schema:
        schema["properties"] = {k: closed(v) for k, v in schema["properties"].items()}
        schema["additionalProperties"] = False
    if "items" in schema:
        schema["items"] = closed(schema["items"])
    return schema


def events(text):
    return [json.loads(line[6:]) for line in text.splitlines() if line.startswith("data: ")]


class Caller:
    def __init__(self, daemon, box):
        self.daemon, self.box, self.called = daemon, box, set()

    def __call__(self, operation, body=None, query="", **names):
        method, path, op = OPERATIONS[operation]
        self.called.add(operation)
        rest = path.removeprefix(HERE).format(**names) + query
        if isinstance(body, dict):
            jsonschema.validate(body, closed(op["requestBody"]["content"]["application/json"]["schema"]))
        r = self.daemon.request(method.upper(), box_path(self.box, rest), body)
        assert r.status == 200, f"{operation}: {r}"
        (kind, content), = op["responses"]["200"]["content"].items()
        assert r.headers["Content-Type"].split(";")[0] == kind or kind == "application/octet-stream"
        if kind == "text/event-stream":
            found = events(r.text)
            assert found, operation
            for event in found:
                jsonschema.validate(event, closed(content["schema"]))
            return found
        if kind == "application/json":
            jsonschema.validate(r.json(), closed(content["schema"]))
            return r.json()
        return r.body


@pytest.fixture(scope="module")
def call(daemon):
    yield Caller(daemon, "contract")
    daemon.destroy("contract")


def test_every_route_of_the_agent_stands_in_it():
    table = (ROOT / "src/agent/routes.c").read_text(encoding="utf-8")
    routes = {(m.lower(), p) for m, p in re.findall(r'\{"([A-Z]+)", "([^"]+)"', table)}
    routes -= {("get", "/"), ("put", "/internal/env"), ("get", "/internal/activity"), ("get", "/internal/tunnels"), ("post", "/internal/tunnels"),
               ("get", "/api/commands")}  # a greeting; the daemon's own; always an error
    said = {(method, re.sub(r"\{\w+\}", "{id}", path.removeprefix(HERE))) for method, path, _ in OPERATIONS.values()}
    assert routes == said


def listed():
    """Every route by its tag, for docs/api.md."""
    lines = []
    for tag in DOC["tags"]:
        ops = [(m, path, op) for path, item in DOC["paths"].items() for m, op in item.items()
               if m != "parameters" and tag["name"] in op["tags"] and (m == "get" or "operationId" in op)]
        lines += ["", f"| {tag['name']} | | |", "|---|---|---|"]
        lines += [f"| `{m.upper() if 'operationId' in op else 'any'}` | `{path}` | {op['summary']} |" for m, path, op in ops]
    return "\n".join(lines) + "\n\n"


def test_the_page_lists_every_route():
    """`ATOLL_WRITE_DOCS=1 tests/run docs` writes it."""
    text = PAGE.read_text(encoding="utf-8")
    head, begin, rest = text.partition("<!-- routes: written by tests/docs/test_contract.py -->\n")
    _, end, tail = rest.partition("<!-- end of routes -->")
    now = head + begin + listed() + end + tail
    if os.environ.get("ATOLL_WRITE_DOCS"):
        PAGE.write_text(now, encoding="utf-8")
    assert PAGE.read_text(encoding="utf-8") == now


def test_commands_and_sessions(call):
    call("ping")
    call("getAgentVersion")
    assert call("execute", {"command": "cat", "stdin": "aGk=", "stdinEncoding": "base64", "encoding": "base64"})["stdout"] == "aGk="
    call("execute", {"command": "kill -9 $$", "sessionId": "__DISABLE_SESSION__", "env": {"A": "1"}, "cwd": "/tmp"})
    call("executeStream", {"command": "echo a; echo b >&2", "streamId": "kept"})
    assert call("resumeStream", stream="kept")[-1]["type"] == "complete"
    call("cancelStream", stream="kept")
    call("createSession", {"id": "s", "env": {"A": "1"}, "cwd": "/tmp", "commandTimeoutMs": 60000})
    assert "s" in call("listSessions")["data"]
    call("deleteSession", {"sessionId": "s"})


def test_processes(call):
    call("startProcess", {"command": "echo out; echo err >&2; exec sleep 600", "processId": "p"})
    call("startProcess", {"command": "(exit 3)", "processId": "q"})
    call("watchPort", {"port": 9, "mode": "tcp", "processId": "q"})
    call("streamProcessLogs", process="q")
    call("streamProcessLogs", query="?follow=false&encoding=base64", process="p")
    assert {p["id"] for p in call("listProcesses")["processes"]} == {"p", "q"}
    call("getProcess", process="q")
    call("getProcessLogs", process="p")
    call("killProcess", query="?signal=SIGKILL", process="p")
    call("killAllProcesses")
    assert call("cleanupProcesses")["cleanedCount"] == 2


def test_files(call):
    call("makeDirectory", {"path": "d/e", "recursive": True})
    call("writeFile", {"path": "d/f", "content": "text"})
    call("putFile", b"bytes", query="?path=/workspace/d/g")
    assert call("getFile", query="?path=/workspace/d/g") == b"bytes"
    call("readFile", {"path": "d/f", "encoding": "utf-8"})
    call("readFileStream", {"path": "d/f"})
    call("renameFile", {"oldPath": "d/f", "newPath": "d/h"})
    call("moveFile", {"sourcePath": "d/h", "destinationPath": "d/e/h"})
    assert call("fileExists", {"path": "d/e/h"})["exists"]
    assert call("listFiles", {"path": "d", "options": {"recursive": True, "includeHidden": True}})["count"] == 3
    call("deleteFile", {"path": "d/e/h"})
    version = call("checkChanges", {"path": "/workspace", "recursive": True})["version"]
    call("checkChanges", {"path": "/workspace", "since": version})
    call("execute", {"command": "git init -q /tmp/r && git -C /tmp/r -c user.name=n -c user.email=e commit -q --allow-empty -m m"})
    call("gitCheckout", {"repoUrl": "file:///tmp/r", "targetDir": "/workspace/r"})
    call("createBackupArchive", {"dir": "/workspace/r", "archivePath": "/var/backups/c.sqsh"})
    call("restoreBackupArchive", {"dir": "/workspace/back", "archivePath": "/var/backups/c.sqsh"})
    call.called.add("uploadBackupParts")  # needs a server with TLS: tests/integration/test_backup.py


def test_watching(call, daemon):
    """A stream without an end: its first events."""
    daemon.execute("contract", "mkdir -p /workspace/w")
    with call.daemon.connect(unix=True) as s:
        body = json.dumps({"path": "/workspace/w", "include": ["*.txt"], "events": ["create"]})
        jsonschema.validate(json.loads(body), closed(OPERATIONS["watch"][2]["requestBody"]["content"]["application/json"]["schema"]))
        s.sendall(f"POST {box_path('contract', '/api/watch')} HTTP/1.1\r\nHost: localhost\r\nContent-Length: {len(body)}\r\n\r\n{body}".encode())
        text = b""
        while len(events(text.decode(errors="ignore"))) < 2:
            text += s.recv(65536)
            if b'"watching"' in text and b"\n\n" in text:
                daemon.execute_alone("contract", "touch /workspace/w/$RANDOM.txt")
        schema = closed(OPERATIONS["watch"][2]["responses"]["200"]["content"]["text/event-stream"]["schema"])
        for event in events(text.decode()):
            jsonschema.validate(event, schema)
    call.called.add("watch")


def test_code(call):
    call("getInterpreterHealth")
    context = call("createCodeContext", {"language": "python", "cwd": "/tmp", "env_vars": {"A": "1"}})["contextId"]
    call("runCode", {"code": "print(1)\n{'a': 1}", "context_id": context, "timeout_ms": 60000})
    call("runCode", {"code": "1 / 0", "context_id": context})
    call("runCode", {"code": "({a: 1})", "language": "javascript"})
    call("listCodeContexts")
    call("deleteCodeContext", context=context)


def test_all_of_it_was_asked_for(call, request):
    if len(request.session.items) == 1:
        pytest.skip("the tests before it were not asked for")
    assert OPERATIONS.keys() - SOCKETS - call.called == set()
    assert len(SOCKETS) == 5
