"""Finds the examples on a page of documentation that a test can run.

    ```console   a line that begins with "$ " is a command; the lines below it are its output
    ```js        a program, if it imports atoll-sandbox; a ```text block right below it is its output
    ```js        a file, if its first line is "// NAME.mjs"; later commands use it

In an output "…" stands for any text.

Pages name the daemon that `make run` starts. `adapted` replaces that daemon's address and directories with those of the test's daemon.
"""

import os
import re
import subprocess
from dataclasses import dataclass

_FENCE = re.compile(r"^```(\w*)\n(.*?)^```$", re.M | re.S)


@dataclass
class Block:
    """One block of a page, whether a test can run it or not."""

    kind: str
    text: str
    line: int
    begin: int
    end: int


@dataclass
class Command:
    text: str
    line: int
    output: str = ""


@dataclass
class Program:
    text: str
    line: int
    output: str | None = None
    output_line: int = 0


@dataclass
class File:
    name: str
    text: str
    line: int


def blocks(text):
    return [Block(m[1], m[2], text.count("\n", 0, m.start()) + 1, m.start(), m.end()) for m in _FENCE.finditer(text)]


def commands(block):
    found = []
    for line in block.text.splitlines(keepends=True):
        if line.startswith("$ "):
            found.append(Command(line[2:].rstrip("\n"), block.line))
        else:
            found[-1].output += line
    return found


def of_page(text):
    """Returns the examples of a page in order."""
    found, last, end = [], None, -1
    for block in blocks(text):
        if block.kind == "console":
            found += commands(block)
        elif block.kind == "js" and (name := re.match(r"// (\w+\.mjs)\n", block.text)):
            found.append(File(name[1], block.text, block.line))
        elif block.kind == "js" and re.search(r"^import .* from 'atoll-sandbox'", block.text, re.M):
            last = Program(block.text, block.line)
            found.append(last)
            end = block.end
            continue
        elif block.kind == "text" and last and not text[end : block.begin].strip():
            last.output, last.output_line = block.text, block.line
        last = None
    return found


def lines_run(text):
    """Returns the lines of the blocks that of_page finds."""
    found = of_page(text)
    return {one.line for one in found} | {one.output_line for one in found if isinstance(one, Program) and one.output is not None}


def matches(expected, got):
    pattern = ".*".join(map(re.escape, expected.strip().split("…")))
    return re.fullmatch(pattern, got.strip(), re.S) is not None


def environment(daemon, home):
    """Returns the environment of a user of this machine: the daemon's directories, and no ATOLL_URL or ATOLL_TOKEN."""
    env = {name: value for name, value in os.environ.items() if not name.startswith("ATOLL_")}
    env.update(HOME=str(home), NO_COLOR="1", ATOLL_RUN=str(daemon.run), ATOLL_DATA=str(daemon.data), ATOLL_IMAGES=daemon.env["ATOLL_IMAGES"])
    return env


def adapted(daemon, text):
    port = daemon.address.rpartition(":")[2]
    words = {**getattr(daemon, "words", {}), "127.0.0.1:8700": daemon.address, "localhost:8700": f"localhost:{port}",
             "/var/lib/atoll/": f"{daemon.data}/", "/run/atoll/": f"{daemon.run}/"}
    for old, new in words.items():
        text = text.replace(old, new)
    return text


class Shell:
    """One bash for all commands, so that directories and variables stay."""

    def __init__(self, cwd, env, prefix=()):
        """`prefix`: a command that executes the shell, in other namespaces for instance."""
        # It leaves no process behind: close() waits for the shell.
        self.bash = subprocess.Popen([*prefix, "bash", "--norc", "--noprofile"], cwd=cwd, env=env, stdin=subprocess.PIPE, stdout=subprocess.PIPE,
                                     stderr=subprocess.STDOUT, text=True)

    def run(self, command):
        """Returns the exit code and the output, stderr included."""
        self.bash.stdin.write(f"{{ {command}\n}} < /dev/null; printf '\\036%s\\n' $?\n")
        self.bash.stdin.flush()
        text = ""
        for line in self.bash.stdout:
            before, mark, code = line.partition("\036")
            text += before
            if mark:
                return int(code), text
        raise AssertionError(f"the shell ended in: {command}\n{text}")

    def close(self):
        self.bash.stdin.close()
        self.bash.stdout.close()
        self.bash.wait(timeout=60)
