"""Apps in a box, seen through their previews with headless Chromium: Express, Vite, Flask, http.server. What a person does
is in scenarios.mjs, one scenario a test. Boxes have no network, so packages are installed here and copied into the box."""

import importlib.util
import io
import os
import shutil
import subprocess
import tarfile
from pathlib import Path

import pytest
from atoll import Instance, box_path
from npmdir import installed

HERE = Path(__file__).parent
CHROMIUM = shutil.which("chromium")
BOX = "apps"


def missing():
    for what in ("npm", "node", "chromium"):
        if not shutil.which(what):
            return f"no {what}"
    return None if importlib.util.find_spec("flask") else "no python3-flask"


def node(*args, **options):
    return subprocess.run(["node", "run.mjs", *args], cwd=HERE, capture_output=True, text=True, check=False, **options)


def scenarios():
    """Installs the pinned packages once; the lock file says which bytes."""
    if missing():
        return []
    installed(HERE)
    return node("--list").stdout.split()


SCENARIOS = scenarios()


def packages():
    """The apps, what they need from npm, and Flask with what that needs, as a tar for /workspace."""
    out = io.BytesIO()
    with tarfile.open(fileobj=out, mode="w") as tar:
        for app in ("express", "flask", "vite"):
            tar.add(HERE / "apps" / app, app)
        tar.add(HERE / "node_modules", "node_modules", filter=lambda f: None if "playwright" in f.name or "axe-core" in f.name else f)
        for module in ("flask", "werkzeug", "jinja2", "markupsafe", "click", "itsdangerous"):
            tar.add(Path(importlib.util.find_spec(module).origin).parent, f"python/{module}")
    return out.getvalue()


@pytest.fixture(scope="module")
def apps(daemon):
    assert daemon.request("PUT", box_path(BOX), {"limits": {"memory": 1 << 30, "cpu": 2}}).status == 201
    r = daemon.cli("exec", BOX, "--", "sh", "-c", "tar -x -C /workspace && mkdir /workspace/plain /workspace/hostile", input=packages())
    assert r.returncode == 0, r.stderr
    return daemon


@pytest.fixture(scope="module")
def browser(tmp_path_factory):
    """One browser for all scenarios; each has a profile of its own."""
    env = {**os.environ, "CHROMIUM": CHROMIUM, "HOME": str(tmp_path_factory.mktemp("home"))}
    with subprocess.Popen(["node", "run.mjs", "--serve"], cwd=HERE, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True,
                          env=env) as server:
        yield server.stdout.readline().strip()
        server.stdin.close()


@pytest.mark.skipif(bool(missing()), reason=f"{missing()}: tools/deps test installs it")
def test_there_are_scenarios():
    assert len(SCENARIOS) >= 6


@pytest.mark.parametrize("name", SCENARIOS)
def test_browser(apps, browser, tmp_path, name):
    port = apps.address.rsplit(":", 1)[1]
    env = {**os.environ, "ATOLL_URL": f"http://127.0.0.1:{port}", "ATOLL_TOKEN": apps.token, "ATOLL_BOX": BOX,
           "BROWSER": browser, "SHOTS": str(tmp_path)}
    r = node(name, env=env, timeout=280)
    assert r.returncode == 0, r.stdout + r.stderr


@pytest.mark.skipif(bool(missing()), reason=f"{missing()}: tools/deps test installs it")
def test_cookies_on_a_domain_of_their_own(browser, tmp_path):
    with Instance({"ATOLL_ZYGOTE": "off", "ATOLL_PREVIEW_DOMAIN": "previews.test"}) as own:
        env = {**os.environ, "ATOLL_URL": f"http://{own.address}", "ATOLL_TOKEN": own.token, "ATOLL_BOX": "cookies",
               "BROWSER": browser, "SHOTS": str(tmp_path)}
        r = node("cookies_stay_with_their_preview", env=env, timeout=280)
        assert r.returncode == 0, r.stdout + r.stderr
