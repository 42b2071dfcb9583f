"""Existing Workers: the unmodified @cloudflare/sandbox in real workerd (miniflare), its Sandbox class on boxes of a real
atolld by way of onAtoll. One test a row of the table "method, passed or not", which is printed and written to
build/compat-table.md."""

import json
import os
import subprocess

import pytest
from npm import HERE, installed

DRIVER = ["node", "--no-warnings", "workers/driver.mjs"]
TABLE = HERE.parents[1] / "build/compat-table.md"
MARKS = {True: "passed", False: "FAILED", None: "did not run"}


def listed():
    if not installed():
        return {}, {}
    r = subprocess.run([*DRIVER, "--list"], cwd=HERE, capture_output=True, text=True, check=False)
    if r.returncode != 0:
        return {}, {}
    answer = json.loads(r.stdout)
    return answer["rows"], answer["later"]


ROWS, LATER = listed()


@pytest.fixture(scope="module")
def results(daemon, request):
    """Runs the rows that were asked for, all of them in one workerd."""
    names = [i.callspec.params["name"] for i in request.session.items if i.module is request.module and hasattr(i, "callspec")]
    env = {**os.environ, "ATOLL_URL": f"http://{daemon.address}", "ATOLL_TOKEN": daemon.token}
    r = subprocess.run([*DRIVER, *names], cwd=HERE, capture_output=True, text=True, check=False, env=env, timeout=400)
    rows = {row["name"]: row for row in map(json.loads, r.stdout.splitlines())}
    table = markdown(rows)
    with request.config.pluginmanager.getplugin("capturemanager").global_and_fixture_disabled():
        print("\n" + table)
    if len(names) == len(ROWS):
        TABLE.write_text(table, encoding="utf-8")
    return rows, r.stderr


def markdown(results):
    lines = ["| area | method | state |", "|---|---|---|"]
    for name, area in ROWS.items():
        lines.append(f"| {area} | `{name}` | {MARKS[results.get(name, {}).get('ok')]} |")
    lines += [f"| to come | `{name}` | not yet: {why} |" for name, why in LATER.items()]
    return "\n".join(lines) + "\n"


@pytest.mark.skipif(not ROWS, reason="no npm, or the packages could not be loaded")
def test_there_are_rows():
    assert len(ROWS) > 60
    assert not ROWS.keys() & LATER.keys()


@pytest.mark.parametrize("name", ROWS)
def test_workers(results, name):
    rows, stderr = results
    assert name in rows, stderr[-3000:]
    assert rows[name]["ok"], rows[name]["error"]
