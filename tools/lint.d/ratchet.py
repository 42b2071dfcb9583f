"""What the checks of tools/lint share: the files of the tree, and lists of violations that may only shrink.

A check gives its violations to main(). tools/lint.d/RULE.allowed holds those that existed when the rule was made, one on a line,
sorted: a key that stays the same when lines move, and how often it occurs when that is more than once: `src/a.c amid (2)`.
A violation past the list fails, and so does a line of the list that is no longer true. The sum of a list is never larger than
it was at the commit that tools/lint-base names; a commit without the list is counted with today's check.

    --shrink   take the lines that are no longer true from the list; never adds one
    --list     print the list that today's tree would need: for a merge of two branches

As a program it prints the files of the tree that match the patterns in its arguments.
"""
import hashlib
import os
import re
import shutil
import subprocess
import sys
import tempfile
from collections import Counter, defaultdict, namedtuple
from fnmatch import fnmatch

import passed

# key: names the violation in the list; place: file:line; text: what is wrong and what to do
Violation = namedtuple("Violation", "key place text")
SHOWN = 10  # places of one key: which of them are new cannot be known
COUNTED = re.compile(r"(.*) \((\d+)\)")
DIRECTORY = "tools/lint.d"
BASE = "tools/lint-base"
MADE = (".git", ".cache", "build", "node_modules", "__pycache__")


def git(*arguments):
    """What git prints, or None when it fails."""
    done = subprocess.run(["git", *arguments], capture_output=True, check=False)
    return done.stdout.decode(errors="replace") if done.returncode == 0 else None


def tracked(*patterns):
    """The files that git knows or would, and that exist, sorted. Without git, those outside of directories that are made."""
    listed = git("ls-files", "-z", "--cached", "--others", "--exclude-standard", "--", *patterns)
    if listed is not None:
        return sorted({name for name in listed.split("\0") if name and os.path.isfile(name)})
    found = []
    for directory, inner, names in os.walk("."):
        inner[:] = [name for name in inner if name not in MADE]
        paths = (os.path.normpath(os.path.join(directory, name)) for name in names)
        found += [path for path in paths if not patterns or any(fnmatch(path, p) or path.startswith(p + "/") for p in patterns)]
    return sorted(found)


def text_of(path):
    with open(path, encoding="utf-8", errors="replace") as f:
        return f.read()


def line_of(text, offset):
    return text.count("\n", 0, offset) + 1


def list_path(rule):
    return f"{DIRECTORY}/{rule}.allowed"


def parse(text):
    """The keys of a list and how often each may occur, and the line of each key."""
    counts, lines = Counter(), {}
    for number, line in enumerate(text.splitlines(), 1):
        match = COUNTED.fullmatch(line)
        key = match.group(1) if match else line
        counts[key] += int(match.group(2)) if match else 1
        lines[key] = number
    return counts, lines


def render(counts):
    return "".join(key + (f" ({n})" if n > 1 else "") + "\n" for key, n in sorted(counts.items()) if n)


def complaints(rule, found, allowed, lines):
    """What a run prints, sorted by place: (place, text)."""
    at = defaultdict(list)
    for violation in found:
        at[violation.key].append(violation)
    for key, violations in at.items():
        if len(violations) > allowed[key]:
            known = f" ({len(violations)} here, {list_path(rule)} has {allowed[key]})" if allowed[key] else ""
            for violation in violations[:SHOWN]:
                yield violation.place, violation.text + known
    for key, n in allowed.items():
        left = len(at.get(key, ()))
        if left < n:
            what = f'write "{render({key: left}).rstrip()}"' if left else "remove this line"
            yield f"{list_path(rule)}:{lines[key]}", f'{what}: "{key}" occurs {left} times, not {n} (tools/lint --shrink {rule} does it)'


def count_at(base, rule):
    """How many violations today's check finds in the tree of a commit; None without the commit. Kept: it never changes."""
    name = hashlib.sha256("\0".join([base, *map(text_of, (f"tools/check-{rule}", "tools/lint", __file__))]).encode()).hexdigest()
    note = f"{passed.directory('ratchet')}/{name}"
    known = passed.look(note)
    if known:
        return int(known)
    with tempfile.TemporaryDirectory() as top:
        tree = subprocess.run(["git", "archive", "--format=tar", base], stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, check=False)
        if tree.returncode:
            return None
        subprocess.run(["tar", "-x", "-C", top], input=tree.stdout, check=True)
        shutil.copytree("tools", f"{top}/tools", dirs_exist_ok=True, ignore=shutil.ignore_patterns("image", "__pycache__"))
        env = {name: value for name, value in os.environ.items() if not name.startswith("GIT_")}
        env["GIT_CEILING_DIRECTORIES"] = os.path.dirname(os.path.realpath(top))  # the tree belongs to no repository
        listed = subprocess.run([f"{top}/tools/check-{rule}", "--list"], stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, check=False, env=env)
    if listed.returncode not in (0, 1):  # 1: the table of arrows does not suit the rooms of that tree
        return None
    count = sum(parse(listed.stdout.decode())[0].values())
    with open(f"{note}.{os.getpid()}", "w", encoding="ascii") as f:
        f.write(str(count))
    os.rename(f.name, note)
    return count


def grown(rule, allowed):
    """The complaint about a list that has more violations than the base, if any. Where git does not know the base there is none."""
    if not allowed or not os.path.isfile(BASE):
        return
    base = text_of(BASE).strip()
    listed = git("show", f"{base}:{list_path(rule)}")
    before = count_at(base, rule) if listed is None else sum(parse(listed)[0].values())
    if before is not None and sum(allowed.values()) > before:
        yield f"{list_path(rule)}:1", f"the list has {sum(allowed.values())} violations, {before} at the commit in {BASE}: it may only shrink"


def main(rule, found):
    """The exit code of a check whose violations are `found`."""
    found = list(found)
    counts = Counter(violation.key for violation in found)
    path = list_path(rule)
    if sys.argv[1:] == ["--list"]:
        sys.stdout.write(render(counts))
        return 0
    old = text_of(path) if os.path.exists(path) else ""
    allowed, lines = parse(old)
    if sys.argv[1:] == ["--shrink"]:
        allowed &= counts
        if not allowed and os.path.exists(path):
            os.unlink(path)
        elif render(allowed) != old:
            with open(path, "w", encoding="utf-8") as f:
                f.write(render(allowed))
    elif sys.argv[1:]:
        print(f"check-{rule}: takes --shrink or --list", file=sys.stderr)
        return 2
    bad = [*complaints(rule, found, allowed, lines), *grown(rule, allowed)]
    if not bad and render(allowed) != old and sys.argv[1:] != ["--shrink"]:
        bad = [(f"{path}:1", f"is not sorted, or has a line twice: tools/lint --shrink {rule}")]
    for place, text in sorted(bad, key=lambda each: (each[0].split(":")[0], int(each[0].split(":")[1]), each[1])):
        print(f"{place}: {text}")
    return 1 if bad else 0


if __name__ == "__main__":
    print("".join(path + "\n" for path in tracked(*sys.argv[1:])), end="")
