"""examples/dev-environment, used in a real browser: Express from a registry that the test starts, the preview, the terminal."""

import os
import shutil
import subprocess

import apps
import atoll as lib
import fixtures
import internet
import npmdir
import pytest

BROWSER = apps.package.ROOT / "tests/browser"
CHROMIUM = shutil.which("chromium")
pytestmark = pytest.mark.skipif(not (CHROMIUM and apps.installed() and npmdir.installed(BROWSER)), reason="chromium or npm's packages are missing")


@pytest.fixture(scope="module")
def world():
    missing = fixtures.what_is_missing()
    if missing:
        pytest.skip(missing)
    with internet.Internet({"npm.test": internet.npm_registry(BROWSER / "node_modules", "npm.test")}) as net, \
            lib.Instance({"ATOLL_ZYGOTE": "off", "ATOLL_EGRESS_PROXY": net.proxy}) as daemon:
        yield daemon


@pytest.mark.parametrize("kind", apps.kinds("dev-environment"))
def test_dev_environment(world, tmp_path, kind):
    with apps.App(world, tmp_path / "log", "dev-environment", kind, NPM_REGISTRY="http://npm.test") as app:
        r = subprocess.run(["node", BROWSER / "dev-page.mjs", app.url], env={**os.environ, "CHROMIUM": CHROMIUM}, capture_output=True, text=True,
                           check=False, timeout=280)
        assert r.returncode == 0, r.stdout + r.stderr + (tmp_path / "log").read_text()[-3000:]
        assert r.stdout.splitlines() == ["preview: Hello from the sandbox", "preview: Changed in the page", "terminal: 42 in /workspace"]

        assert app.json("GET", "/files")["files"] == ["package-lock.json", "package.json", "server.js"]
        assert b"Changed in the page" in app.call("GET", "/files/server.js")[2]
        assert app.post("/install", {"packages": ["no-such-package"]}, status=422)["success"] is False
        app.post("/install", {"packages": ["; rm -rf /"]}, status=400)
        for path in ("/files/..%2f..%2fetc%2fpasswd", "/nothing"):
            assert app.call("GET", path)[0] == 404
    world.destroy("dev-environment")
