"""Every rule of tools/lint can fail: each runs over a small tree with one violation, in a directory of its own."""

import ast
import json
import os
import shutil
import subprocess
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]
GIT = ["git", "-c", "user.name=t", "-c", "user.email=t@example.org", "-c", "init.defaultBranch=main", "-c", "commit.gpgsign=false"]
DURING, NO_CLIENT, A_CLIENT, AFTER = "am" + "id", "no" + "body", "some" + "body", "be" + "hind"  # check-language reads this file too
MISSING = [program for program in ("clang-format", "clang-tidy", "shellcheck", "flake8") if not shutil.which(program)]
pytestmark = pytest.mark.skipif(bool(MISSING), reason=f"{', '.join(MISSING)}: not installed (tools/deps lint)")


def table(check, name):
    """A table of a check, from its source."""
    for node in ast.parse((ROOT / "tools" / check).read_text()).body:
        if isinstance(node, ast.Assign) and node.targets[0].id == name:
            return ast.literal_eval(node.value)
    raise AssertionError(f"{check} has no {name}")


class Tree:
    """A tree in which lint finds nothing: the modules and rooms of the tables, a few files, and no lists."""

    def __init__(self, top):
        self.top = top
        shutil.copytree(ROOT / "tools", top / "tools", ignore=shutil.ignore_patterns("*.allowed", "__pycache__", "image", "lint-base"))
        for name in (".clang-format", ".clang-tidy", "tests/.clang-tidy", ".flake8", ".gitignore"):
            self.write(name, (ROOT / name).read_text())
        for module in table("check-layers", "LAYERS"):
            (top / "src" / module).mkdir(parents=True)
        for program, rooms in table("check-rooms", "ARROWS").items():
            for room in set(rooms) - {".", "top"}:
                (top / "src" / (room if "/" in room else f"{program}/{room}")).mkdir(parents=True)
        for program, names in table("check-rooms", "TOP").items():
            self.write(f"src/{program}/README.md", "".join(f"`{name}`\n" for name in names.split()))
            for name in names.split():
                self.write(f"src/{program}/{name}", "")
        self.write("src/base/README.md", "`a.c` and `limits.h`\n")
        self.write("src/base/limits.h", "#define A_MAX 3\n")
        self.write("src/base/a.c", '#include "base/limits.h"\n\nint a(void);\n\nint a(void)\n{\n\treturn A_MAX;\n}\n')
        names = subprocess.run(["tools/lint", "--help"], cwd=top, stdout=subprocess.PIPE, check=True, text=True).stdout
        self.checks = [line.split()[0] for line in names.splitlines() if line.startswith("  ") and line.split()[0].isalpha()]
        self.write("CONTRIBUTING.md", "".join(f"`{check}`\n" for check in self.checks))
        self.git("init", "-q")

    def write(self, path, text):
        file = self.top / path
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_text(text)

    def git(self, *arguments):
        return subprocess.run([*GIT, *arguments], cwd=self.top, stdout=subprocess.PIPE, check=True, text=True).stdout.strip()

    def commit(self):
        self.git("add", "-A")
        self.git("commit", "-q", "-m", "x")
        return self.git("rev-parse", "HEAD")

    def run(self, *arguments, **env):
        clean = {name: value for name, value in os.environ.items() if name not in ("ATOLL_NIGHTLY", "GIT_DIR", "GIT_INDEX_FILE")}
        clean["ATOLL_IMAGES"] = str(self.top.parent / "images")  # beside which results are kept
        r = subprocess.run(arguments, cwd=self.top, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, check=False, text=True, env={**clean, **env})
        return r.returncode, r.stdout

    def passes(self, *arguments):
        status, out = self.run("tools/lint", *arguments)
        assert status == 0 and out.endswith("0 failed, 0 skipped\n"), out

    def fails(self, check, *parts):
        status, out = self.run("tools/lint", check)
        assert status == 1 and out.endswith(f"failed: {check}\n0 passed, 1 failed, 0 skipped\n"), out
        for part in parts:
            assert part in out, out


@pytest.fixture
def tree(tmp_path):
    return Tree(tmp_path / "tree with a blank")


STATE = """enum x_state { A, B, X_STATES };

struct x {
    enum x_state state;
    bool p, q, r;
};

static const bool moves[X_STATES][X_STATES] = {[A] = {[B] = true}};

void x_move(struct x *x, enum x_state to)
{
    if (moves[x->state][to])
        x->state = to;
}
""".replace("    ", "\t")

# check, file, its text, what lint says of it
VIOLATIONS = [
    ("format", "src/base/b.c", "int  b;\n", "src/base/b.c:1:"),
    ("format", "src/base/b.c", "struct\nb {\n\tint c;\n};\n", "src/base/b.c:1:"),
    ("names", "src/base/b.c", '/* a new one */\nint f(int new);\n', "src/base/b.c:2: 'new' is a keyword of C++"),
    ("layers", "src/base/b.c", '#include "daemon/main.h"\n', 'src/base/b.c:1: "daemon/main.h" is not below src'),
    ("layers", "src/new/b.c", "", "src/new/b.c:1: module 'new' has no layer"),
    ("rooms", "src/agent/proc/b.c", '\n#include "agent/shell/b.h"\n', 'src/agent/proc/b.c:2: room agent/proc must not include "agent/shell/b.h"'),
    ("rooms", "src/agent/new/b.c", "", "tools/check-rooms:"),
    ("limits", "src/base/limits.h", "#define A_MAX 3\n#define B_MAX 4\n", "src/base/limits.h:2: B_MAX is a limit that nothing uses"),
    ("states", "src/base/b.c", STATE + "\nvoid x_break(struct x *x)\n{\n\tx->state = B;\n}\n",
     "src/base/b.c:18: x_break() assigns the state struct x.state: only x_move() may"),
    ("states", "src/base/b.c", STATE + "\nvoid x_break(struct y *y, struct x *x)\n{\n\ty->n = 1;\n\tx->state = B;\n}\n",
     "src/base/b.c:19: x_break() assigns the state struct x.state: only x_move() may"),
    ("states", "src/base/b.c", STATE.replace("x_state", "x_status").replace("moves[x->state]", "sizes[x->state]"),
     "src/base/b.c:13: x_move() assigns the state struct x.state: no function"),
    ("states", "src/base/b.c", STATE.replace("moves[x->state][to]", "moves[to][A]"), "src/base/b.c:13: x_move() assigns the state struct x.state: no"),
    ("states", "src/base/b.c", STATE.replace("if (moves[x->state][to])", ""), "src/base/b.c:13: x_move() assigns the state struct x.state: no function"),
    ("states", "src/base/b.c", STATE.replace("p, q, r", "p, q, r, s"), "src/base/b.c:3: struct x has 4 booleans beside its state"),
    ("states", "src/base/b.c", STATE.replace("bool p, q, r", "bool p, q, r;\n\tunsigned s : 1"), "src/base/b.c:3: struct x has 4 booleans"),
    ("states", "src/base/b.c", STATE.replace("bool p, q, r", "unsigned flags"), "src/base/b.c:3: struct x has an integer of flags beside its state: flags"),
    ("words", "src/base/b.c", "struct b {\n\tint c;\n};\nstruct a {\n\tint d;\n};\n", "src/base/b.c:4: struct a is also defined in src/agent/shell/b.h:1"),
    ("sizes", "src/base/b.c", "int b;\n" * 601, "src/base/b.c:1: file of 601 lines"),
    ("sizes", "src/base/b.c", "int b(void)\n{\n" + "\tb();\n" * 61 + "}\n", "src/base/b.c:2: function of 61 lines"),
    ("calls", "src/base/b.c", "int b = atoi(p);\n", "src/base/b.c:1:"),
    ("language", "src/base/b.c", f"int b; /* {NO_CLIENT.title()}\n * reads it {DURING} a write; it is {AFTER}\n * it */\n",
     f'src/base/b.c:2: "{DURING}": during'),
    ("language", "docs/b.md", f"A\nB, whom {A_CLIENT} asks\n", f'docs/b.md:2: "{A_CLIENT}"'),
    ("language", "src/base/b.c", f'const char *b = "the part {AFTER} it";\n', f'src/base/b.c:1: "{AFTER} it"'),
    ("pages", "src/base/b.c", "", "src/base/README.md:1: does not list b.c"),
    ("pages", "src/store/b.c", "", "src/store/README.md:1: there is none"),
    ("pages", "docs/b.md", "word " * 30 + "\n", "docs/b.md:1: 150 characters, 120 allowed"),
    ("pages", "CONTRIBUTING.md", "`tidy`\n", "CONTRIBUTING.md:1: does not name the check `rooms`"),
    ("shell", "tools/b", "#!/bin/bash\necho $1\n", "SC2086"),
    ("python", "tools/b.py", "import os\n", "tools/b.py:1:1: F401"),
]


def test_a_small_tree_passes_and_each_violation_fails(tree):
    tree.write("src/agent/shell/b.h", "struct a {\n\tint i;\n};\n")
    tree.write("src/agent/shell/README.md", "`b.h`\n")
    rules = [check for check in tree.checks if check != "tidy"]
    assert set(rules) == {check for check, *_ in VIOLATIONS}, "every rule is tried"
    tree.passes(*rules)
    for check, path, text, said in VIOLATIONS:
        file = tree.top / path
        before = file.read_text() if file.exists() else None
        tree.write(path, text)
        tree.fails(check, said)
        if before is None:
            file.unlink()
            if file.parent.name == "new":
                file.parent.rmdir()
        else:
            tree.write(path, before)
    tree.passes(*rules)


def test_words_that_only_look_forbidden_pass(tree):
    tree.write("docs/b.md", f"the user {NO_CLIENT}, `{NO_CLIENT}`, \"{NO_CLIENT}\", uid={NO_CLIENT}, id {NO_CLIENT}-here; "
               f"root inside a box is {NO_CLIENT} outside\n| {'x' * 130} |\n"
               f"[a link](https://example.org/{'x' * 130})\nhttps://example.org/{'x' * 130}\n```\n{'x' * 130}\n```\n")
    tree.write("src/base/b.c", STATE)
    tree.write("src/base/README.md", "`a.c`, `limits.h`, `b.h`\n")
    tree.passes("language", "pages", "states", "names")


def test_a_list_only_shrinks(tree):
    known = "tools/lint.d/language.allowed"
    tree.write("docs/a.md", f"{DURING}\n{DURING}\n")
    tree.write("docs/b.md", f"{NO_CLIENT}\n")
    status, out = tree.run("tools/check-language", "--list")
    assert (status, out) == (0, f"docs/a.md {DURING} (2)\ndocs/b.md {NO_CLIENT}\n")
    tree.write(known, out)
    tree.passes("language")

    tree.write("docs/a.md", f"{DURING}\n\n\n{DURING}, {DURING}\n")
    tree.fails("language", "docs/a.md:4: ", f"(3 here, {known} has 2)")
    status, _ = tree.run("tools/lint", "--shrink", "language")
    assert status == 1 and (tree.top / known).read_text() == out, "nothing was added"

    tree.write("docs/a.md", "during\namid\n")
    tree.fails("language", f'{known}:1: write "docs/a.md {DURING}"')
    tree.write("docs/b.md", "no client\n")
    tree.fails("language", f"{known}:2: remove this line")
    tree.passes("--shrink", "language")
    assert (tree.top / known).read_text() == f"docs/a.md {DURING}\n"
    tree.passes("language")

    tree.write(known, f"docs/a.md {DURING}\ndocs/a.md {DURING}\n")
    tree.fails("language", f"{known}:2: ")
    tree.write("docs/b.md", f"{NO_CLIENT}\n")
    tree.write(known, f"docs/b.md {NO_CLIENT}\ndocs/a.md {DURING}\n")
    tree.fails("language", f"{known}:1: is not sorted")
    tree.passes("--shrink", "language")
    (tree.top / "docs/b.md").unlink()
    tree.write(known, f"docs/a.md {DURING}\n")
    tree.write("tools/lint-base", tree.commit() + "\n")
    tree.write("docs/c.md", f"{DURING}\n")
    tree.write(known, f"docs/a.md {DURING}\ndocs/c.md {DURING}\n")
    tree.fails("language", f"{known}:1: the list has 2 violations, 1 at the commit in tools/lint-base: it may only shrink")


def test_a_list_that_the_base_lacks_is_not_longer_than_what_the_base_needs(tree):
    known = "tools/lint.d/language.allowed"
    tree.write("docs/a.md", f"{DURING}\n")
    tree.write("tools/lint-base", tree.commit() + "\n")
    tree.write("docs/a.md", "during\n")
    tree.write("docs/b.md", f"{DURING}\n")
    tree.write(known, f"docs/b.md {DURING}\n")
    tree.passes("language")
    tree.write("docs/a.md", f"{DURING}\n")
    tree.write(known, f"docs/a.md {DURING}\ndocs/b.md {DURING}\n")
    for _ in range(2):  # the count is kept
        tree.fails("language", f"{known}:1: the list has 2 violations, 1 at the commit in tools/lint-base: it may only shrink")
    tree.write("tools/lint-base", "0" * 40 + "\n")
    tree.passes("language")


@pytest.mark.parametrize("rule, old, new, said", [
    ("rooms", '"proc": ". fuse"', '"proc": ". fuse shell"', "arrows of agent run in a circle: proc -> shell -> proc"),
    ("rooms", '"proc": ". fuse"', '"proc": ". fuse none"', "may include 'none', which has no line"),
    ("rooms", '"proc": ". fuse"', '"proc": ". fuse", "none": ""', "there is no src/agent/none: remove its line"),
    ("rooms", '"agent.c api_misc.c', '"none.c api_misc.c', "there is no src/agent/none.c: take it from TOP"),
    ("layers", '    "base": ""', '    "none": "",\n    "base": ""', "there is no src/none: remove its line"),
    ("layers", '"base": ""', '"base": "none"', "module 'none' has no line"),
    ("layers", '"base": ""', '"base": "proto"', "modules include each other: base -> proto -> base"),
])
def test_a_wrong_table_is_found(tree, rule, old, new, said):
    check = tree.top / "tools" / f"check-{rule}"
    text = check.read_text()
    assert old in text
    check.write_text(text.replace(old, new))
    tree.fails(rule, f"tools/check-{rule}:", said)


def test_unknown_names_are_wrong_usage(tree):
    assert tree.run("tools/lint", "no-such-check")[0] == 2
    assert tree.run("tools/check-words", "--add")[0] == 2
    assert tree.run("tools/check-tidy", "--some")[0] == 2


CODE = '#include "%s"\n\nint %s(int n);\n\nint %s(int n)\n{\n\treturn n;\n}\n'
FAULT = "int a(int n);\n\nint a(int n)\n{\n\treturn n == n;\n}\n"


@pytest.fixture
def tidied(tree):
    """A tree with a build of four sources, at the commit in tools/lint-base."""
    for name, header in (("a", "base/one.h"), ("b", "base/two.h"), ("c", "base/limits.h"), ("d", "../one.h")):
        tree.write(f"src/base/{name}.c" if name != "d" else "src/base/d/d.c", CODE % (header, name, name))
    tree.write("src/base/one.h", '#include "base/two.h"\n')
    tree.write("src/base/two.h", "struct two {\n\tint n;\n};\n")
    tree.write("src/base/meson.build", "x = library('x', 'a.c', c_args: ['-DX'])\n")
    for build in ("host", "static"):
        entries = [{"directory": str(tree.top / "build" / build), "file": f"../../{path}",
                    "command": f"cc -I../../src -MD -MQ x.o -MF x.o.d -o x.o -c ../../{path}"} for path in SOURCES]
        tree.write(f"build/{build}/compile_commands.json", json.dumps(entries))
    tree.base = tree.commit()
    tree.write("tools/lint-base", tree.base + "\n")
    return tree


SOURCES = ["src/base/a.c", "src/base/b.c", "src/base/c.c", "src/base/d/d.c"]


def which(tree, *options, **env):
    """The files that would be checked, and why."""
    status, out = tree.run("tools/check-tidy", "--which", *options, **env)
    assert status == 0, out
    first, *paths = out.splitlines()
    assert first.startswith(f"clang-tidy over {len(paths)} of 4 files: "), out
    return paths, first.split(": ", 1)[1]


def test_tidy_checks_what_changed(tidied):
    assert which(tidied) == ([], "changed since " + tidied.base)
    tidied.passes("tidy")
    tidied.write("src/base/c.c", FAULT)
    assert which(tidied)[0] == ["src/base/c.c"], "a change that is not committed"
    tidied.fails("tidy", "clang-tidy over 1 of 4 files", "src/base/c.c:5:", "misc-redundant-expression")
    tidied.commit()
    tidied.fails("tidy", "src/base/c.c:5:")
    tidied.git("checkout", "-q", tidied.base, "--", "src/base/c.c")
    assert which(tidied)[0] == []

    tidied.write("src/base/one.h", '#include "base/two.h"\n\n')
    assert which(tidied)[0] == ["src/base/a.c", "src/base/d/d.c"], "what includes the header, by its path or relative to itself"
    tidied.git("checkout", "-q", tidied.base, "--", "src/base/one.h")
    tidied.write("src/base/two.h", "struct two {\n\tlong n;\n};\n")
    assert which(tidied)[0] == ["src/base/a.c", "src/base/b.c", "src/base/d/d.c"], "also through another header"
    tidied.git("checkout", "-q", tidied.base, "--", "src/base/two.h")

    tidied.write("src/base/meson.build", "x = library('x', 'a.c', 'b.c', c_args: ['-DX'])\n")
    assert which(tidied)[0] == [], "a new source is no flag"
    tidied.write("src/base/meson.build", "x = library('x', 'a.c', c_args: ['-DX'])\ny = executable('y', 'b.c', link_args: static_link)\n")
    assert which(tidied)[0] == [], "a new program is none, either"


def test_tidy_finds_what_passed_in_another_checkout(tidied, tmp_path):
    tidied.passes("tidy", "--all")
    shutil.copytree(tidied.top, tmp_path / "second")
    tidied.top = tmp_path / "second"
    for database in tidied.top.glob("build/*/compile_commands.json"):
        database.write_text(database.read_text().replace("tree with a blank", "second"))

    def before(count, **env):
        status, out = tidied.run("tools/check-tidy", "--all", **env)
        assert (f"{count} of them passed before\n" if count else "4 files: as asked\n") in out and out.count("\n") == 1 + bool(count) + status, out
        return status

    assert before(4) == 0
    assert before(0, ATOLL_NIGHTLY="1") == 0
    tidied.write("src/base/two.h", "struct two {\n\tlong n;\n};\n")
    assert before(1) == 0, "three include the header"
    assert before(4) == 0
    tidied.write(".clang-tidy", (ROOT / ".clang-tidy").read_text() + "# changed\n")
    assert before(0) == 0
    host = tidied.top / "build/host/compile_commands.json"
    host.write_text(host.read_text().replace("-I../../src", "-I../../src -DX"))
    assert before(0) == 0
    tidied.write("src/base/c.c", FAULT)
    assert [tidied.run("tools/check-tidy", "--all")[0] for _ in range(2)] == [1, 1], "a fault is found again"


def test_tidy_checks_everything_where_it_cannot_tell(tidied, tmp_path):
    def everything(why, *options, **env):
        assert which(tidied, *options, **env) == (SOURCES, why)

    everything("as asked", "--all")
    everything("as asked", ATOLL_NIGHTLY="1")
    for path in (".clang-tidy", "tests/.clang-tidy", "meson_options.txt"):
        before = (tidied.top / path).read_text() if (tidied.top / path).exists() else ""
        tidied.write(path, before + "\n# changed\n")
        everything(f"{path} changed")
        tidied.git("add", "-A")
        everything(f"{path} changed")
        tidied.git("reset", "-q", "--hard")
        tidied.write("tools/lint-base", tidied.base + "\n")
    tidied.write("src/base/meson.build", "x = library('x', 'a.c', c_args: ['-DY'])\n")
    everything("src/base/meson.build changed flags")

    tidied.write("tools/lint-base", "main\n")
    everything("tools/lint-base holds no whole commit hash")
    tidied.write("tools/lint-base", "0" * 40 + "\n")
    everything(f"git does not know the commit {'0' * 40} of tools/lint-base")
    (tidied.top / "tools/lint-base").unlink()
    everything("there is no tools/lint-base")

    tidied.write("tools/lint-base", tidied.base + "\n")
    tidied.git("reset", "-q", "--hard")
    tidied.write("src/base/c.c", "\n")
    tidied.commit()
    subprocess.run([*GIT, "clone", "-q", "--depth=1", f"file://{tidied.top}", tmp_path / "shallow"], check=True)
    shutil.rmtree(tidied.top / ".git")
    (tmp_path / "shallow/.git").rename(tidied.top / ".git")
    tidied.write("tools/lint-base", tidied.base + "\n")
    everything(f"git does not know the commit {tidied.base} of tools/lint-base")
    shutil.rmtree(tidied.top / ".git")
    everything(f"git does not know the commit {tidied.base} of tools/lint-base")
    tidied.write("docs/b.md", f"{DURING}\n")
    tidied.fails("language", "docs/b.md:1:")
