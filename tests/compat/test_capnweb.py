"""The library of src/capnweb against the npm package capnweb, in both roles, and with that package as the oracle."""

import subprocess
from pathlib import Path

import npmdir
import pytest

HERE = Path(__file__).resolve().parent
PEER = HERE.parents[1] / "build/static/tests/helpers/capnweb-peer"
pytestmark = pytest.mark.skipif(not npmdir.installed(HERE), reason="npm is missing")


def node(*args):
    r = subprocess.run(["node", "capnweb.mjs", str(PEER), *map(str, args)], cwd=HERE, capture_output=True, text=True, check=False, timeout=200)
    assert r.returncode == 0, r.stdout + r.stderr


def test_both_roles():
    node("roles")


@pytest.mark.parametrize("seed", range(1, 5))
def test_random_sessions_have_the_same_answers(seed):
    node("oracle", seed, 150)
