"""examples/five-agents: five fixes in forks, one of them promoted."""

import json

import apps
import pytest

pytestmark = pytest.mark.skipif(not apps.installed(), reason=apps.package.WHY_NOT)
TASK = json.loads((apps.EXAMPLES / "five-agents/task.json").read_text())


def test_five_agents(daemon, tmp_path):
    with apps.App(daemon, tmp_path / "log", "five-agents", "node") as app:
        done = app.post("/repair", TASK)
        by_style = [(one["passed"], one["failed"]) for one in done["attempts"]]
        # minimal: the signs are left; regular expression and loop: right; no such module; a rewrite that does nothing
        assert by_style == [(3, 1), (4, 0), (0, 1), (4, 0), (0, 4)]
        assert done["promoted"] == done["attempts"][1]["agent"], "the shorter one of two that pass"
        assert daemon.boxes() == [done["id"]], "the forks are gone"
        assert b"re.sub" in app.call("GET", f"/repair/{done['id']}/files/slug.py")[2]
        tests = daemon.execute(done["id"], "cd /workspace && python3 -m unittest")
        assert tests["exitCode"] == 0, tests

        for bad in ({}, {"files": {}}, {"files": {"../a.py": "", "test_a.py": ""}}, {"files": {"a.py": ""}}):
            app.post("/repair", bad, status=400)
        assert app.call("DELETE", f"/repair/{done['id']}")[0] == 204
    assert daemon.boxes() == []
