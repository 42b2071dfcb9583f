"""README.md can be followed word by word: one shell runs its commands in order, from an empty directory.

The test replaces README's `npm install` by a link to the packages of tests/compat, which have the same version.
"""

import os
import shlex
import subprocess
import sys
import tempfile
from pathlib import Path

import atoll as lib
import examples
import fixtures
import npmdir
import pytest

ROOT = Path(__file__).resolve().parents[2]
sys.path.insert(0, str(ROOT / "tests/sdk"))
import package  # noqa: E402

COMPAT = ROOT / "tests/compat"
INSTALL = "npm install --silent @cloudflare/sandbox@0.12.10"


@pytest.fixture(scope="module")
def daemon():
    """With an image directory of its own, for the images that README makes. The files of the default image are linked into it."""
    missing = fixtures.what_is_missing()
    if missing:
        pytest.skip(missing)
    default = (lib.IMAGES / "default").resolve()
    with tempfile.TemporaryDirectory(prefix="test-images-", dir=lib.IMAGES.parent) as images:
        subprocess.run(["cp", "-al", default, f"{images}/{default.name}"], check=True)
        os.symlink(default.name, f"{images}/default")
        instance = lib.Instance({"ATOLL_IMAGES": images})
        try:
            yield instance.start()
        finally:
            fixtures.finish(instance)


@pytest.fixture
def shell(daemon, tmp_path):
    """Starts in a directory that looks like the checkout after `make run`."""
    checkout = tmp_path / "checkout"
    checkout.mkdir()
    (checkout / "build").symlink_to(lib.BIN)
    (checkout / "tests").symlink_to(ROOT / "tests")
    found = examples.Shell(checkout, examples.environment(daemon, tmp_path))
    yield found
    found.close()
    for box in daemon.boxes():
        daemon.destroy(box)


def run_program(program, daemon):
    env = {**os.environ, "ATOLL_URL": f"http://{daemon.address}", "ATOLL_TOKEN": daemon.token}
    r = subprocess.run(["node", "--input-type=module", "-"], input=program, cwd=package.PACKAGE, env=env, capture_output=True, text=True,
                       check=False, timeout=120)
    return r.returncode, r.stdout + r.stderr


def test_readme_can_be_followed(daemon, shell, tmp_path):
    if not (npmdir.installed(COMPAT) and package.built()):
        pytest.skip(package.WHY_NOT)
    found = examples.of_page((ROOT / "README.md").read_text(encoding="utf-8"))
    assert any(isinstance(one, examples.Command) and one.text == INSTALL for one in found)
    for one in found:
        if isinstance(one, examples.File):
            (tmp_path / "atoll-demo" / one.name).write_text(one.text, encoding="utf-8")
            continue
        if isinstance(one, examples.Program):
            code, out = run_program(one.text, daemon)
        else:
            command = f"ln -s {shlex.quote(str(COMPAT))}/node_modules ." if one.text == INSTALL else one.text
            code, out = shell.run(examples.adapted(daemon, command))
        expected = examples.adapted(daemon, one.output or "")
        assert code == 0 and examples.matches(expected, out), f"{one.text}\nexit {code}, printed:\n{out}\nexpected:\n{expected}"
    assert daemon.boxes() == []
