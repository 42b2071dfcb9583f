"""The commands in the README of each example, as a reader types them in the project's directory while the example runs."""

import re
import subprocess

import apps
import pytest

pytestmark = pytest.mark.skipif(not apps.installed(), reason=apps.package.WHY_NOT)
ZYGOTE = True  # contexts start as they do for users


def commands(name):
    """The first block: the start, then what is asked of it."""
    readme = (apps.EXAMPLES / name / "README.md").read_text(encoding="utf-8")
    start, *asked = re.search(r"^```sh\n(.*?)^```$", readme, re.M | re.S)[1].splitlines()
    assert re.search(rf"examples/start {name}\b", start), start
    return asked


# ci clones from the internet (test_apps_ci.py has a git server), a person uses dev-environment (test_apps_dev.py).
ASKED = {name: commands(name) for name in ("ai-loop", "code-api", "data-analysis", "five-agents", "notebook-server")}
SHOWN = {"ai-loop": '"solved":true', "code-api": "hi", "data-analysis": "answer", "five-agents": "promoted", "notebook-server": ""}


@pytest.mark.parametrize("name", ASKED)
def test_the_commands_work(daemon, tmp_path, name):
    (tmp_path / "examples").symlink_to(apps.EXAMPLES)
    kind = "python" if name == "notebook-server" else "node"
    with apps.App(daemon, tmp_path / "log", name, kind) as app:
        printed = ""
        for command in ASKED[name]:
            text = command.replace("http://127.0.0.1:8080", app.url).replace("curl ", "curl -sSf ")
            r = subprocess.run(["bash", "-o", "pipefail", "-c", text], cwd=tmp_path, capture_output=True, text=True, check=False, timeout=120)
            assert r.returncode == 0, f"{command}\n{r.stdout}{r.stderr}\n{(tmp_path / 'log').read_text()}"
            printed += r.stdout
    assert printed.replace(": true", ":true").count(SHOWN[name]), printed
    made = {path.name: path.read_bytes() for path in tmp_path.iterdir() if path.suffix in (".png", ".ipynb")}
    assert all(content.startswith(b"\x89PNG") or b'"outputs"' in content for content in made.values())
    assert bool(made) == (name in ("data-analysis", "notebook-server"))
    for box in daemon.boxes():
        daemon.destroy(box)
