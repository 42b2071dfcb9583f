"""examples/start without a token that it can read: it says what to do, and starts nothing."""

import os
import shutil
import subprocess

import apps
import pytest


def start(**env):
    env = {**{k: v for k, v in os.environ.items() if not k.startswith("ATOLL_")}, **env}
    r = subprocess.run([apps.EXAMPLES / "start", "code-api"], env=env, capture_output=True, text=True, timeout=60, check=False)
    return r.returncode, r.stdout, r.stderr


def test_no_daemon(tmp_path):
    code, out, err = start(ATOLL_DATA=str(tmp_path))
    assert (code, out) == (1, "") and "start the daemon of this machine" in err and "set ATOLL_URL and ATOLL_TOKEN" in err


@pytest.mark.skipif(os.geteuid() != 0, reason="root is needed to become another user")
def test_a_token_of_others(tmp_path):
    for place in (tmp_path, *tmp_path.parents[:-2]):
        place.chmod(0o755)
    # The checkout may be where this user cannot go.
    examples = shutil.copytree(apps.EXAMPLES, tmp_path / "examples", ignore=shutil.ignore_patterns("node_modules"))
    (tmp_path / "token").write_text("secret\n")
    (tmp_path / "token").chmod(0o600)
    r = subprocess.run(["setpriv", "--reuid=65534", "--regid=65534", "--clear-groups", examples / "start", "code-api"],
                       env={"PATH": os.environ["PATH"], "ATOLL_DATA": str(tmp_path)}, capture_output=True, text=True, timeout=60, check=False)
    assert (r.returncode, r.stdout) == (1, "") and "only root may read it" in r.stderr and "atoll env --export" in r.stderr, r
