"""The escape suite through the command line: one run of `atoll selftest --escape`, one case for each check."""
import json

import escape
import pytest

NAMES = [c["name"] for c in escape.checks()]
pytestmark = pytest.mark.limit(1200)  # all checks run in one set-up


@pytest.fixture(scope="module")
def results(daemon):
    done = daemon.cli("selftest", "--escape", "--json", timeout=900)
    assert done.stdout, done.stderr.decode()
    report = json.loads(done.stdout)
    by_name = {c["name"]: c for c in report["checks"]}
    assert done.returncode == (1 if report["failed"] else 0)
    assert len(by_name) == report["passed"] + report["failed"] + report["skipped"]
    assert set(by_name) == set(NAMES), "every check has a result"
    return by_name


@pytest.mark.parametrize("name", NAMES)
def test_refused(results, name):
    result = results[name]
    if result["result"] == "skip":
        pytest.skip(result["how"])
    assert (result["result"], result["verdict"]) == ("ok", "refused"), f"{result['how']}; expected: {result['expected']}"


def test_selftest_leaves_no_box(daemon, results):
    assert results
    assert not [b for b in daemon.boxes() if b.startswith("escape-")]


def test_one_check_by_name(daemon):
    done = daemon.cli("selftest", "--escape", "bpf", "keyrings")
    lines = done.stdout.decode().splitlines()
    assert [line.split()[:2] for line in lines[:2]] == [["ok", "bpf"], ["ok", "keyrings"]]
    assert lines[-1] == "2 passed, 0 failed, 0 skipped"
    assert done.returncode == 0


def test_unknown_check_is_named(daemon):
    done = daemon.cli("selftest", "--escape", "no-such-check")
    assert done.returncode == 1
    assert b"no-such-check" in done.stderr
