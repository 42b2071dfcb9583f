"""The unmodified client of @cloudflare/sandbox (npm, pinned) drives a real atolld: every scenario over each transport."""

import os
import subprocess
from pathlib import Path

import npmdir
import pytest

HERE = Path(__file__).resolve().parent


def node(*args, **kwargs):
    return subprocess.run(["node", "--experimental-websocket", "run.mjs", *args], cwd=HERE, capture_output=True, text=True, check=False, **kwargs)


SCENARIOS = npmdir.scenarios(HERE, node)


@pytest.mark.skipif(not SCENARIOS, reason="npm is missing")
def test_there_are_scenarios():
    assert len(SCENARIOS) > 30


# Scenarios about one transport run over that one.
OWN = {"websocket_": "http", "terminal_": "http", "rpc_": "rpc"}


def rows():
    for name in SCENARIOS:
        own = [transport for prefix, transport in OWN.items() if name.startswith(prefix)]
        for transport in own or ("http", "websocket", "rpc"):
            yield pytest.param(name, transport, id=f"{name}-{transport}")


@pytest.mark.parametrize("name,transport", rows())
def test_client(daemon, name, transport):
    env = {**os.environ, "ATOLL_URL": f"http://{daemon.address}", "ATOLL_TOKEN": daemon.token, "NODE_NO_WARNINGS": "1"}
    r = node(name, transport, env=env, timeout=120)
    assert r.returncode == 0, r.stdout + r.stderr
