"""The rows that drive the unmodified @cloudflare/sandbox in workerd, through atoll-sandbox in Node, Bun, Deno and workerd."""

import json
import subprocess

import package
import pytest

NAMES = package.row_names()


@pytest.fixture(scope="module")
def results(daemon, request):
    """Runs the rows that were asked for, once in each runtime."""
    wanted = {}
    for item in request.session.items:
        if item.module is request.module and hasattr(item, "callspec"):
            wanted.setdefault(item.callspec.params["runtime"], []).append(item.callspec.params["name"])
    done = {}
    for runtime, names in wanted.items():
        r = subprocess.run([*package.ROWS_IN[runtime], *names], cwd=package.PACKAGE, capture_output=True, text=True, check=False,
                           env=package.reaching(daemon), timeout=300)
        done[runtime] = {row["name"]: row for row in map(json.loads, r.stdout.splitlines())}, r.stderr
    return done


@pytest.mark.skipif(not NAMES, reason=package.WHY_NOT)
def test_there_are_rows():
    assert len(NAMES) > 60


@pytest.mark.parametrize("name", NAMES)
@pytest.mark.parametrize("runtime", package.ROWS_IN)
def test_row(results, runtime, name):
    rows, stderr = results[runtime]
    assert name in rows, stderr[-3000:]
    if "skipped" in rows[name]:
        pytest.skip(rows[name]["skipped"])
    assert rows[name]["ok"], rows[name]["error"]
