"""The unmodified client of @cloudflare/sandbox (npm, pinned) drives a real atolld: every scenario over http, and some (matrix.py) over each
transport."""

import os
import re
import subprocess
from pathlib import Path

import matrix
import npmdir
import pytest

HERE = Path(__file__).resolve().parent
HELPERS = HERE.parents[1] / "build/static/tests/helpers"


def node(*args, **kwargs):
    return subprocess.run(["node", "--experimental-websocket", "run.mjs", *args], cwd=HERE, capture_output=True, text=True, check=False, **kwargs)


SCENARIOS = npmdir.scenarios(HERE, node)


@pytest.mark.skipif(not SCENARIOS, reason="npm is missing")
def test_there_are_scenarios():
    assert len(SCENARIOS) > 30


# Scenarios about one transport run over that one.
OWN = {"websocket_": "http", "terminal_": "http", "rpc_": "rpc"}


def transports(name):
    return [transport for prefix, transport in OWN.items() if name.startswith(prefix)] or ["http", "websocket", "rpc"]


@pytest.mark.parametrize("name,transport", matrix.chosen(SCENARIOS, transports))
def test_client(daemon, name, transport):
    env = {**os.environ, "ATOLL_URL": f"http://{daemon.address}", "ATOLL_TOKEN": daemon.token, "NODE_NO_WARNINGS": "1"}
    r = node(name, transport, env=env, timeout=120)
    assert r.returncode == 0, r.stdout + r.stderr


@pytest.mark.skipif(not SCENARIOS, reason="npm is missing")
def test_the_rpc_transport_knows_which_codes_upstream_has_not():
    lines = subprocess.run([HELPERS / "error-codes"], capture_output=True, text=True, check=True).stdout.splitlines()
    ours = dict(line.split() for line in lines)
    theirs = "".join(f.read_text(encoding="utf-8") for f in (HERE / "node_modules/@cloudflare/sandbox/dist").glob("errors-*.js"))
    known = set(re.findall(r'^\s+([A-Z_]+): "\1"', theirs, re.M))
    assert len(ours) > 60 and len(known) > 60
    assert {code for code, whose in ours.items() if whose == "own"} == set(ours) - known
