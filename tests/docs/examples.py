"""The examples of a page of documentation, as blocks that can be run.

    ```console   lines that begin with "$ " are commands, what follows each is its output
    ```js        a program, when it imports atoll-sandbox; a ```text block right behind it is what it prints

In an output "…" stands for anything.
"""

import re
from dataclasses import dataclass

_FENCE = re.compile(r"^```(\w+)\n(.*?)^```$", re.M | re.S)


@dataclass
class Command:
    text: str
    output: str = ""


@dataclass
class Program:
    text: str
    output: str | None = None


def commands(block):
    found = []
    for line in block.splitlines(keepends=True):
        if line.startswith("$ "):
            found.append(Command(line[2:].rstrip("\n")))
        else:
            found[-1].output += line
    return found


def of_page(text):
    """All that can be run on a page, in order."""
    found, last, end = [], None, -1
    for m in _FENCE.finditer(text):
        kind, block = m.groups()
        if kind == "console":
            found += commands(block)
        elif kind == "js" and re.search(r"^import .* from 'atoll-sandbox'", block, re.M):
            last = Program(block)
            found.append(last)
            end = m.end()
            continue
        elif kind == "text" and last and not text[end : m.start()].strip():
            last.output = block
        last = None
    return found


def matches(expected, got):
    pattern = ".*".join(map(re.escape, expected.strip().split("…")))
    return re.fullmatch(pattern, got.strip(), re.S) is not None
