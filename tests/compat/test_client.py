"""The unmodified client of @cloudflare/sandbox (npm, pinned) drives a real atolld, one scenario a test."""

import os
import shutil
import subprocess
from pathlib import Path

import pytest

HERE = Path(__file__).parent


def node(*args, **kwargs):
    return subprocess.run(["node", "--experimental-websocket", "run.mjs", *args], cwd=HERE, capture_output=True, text=True, check=False, **kwargs)


def installed():
    """Installs the pinned package once; the lock file says which bytes."""
    if not shutil.which("npm"):
        return False
    if not (HERE / "node_modules/@cloudflare/sandbox/package.json").exists():
        subprocess.run(["npm", "ci", "--no-audit", "--no-fund", "--loglevel=error"], cwd=HERE, check=True)
    return True


SCENARIOS = node("--list").stdout.split() if installed() else []


@pytest.mark.skipif(not SCENARIOS, reason="no npm, or the package could not be loaded")
def test_there_are_scenarios():
    assert len(SCENARIOS) > 30


@pytest.mark.parametrize("name", SCENARIOS)
def test_client(daemon, name):
    env = {**os.environ, "ATOLL_URL": f"http://{daemon.address}", "ATOLL_TOKEN": daemon.token, "NODE_NO_WARNINGS": "1"}
    r = node(name, env=env, timeout=120)
    assert r.returncode == 0, r.stdout + r.stderr
