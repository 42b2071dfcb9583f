"""Tests of the SDK that are written in TypeScript, run once; one test here for each of theirs that there is a file of."""

import json
import subprocess

import package
import pytest

FILES = sorted(p.name for p in (package.PACKAGE / "tests").glob("*.test.ts")) if package.built() else []
pytestmark = pytest.mark.limit(900)  # all files run in one set-up


@pytest.fixture(scope="module")
def results(daemon, request, tmp_path_factory):
    """Runs the files that were asked for."""
    wanted = [i.callspec.params["file"] for i in request.session.items if i.module is request.module and hasattr(i, "callspec")]
    report = tmp_path_factory.mktemp("vitest") / "report.json"
    command = [package.MODULES / ".bin/vitest", "run", "--reporter=json", f"--outputFile={report}", *(f"tests/{f}" for f in wanted)]
    r = subprocess.run(command, cwd=package.PACKAGE, capture_output=True, text=True, check=False,
                       env=package.reaching(daemon), timeout=400)
    assert report.exists(), r.stdout + r.stderr
    return {t["name"].rsplit("/", 1)[1]: t for t in json.loads(report.read_text())["testResults"]}


@pytest.mark.skipif(not FILES, reason=package.WHY_NOT)
def test_there_are_files():
    assert FILES


@pytest.mark.parametrize("file", FILES)
def test_file(results, file):
    result = results[file]
    failed = [f"{t['fullName']}\n{chr(10).join(t['failureMessages'])}" for t in result["assertionResults"] if t["status"] != "passed"]
    assert not failed, "\n\n".join(failed)
    assert result["status"] == "passed", result["message"]
    assert result["assertionResults"]
