"""examples/ai-loop with its scripted model, which fails twice, in each of its forms."""

import json

import apps
import pytest

pytestmark = pytest.mark.skipif(not apps.installed(), reason=apps.package.WHY_NOT)
TASK = json.loads((apps.EXAMPLES / "ai-loop/task.json").read_text())


@pytest.mark.parametrize("kind", apps.kinds("ai-loop"))
def test_ai_loop(daemon, tmp_path, kind):
    with apps.App(daemon, tmp_path / "log", "ai-loop", kind) as app:
        done = app.post("/solve", TASK)
        first, second, third = done["rounds"]
        assert "SyntaxError" in first["failure"] and "AssertionError" in second["failure"] and third["failure"] is None
        assert done["solved"] and done["code"] == third["code"] and "```" not in done["code"]

        hopeless = app.post("/solve", {**TASK, "task": "Do the impossible.", "tests": "import it", "file": "it.py"})
        assert not hopeless["solved"] and len(hopeless["rounds"]) == 5 and "SystemError" in hopeless["rounds"][4]["failure"]
        for bad in ({}, {**TASK, "file": "../x.py"}, {**TASK, "tests": None}):
            app.post("/solve", bad, status=400)
        assert daemon.boxes() == []


def test_a_model_that_fails_is_reported(daemon, tmp_path):
    with apps.App(daemon, tmp_path / "log", "ai-loop", "node") as app:
        assert "the model answered 422" in app.post("/solve", {**TASK, "task": "Sing.", "tests": "la la", "file": "song.py"}, status=500)["error"]
    assert daemon.boxes() == []
