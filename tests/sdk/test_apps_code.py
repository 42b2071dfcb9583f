"""examples/code-api, in each of its forms."""

import json
import urllib.request

import apps
import pytest

ZYGOTE = True
pytestmark = pytest.mark.skipif(not apps.installed(), reason=apps.package.WHY_NOT)


def events(app, path, body):
    request = urllib.request.Request(app.url + path, json.dumps(body).encode())
    with urllib.request.urlopen(request, timeout=apps.SECONDS) as reply:
        for line in reply:
            if line.startswith(b"data: "):
                yield json.loads(line[6:])


@pytest.fixture
def start(daemon, tmp_path):
    yield lambda kind, seconds: apps.App(daemon, tmp_path / "log", "code-api", kind, RUN_SECONDS=seconds)
    for box in daemon.boxes():
        daemon.destroy(box)


@pytest.mark.parametrize("kind", apps.kinds("code-api"))
def test_runs_end_after_their_time(start, kind):
    with start(kind, "1") as app:
        late = app.post("/users/ada/run", {"code": "while True: pass"})
        assert "1000 ms" in late["error"]["message"]


@pytest.mark.parametrize("kind", apps.kinds("code-api"))
def test_code_api(start, daemon, kind):
    with start(kind, "100") as app:
        use(app, daemon)


def use(app, daemon):
    run = app.post("/users/ada/run", {"code": "print('hi')\nx = 6\nx * 7"})
    assert (run["stdout"], run["results"][0]["text"], run["error"]) == ("hi\n", "42", None)
    assert app.post("/users/ada/run", {"code": "x"})["results"][0]["text"] == "6"
    assert app.post("/users/bob/run", {"code": "x"})["error"]["name"] == "NameError", "each user has a sandbox"
    typed = {"code": "const half = (n: number): number => n / 2;\nhalf(84)", "language": "typescript"}
    assert app.post("/users/ada/run", typed)["results"][0]["text"] == "42"
    chart = app.post("/users/ada/run", {"code": "import matplotlib.pyplot as plt\nplt.plot([1, 2]); None"})
    assert any(result.get("png") for result in chart["results"])

    limits = daemon.request("GET", "/v1/sandboxes/code-ada").json()
    assert limits["limits"]["memory"] == 512 * 2**20 and limits["limits"]["pids"] == 128 and limits["labels"] == {"user": "ada"}

    seen = list(events(app, "/users/ada/stream", {"code": "print('a')\ndisplay(1)\n1 / 0"}))
    assert [one["type"] for one in seen if one["type"] != "execution_complete"] == ["stdout", "result", "error"]
    assert seen[0]["text"] == "a\n" and seen[2]["ename"] == "ZeroDivisionError"

    for bad in ({}, {"code": 5}, {"code": "1", "language": "cobol"}, {"code": "1" * 100_001}):
        assert "error" in app.post("/users/ada/run", bad, status=400)
    for path in ("/users/Ada/run", "/users/ada/walk", "/"):
        app.post(path, {"code": "1"}, status=404)
    assert app.call("DELETE", "/users/ada")[0] == 204
    assert "code-ada" not in daemon.boxes()
    assert app.post("/users/ada/run", {"code": "x"})["error"]["name"] == "NameError", "everything is gone"
