"""The project's own commands, in a clone with a blank in its path below a directory that root alone can enter."""

import os
import re
import shutil
import subprocess
import tempfile
from pathlib import Path

import fixtures
import pytest

ROOT = Path(__file__).resolve().parents[2]
OWN_DAEMON = "the daemons are those of the clone's runs"
MISSING = [program for program in ("git", "meson", "ninja", "clang-format", "shellcheck") if not shutil.which(program)]
pytestmark = [
    pytest.mark.skipif(bool(MISSING), reason=f"{', '.join(MISSING)}: not installed (tools/deps test lint)"),
    pytest.mark.skipif("ATOLL_SANITIZED" in os.environ, reason="the programs with sanitizers are not those of build/"),
]


def copy(names, directory):
    """With their times: what is built stays built."""
    subprocess.run(["cp", "-a", "--parents", "-t", directory, *names], cwd=ROOT, check=True)


@pytest.fixture(scope="module")
def clone():
    missing = fixtures.what_is_missing()
    if missing:
        pytest.skip(missing)
    above = Path(tempfile.mkdtemp(prefix="at-", dir="/tmp"))  # mode 0700
    top = above / "a checkout"
    try:
        subprocess.run(["git", "clone", "-q", "--shared", "--no-checkout", ROOT, top], check=True)
        listed = subprocess.run(["git", "ls-files", "-z", "--cached", "--others", "--exclude-standard"], cwd=ROOT, stdout=subprocess.PIPE, check=True)
        copy(sorted({name for name in listed.stdout.decode().split("\0") if name and (ROOT / name).exists()}), top)
        subprocess.run(["git", "reset", "-q"], cwd=top, check=True)
        fixtures.need_room(1, above)
        copy([f"build/{name}" for name in ("host", "static", "kernel-headers", "musl.ini", "musl.specs")], top)
        yield top
    finally:
        shutil.rmtree(above)


def run(clone, *command):
    env = {name: value for name, value in os.environ.items() if not name.startswith(("ATOLL_SHARED", "ATOLL_RUNNER", "ATOLL_BIN", "MAKE", "MFLAGS"))}
    r = subprocess.run(command, cwd=clone, env=env, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, check=False, text=True)
    assert r.returncode == 0, r.stdout
    return r.stdout


def test_the_programs_are_built_and_tested(clone):
    run(clone, "make", "build")
    assert run(clone / "build", "./atoll", "--version").startswith("atoll ")
    assert re.search(r"^[1-9]\d* passed, 0 failed", run(clone, "build/host/tests/unit/unit_base_base"), re.M)
    out = run(clone, "tests/run", "tests/integration/test_cli_env.py")
    assert re.search(r"\n[1-9]\d* passed, 0 failed, 0 skipped\n$", out), out
    assert "\n0 daemons" not in out and (clone / "build/durations.json").exists()


def test_a_build_is_configured(clone):
    """From nothing: the paths of the static build's compiler are those of the clone."""
    copied = clone.parent / "copied"
    copied.mkdir()
    for name in ("static", "musl.ini", "musl.specs"):
        (clone / "build" / name).rename(copied / name)
    run(clone, "make", "build/static/build.ninja")
    assert f"-specs={clone}/build/musl.specs" in (clone / "build/musl.ini").read_text()
    assert run(clone, "ninja", "-C", "build/static", "src/fusermount/atoll-fusermount").count("Linking") > 0


def test_lint_runs(clone):
    assert run(clone, "tools/lint", "format", "shell").endswith("2 passed, 0 failed, 0 skipped\n")
