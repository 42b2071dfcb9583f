"""Existing Workers: the unmodified @cloudflare/sandbox in real workerd (miniflare), its Sandbox class on boxes of a real
atolld by way of onAtoll. One test a row of the table "method, passed or not", which is printed and written to
build/compat-table.md."""

import json
import os
import re
import subprocess
from pathlib import Path

import matrix
import npmdir
import pytest

HERE = Path(__file__).resolve().parent

DRIVER = ["node", "--no-warnings", "workers/driver.mjs"]
TABLE = HERE.parents[1] / "build/compat-table.md"
MOVING = HERE.parents[1] / "docs/moving.md"
# Public in the declarations, and called by getSandbox, the runtime or nobody.
NOT_FOR_CALLERS = {"constructor", "configure", "setSandboxName", "callTunnels", "execWithSessionToken", "execStreamWithSessionToken",
                   "onStart", "onStop", "onError", "onActivityExpired", "fetch"}
STORED = "Backups and buckets"  # run by test_worker_storage.py
# What upstream's variable SANDBOX_TRANSPORT can be; its websocket is left to test_client.py.
TRANSPORTS = ["http", "rpc"]
MARKS = {True: "passed", False: "FAILED", None: "did not run"}


def listed():
    if not npmdir.installed(HERE):
        return {}, {}
    answer = json.loads(subprocess.run([*DRIVER, "--list"], cwd=HERE, stdout=subprocess.PIPE, text=True, check=True).stdout)
    return answer["rows"], answer["later"]


ROWS, LATER = listed()
HERE_RUN = {name: area for name, area in ROWS.items() if area != STORED}
needs_rows = pytest.mark.skipif(not ROWS, reason="npm is missing")
pytestmark = pytest.mark.limit(900)  # all rows run in one set-up


@pytest.fixture(scope="module")
def results(daemon, request):
    """Runs the rows that were asked for, all of them in one workerd, over one transport."""
    asked = [i.callspec.params for i in request.session.items if i.module is request.module and hasattr(i, "callspec")]
    names = [p["name"] for p in asked if p["results"] == request.param]
    env = {**os.environ, "ATOLL_URL": f"http://{daemon.address}", "ATOLL_TOKEN": daemon.token, "SANDBOX_TRANSPORT": request.param}
    r = subprocess.run([*DRIVER, *names], cwd=HERE, capture_output=True, text=True, check=False, env=env, timeout=400)
    rows = {row["name"]: row for row in map(json.loads, r.stdout.splitlines())}
    table = markdown(rows)
    with request.config.pluginmanager.getplugin("capturemanager").global_and_fixture_disabled():
        print("\n" + table)
    if len(names) == len(HERE_RUN):
        TABLE.write_text(table, encoding="utf-8")
    return rows, r.stderr


def markdown(results):
    lines = ["| area | method | state |", "|---|---|---|"]
    for name, area in HERE_RUN.items():
        lines.append(f"| {area} | `{name}` | {MARKS[results.get(name, {}).get('ok')]} |")
    lines += [f"| to come | `{name}` | not yet: {why} |" for name, why in LATER.items()]
    return "\n".join(lines) + "\n"


def documented():
    """The table of docs/moving.md."""
    lines = []
    for area in dict.fromkeys(ROWS.values()):
        lines += [f"| {area} | works |", "|---|---|"]
        lines += [f"| `{name}` | yes |" for name, of in ROWS.items() if of == area]
        lines.append("")
    if LATER:
        lines += ["| To come | |", "|---|---|", *(f"| `{name}` | not yet: {why} |" for name, why in LATER.items())]
    return "\n".join(lines) + "\n"


@needs_rows
def test_the_documentation_tells_the_same():
    """`ATOLL_WRITE_DOCS=1 tests/run compat` writes it."""
    text = MOVING.read_text(encoding="utf-8")
    head, begin, rest = text.partition("<!-- table: written by tests/compat/test_workers.py -->\n")
    _, end, tail = rest.partition("<!-- end of table -->")
    now = head + begin + "\n" + documented() + "\n" + end + tail
    if os.environ.get("ATOLL_WRITE_DOCS"):
        MOVING.write_text(now, encoding="utf-8")
    assert MOVING.read_text(encoding="utf-8") == now


def members(declarations, interface):
    """The methods of an interface or class in a .d.ts, as far as they are public."""
    body = re.search(rf"(?:interface|declare class) {interface}\b[^{{]*{{\n(.*?)\n}}", declarations, re.S)[1]
    return set(re.findall(r"^  (?:get )?(\w+)[?]?[(<]", body, re.M))


@needs_rows
def test_every_public_method_has_a_row():
    d_ts = next((HERE / "node_modules/@cloudflare/sandbox/dist").glob("sandbox-*.d.ts")).read_text(encoding="utf-8")
    named = set(re.findall(r"\w+", " ".join([*ROWS, *LATER])))
    of_sandbox = members(d_ts, "ISandbox") | members(d_ts, "Sandbox<") - NOT_FOR_CALLERS
    assert len(of_sandbox) > 50 and not of_sandbox - named, of_sandbox - named
    of_session = {m for m in members(d_ts, "ExecutionSession") if m not in LATER}
    named = set(re.findall(r"\w+", " ".join(r for r in ROWS if r.startswith("session."))))
    assert len(of_session) > 25 and not of_session - named, of_session - named


@needs_rows
def test_there_are_rows():
    assert len(ROWS) > 60
    assert not ROWS.keys() & LATER.keys()


@pytest.mark.parametrize("name,results", matrix.chosen(list(HERE_RUN), TRANSPORTS), indirect=["results"], scope="module")
def test_workers(results, name):
    rows, stderr = results
    assert name in rows, stderr[-3000:]
    assert rows[name]["ok"], rows[name]["error"]
