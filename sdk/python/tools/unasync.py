#!/usr/bin/python3
"""Makes src/atoll_sandbox/_sync from src/atoll_sandbox/_async: the same files without `async` and `await`.

    tools/unasync.py           writes the files
    tools/unasync.py --check   says which files are not as they would be written, and fails if there are any
"""

import re
import sys
from pathlib import Path

PACKAGE = Path(__file__).resolve().parents[1] / "src/atoll_sandbox"
HEAD = "# Made by tools/unasync.py from ../_async/{name}: change that file.\n"

# In this order; names are whole words.
RULES = [
    (r"AsyncGenerator\[(\w+), None\]", r"Generator[\1, None, None]"),
    (r"\basync (def|for|with)\b", r"\1"),
    (r"\bawait ", ""),
    (r"\b__a(enter|exit|iter|next)__\b", r"__\1__"),
    (r"\b_io import aio as io\b", "_io import blocking as io"),
    (r"\b(?:Async|Sync)(?=[A-Z])", ""),
    (r"\ba(close|read|iter_raw)\b", r"\1"),
    (r"\bStopAsyncIteration\b", "StopIteration"),
    (r"Callable\[(\[.*?\]), Union\[None, Awaitable\[None\]\]\]", r"Callable[\1, None]"),
    (r"Callable\[\[\], Awaitable\[bool\]\]", "Callable[[], bool]"),
    (r"Union\[Answer, Awaitable\[Answer\]\]", "Answer"),
    (r"; with Sandbox it may be a coroutine function", ""),
]
IMPORTS = re.compile(r"^from (\S+) import ([\w, ]+)$", re.M)


def unused(text: str, name: str) -> bool:
    return len(re.findall(rf"\b{name}\b", text)) < 2


def tidy_imports(text: str) -> str:
    """Sorts imported names anew, and drops those of typing that are not used any more."""

    def tidy(match: "re.Match[str]") -> str:
        module, names = match[1], match[2].split(", ")
        if " as " in match[2]:
            return match[0]
        if module == "typing":
            names = [name for name in names if not unused(text, name)]
        names = sorted(set(names), key=lambda name: (not name.isupper(), not name[0].isupper(), name))
        return f"from {module} import {', '.join(names)}"

    return IMPORTS.sub(tidy, text)


def converted(path: Path) -> str:
    text = path.read_text(encoding="utf-8")
    for pattern, into in RULES:
        text = re.sub(pattern, into, text)
    return HEAD.format(name=path.name) + tidy_imports(text)


def main() -> int:
    stale = []
    target = PACKAGE / "_sync"
    sources = sorted((PACKAGE / "_async").glob("*.py"))
    for path in sources:
        made, out = converted(path), target / path.name
        if path.name == "__init__.py":
            made = '"""Made by tools/unasync.py from ../_async: change those files."""\n'
        if out.exists() and out.read_text(encoding="utf-8") == made:
            continue
        stale.append(str(out))
        if "--check" not in sys.argv:
            out.write_text(made, encoding="utf-8")
    stale += [str(p) for p in target.glob("*.py") if not (PACKAGE / "_async" / p.name).exists()]
    print("\n".join(stale))
    return 1 if stale and "--check" in sys.argv else 0


if __name__ == "__main__":
    sys.exit(main())
