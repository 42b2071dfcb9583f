"""tools/fuzz runs the targets that changed and have not passed before, in a tree with two targets that are scripts."""

import os
import re
import shutil
import subprocess
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]
GIT = ["git", "-c", "user.name=t", "-c", "user.email=t@example.org", "-c", "init.defaultBranch=main", "-c", "commit.gpgsign=false"]
MISSING = [program for program in ("clang", "ninja") if not shutil.which(program)]
pytestmark = pytest.mark.skipif(bool(MISSING), reason=f"{', '.join(MISSING)}: not installed (tools/deps test)")

# A target is its sources one after the other: a script.
NINJA = """rule link
  command = cat $in > $out && chmod +x $out
build tests/fuzz/fuzz_a: link ../../tests/fuzz/fuzz_a.c ../../src/base/a.c
build tests/fuzz/fuzz_b: link ../../tests/fuzz/fuzz_b.c ../../src/http/b.c
build fuzz: phony tests/fuzz/fuzz_a tests/fuzz/fuzz_b
build all: phony fuzz
"""
SCRIPT = "#!/bin/sh\necho stat::number_of_executed_units: 7 >&2\n"


class Tree:
    def __init__(self, top):
        self.top, self.images = top, top.parent / "images"
        (top / "tools").mkdir(parents=True)
        for tool in ("fuzz", "fuzz-changed"):
            shutil.copy(ROOT / "tools" / tool, top / "tools")
        shutil.copytree(ROOT / "tools/lint.d", top / "tools/lint.d", ignore=shutil.ignore_patterns("*.allowed", "__pycache__"))
        self.write(".gitignore", "build/\n__pycache__/\n")
        self.write("build/fuzz/build.ninja", NINJA)
        for name in "ab":
            self.write(f"tests/fuzz/fuzz_{name}.c", SCRIPT)
            self.write(f"tests/fuzz/corpus/{name}/one", "1")
        for path in ("src/base/a.c", "src/base/a.h", "src/http/b.c", "src/http/b.h", "src/gate/c.h", "tests/fuzz/fuzz.h", "meson.build"):
            self.write(path, "# \n")
        subprocess.run([*GIT, "init", "-q"], cwd=top, check=True)
        subprocess.run([*GIT, "add", "-A"], cwd=top, check=True)
        subprocess.run([*GIT, "commit", "-q", "-m", "x"], cwd=top, check=True)
        self.write("tools/lint-base", subprocess.run([*GIT, "rev-parse", "HEAD"], cwd=top, check=True, capture_output=True, text=True).stdout)

    def write(self, path, text):
        file = self.top / path
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_text(text)

    def fuzz(self, *arguments, seconds=5):
        """({name: what came of it}, the last line)"""
        env = {**os.environ, "ATOLL_IMAGES": str(self.images), "FUZZ_SECONDS": str(seconds), "PYTHONDONTWRITEBYTECODE": "1"}
        r = subprocess.run(["tools/fuzz", *arguments], cwd=self.top, env=env, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, check=False, text=True)
        last = r.stdout.splitlines()[-1]
        assert r.returncode == (", 0 failed" not in last), r.stdout
        return {name: word for word, name in re.findall(r"^(ok|FAIL|SKIPPED) +(?:fuzz )?(\w+):", r.stdout, re.M)}, last


@pytest.fixture
def tree(tmp_path):
    return Tree(tmp_path / "tree with a blank")


def test_targets_that_changed_run_once_for_each_state(tree):
    assert tree.fuzz("--changed") == ({}, "0 passed, 0 failed, 0 skipped")
    tree.write("tools/fuzz", (tree.top / "tools/fuzz").read_text() + "# changed\n")
    tree.write("src/gate/c.h", "# changed\n")
    assert tree.fuzz("--changed")[0] == {}, "neither is a part of a target"
    tree.write("src/http/b.h", "# changed\n")
    assert tree.fuzz("--changed") == ({"b": "ok"}, "1 passed, 0 failed, 0 skipped")
    assert tree.fuzz("--changed") == ({"b": "SKIPPED"}, "0 passed, 0 failed, 1 skipped")
    assert tree.fuzz("--changed", seconds=6) == ({"b": "ok"}, "1 passed, 0 failed, 0 skipped"), "it has passed for a shorter time"
    tree.write("tests/fuzz/corpus/b/two", "2")
    assert tree.fuzz("--changed")[0] == {"b": "ok"}
    tree.write("src/base/a.h", "# changed\n")
    assert tree.fuzz("--changed")[0] == {"a": "ok", "b": "ok"}, "all modules include those of base"
    assert tree.fuzz("--changed")[0] == {"a": "SKIPPED", "b": "SKIPPED"}
    tree.write("tests/fuzz/fuzz.h", "# changed\n")
    assert tree.fuzz("--changed")[0] == {"a": "ok", "b": "ok"}
    assert tree.fuzz() == ({"a": "ok", "b": "ok"}, "2 passed, 0 failed, 0 skipped"), "make fuzz runs all"


def test_a_target_that_fails_runs_again(tree):
    tree.write("tests/fuzz/fuzz_a.c", SCRIPT + "echo it hurts >&2\nexit 77\n")
    for _ in range(2):
        assert tree.fuzz("--changed") == ({"a": "FAIL"}, "0 passed, 1 failed, 0 skipped")
    tree.write("tests/fuzz/fuzz_a.c", SCRIPT + "\n")
    assert tree.fuzz("--changed")[0] == {"a": "ok"}
    tree.write("tools/lint-base", "0" * 40 + "\n")
    assert tree.fuzz("--changed")[0] == {"a": "SKIPPED", "b": "ok"}, "the commit is not known"
