"""The seed of the guides as it is printed: a project as `npm create cloudflare` makes it, `npm run dev`, curl."""

import json
import subprocess

import npmdir
import pytest
from dev import HERE, LIMIT, MODULES, Dev, remove_all

pytestmark = [pytest.mark.skipif(not npmdir.installed(HERE), reason="npm is missing"), pytest.mark.limit(600)]


def install(directory):
    """What `npm install` leaves: the packages, with wrangler under its own name."""
    modules = directory / "node_modules"
    (modules / ".bin").mkdir(parents=True)
    for package in MODULES.iterdir():
        if package.name not in (".bin", "wrangler"):  # that one is the plugin's for Vite, and needs a newer Node
            (modules / package.name).symlink_to(package)
    (modules / "wrangler").symlink_to(MODULES / "wrangler-4.86")
    (modules / ".bin/wrangler").symlink_to("../wrangler/bin/wrangler.js")


def curl(port, path):
    r = subprocess.run(["curl", "-sS", f"http://localhost:{port}{path}"], capture_output=True, check=True, timeout=LIMIT)
    return r.stdout.decode()


def test_npm_run_dev_and_curl(daemon, tmp_path):
    install(tmp_path)
    with Dev(daemon, tmp_path, "npm", source="guide.ts") as dev:
        assert json.loads(curl(dev.port, "/run")) == {"output": "4\n", "exitCode": 0, "success": True}
        assert json.loads(curl(dev.port, "/file")) == {"content": "Hello, Sandbox!"}
        assert curl(dev.port, "/") == "Try /run or /file"
        dev.interrupt()
    remove_all(daemon)
