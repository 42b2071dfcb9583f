"""Upstream's 1.0 preview: the unmodified @cloudflare/sandbox@0.13.0-next.751.1 in real workerd (miniflare), its Sandbox class on
boxes of a real atolld by way of onAtoll, over the second table of methods of the rpc transport. One test a row."""

import json
import os
import re
import subprocess
from pathlib import Path

import agentlib
import npmdir
import pytest

HERE = Path(__file__).resolve().parent
DRIVER = ["node", "--no-warnings", "preview/driver.mjs"]
MOVING = HERE.parents[1] / "docs/moving.md"
PACKAGE = HERE / "preview/node_modules/@cloudflare/sandbox/dist"
# Public in the declarations, and called by getSandbox, the runtime, extensions or nobody.
NOT_FOR_CALLERS = {"constructor", "configure", "setSandboxName", "callTunnels", "callExtension", "onStart", "onStop", "onError", "onActivityExpired",
                   "fetch", "authorizePortRequest", "isRuntimeActive", "registerGitAuthInterceptor", "__setBackupRestoreFaultForTesting"}
pytestmark = pytest.mark.limit(600)  # all rows run in one set-up


def listed():
    if not npmdir.installed(HERE) or not npmdir.installed(HERE / "preview"):
        return {}
    return json.loads(subprocess.run([*DRIVER, "--list"], cwd=HERE, stdout=subprocess.PIPE, text=True, check=True).stdout)


ROWS = listed()
STORED = "Backups and buckets on S3"  # run by test_preview_storage.py
HERE_RUN = [name for name, area in ROWS.items() if area != STORED]
needs_rows = pytest.mark.skipif(not ROWS, reason="npm is missing")


@pytest.fixture(scope="module")
def results(daemon, request):
    asked = [i.callspec.params for i in request.session.items if i.module is request.module and hasattr(i, "callspec")]
    names = [p["name"] for p in asked if "name" in p]
    env = {**os.environ, "ATOLL_URL": f"http://{daemon.address}", "ATOLL_TOKEN": daemon.token}
    r = subprocess.run([*DRIVER, *names], cwd=HERE, capture_output=True, text=True, check=False, env=env, timeout=400)
    return {row["name"]: row for row in map(json.loads, r.stdout.splitlines())}, r.stderr


@pytest.mark.parametrize("name", HERE_RUN)
def test_preview(results, name):
    rows, stderr = results
    assert name in rows, stderr[-3000:]
    assert rows[name]["ok"], rows[name]["error"]


def documented():
    """The table of docs/moving.md."""
    lines = ["| area | works |", "|---|---|"]
    lines += [f"| {area} | " + ", ".join(f"`{name}`" for name, of in ROWS.items() if of == area) + " |" for area in dict.fromkeys(ROWS.values())]
    return "\n".join(lines) + "\n"


@needs_rows
def test_the_documentation_tells_the_same():
    """`ATOLL_WRITE_DOCS=1 tests/run compat` writes it."""
    text = MOVING.read_text(encoding="utf-8")
    head, begin, rest = text.partition("<!-- table: written by tests/compat/test_preview.py -->\n")
    _, end, tail = rest.partition("<!-- end of preview -->")
    now = head + begin + "\n" + documented() + "\n" + end + tail
    if os.environ.get("ATOLL_WRITE_DOCS"):
        MOVING.write_text(now, encoding="utf-8")
    assert MOVING.read_text(encoding="utf-8") == now


def members(text, interface):
    """The public methods of an interface or class in a .d.ts."""
    body = re.search(rf"(?:interface|declare class) {interface}\b[^{{]*{{\n(.*?)\n}}", text, re.S)[1]
    return set(re.findall(r"^  (?:get |readonly )?(\w+)[?]?[(<:]", body, re.M)) - {"id", "pid"}


@needs_rows
def test_every_public_method_has_a_row():
    text = "\n".join(f.read_text(encoding="utf-8") for f in PACKAGE.glob("**/*.d.ts"))
    named = set(re.findall(r"\w+", " ".join(ROWS)))
    sources = ["ISandbox", "SandboxProcess", "Terminal", "Git", "Interpreter"]
    public = set().union(*(members(text, name) for name in sources)) - NOT_FOR_CALLERS - {"getSnapshot", "output", "private"}
    assert len(public) > 40 and not public - named, public - named


PLAIN = ["node", "--no-warnings", "preview/plain.mjs"]
SCENARIOS = json.loads(subprocess.run([*PLAIN, "--list"], cwd=HERE, stdout=subprocess.PIPE, text=True, check=True).stdout) if ROWS else []


def plain(request, where, url, token=""):
    asked = [i.callspec.params for i in request.session.items if i.module is request.module and hasattr(i, "callspec")]
    names = [p["scenario"] for p in asked if p.get("where") == where]
    env = {**os.environ, "RPC_URL": url, "ATOLL_TOKEN": token}
    r = subprocess.run([*PLAIN, *names], cwd=HERE, capture_output=True, text=True, check=False, env=env, timeout=300)
    return {row["name"]: row for row in map(json.loads, r.stdout.splitlines())}, r.stderr


@pytest.fixture(scope="module")
def in_boxes(daemon, request):
    return plain(request, "box", f"http://{daemon.address}/v1/sandboxes/{{id}}/rpc", daemon.token)


@pytest.fixture(scope="module")
def on_agent(request):
    """`atoll-agent serve`, without a box around it."""
    agent = agentlib.Agent()
    try:
        yield plain(request, "agent", f"http://127.0.0.1:{agent.port}/rpc")
    finally:
        agent.close()


# A backup is written to /var/backups, which is the host's when there is no box; floods are the same with one and without.
BOXES_ONLY = {"backups: parts over HTTP", "mounts", "a log that is full tells what is lost", "one slow stream", "terminals: limits",
              "a box that stops while it is watched"}


@pytest.mark.parametrize("scenario,where", [(s, w) for w in ("box", "agent") for s in SCENARIOS if w == "box" or s not in BOXES_ONLY])
def test_plain(request, scenario, where):
    rows, stderr = request.getfixturevalue({"box": "in_boxes", "agent": "on_agent"}[where])
    assert scenario in rows, stderr[-3000:]
    assert rows[scenario]["ok"], rows[scenario]["error"]
