"""The console in headless Chromium, against a real daemon with real boxes. What a person does is in console.mjs, files.mjs and host.mjs, what
hostile boxes and pages try in attacks.mjs, and the check for barriers in axe.mjs; one scenario a test."""

import os
import subprocess
from pathlib import Path

import pytest
from atoll import BIN
from npmdir import installed
from test_browser import HERE, browser, missing, node  # noqa: F401

ZYGOTE = True  # the notebook
REPO = HERE.parent.parent


def scenarios():
    if missing():
        return []
    installed(HERE)
    return node("--list", "console").stdout.split()


SCENARIOS = scenarios()


@pytest.mark.skipif(bool(missing()), reason=f"{missing()}: tools/deps test installs it")
def test_there_are_scenarios():
    assert len(SCENARIOS) >= 30


@pytest.mark.skipif(bool(missing()), reason=f"{missing()}: tools/deps test installs it")
def test_types_fit_the_api():
    """The build has written the types of the API; what the console uses of them is there."""
    r = subprocess.run(["npx", "--no-install", "tsc", "--noEmit", "-p", "."], cwd=REPO / "web", capture_output=True, text=True, check=False)
    assert r.returncode == 0, r.stdout + r.stderr


@pytest.mark.parametrize("name", SCENARIOS)
def test_console(daemon, browser, tmp_path, name):  # noqa: F811
    port = daemon.address.rsplit(":", 1)[1]
    shots = Path(os.environ.get("CONSOLE_SHOTS", tmp_path))
    env = {**os.environ, **daemon.env, "ATOLL_URL": f"http://127.0.0.1:{port}", "ATOLL_TOKEN": daemon.token, "ATOLL_CLI": str(BIN / "atoll"),
           "ATOLL_LOCK": str(daemon.run / "up.lock"), "BROWSER": browser, "SHOTS": str(shots)}
    try:
        r = node(name, env=env, timeout=280)
    finally:
        for box in daemon.boxes():
            assert daemon.destroy(box).status < 300
    assert r.returncode == 0, r.stdout + r.stderr
