"""Notebook syntax into Python: `%magic`, `%%cell magic`, `!command`, `x = !command`, `object?`.

Only lines that begin a statement are looked at: a small scanner knows strings, brackets and continued lines. Every line
stays on its line, so errors point to the user's text.
"""

from __future__ import annotations

import re

_ASSIGNED = re.compile(r"^(\s*)([A-Za-z_][\w.\[\]'\", ]*?)\s*=\s*([!%])(?![=%])\s*(.+)$")
_HELP = re.compile(r"^(\s*)(\?{0,2})([A-Za-z_*][\w.*\[\]'\"]*|%{1,2}\w+)(\?{0,2})\s*$")
_TOKEN = re.compile(r"""(?P<string>(?i:[rbuf]{0,2})(?P<quote>'''|\"\"\"|'|\"))|(?P<comment>\#)|(?P<open>[(\[{])|(?P<close>[)\]}])""")


def split_cell_magic(code: str) -> tuple[str, str, str] | None:
    """(name, rest of the line, body) of a cell that begins with %%, else None."""
    stripped = code.lstrip("\n\r\t ")
    if not stripped.startswith("%%"):
        return None
    first, _, body = stripped[2:].partition("\n")
    name, _, line = first.strip().partition(" ")
    return name, line.strip(), body


def transform(code: str) -> str:
    """The cell as Python. Without notebook syntax it comes back as it is."""
    out, state, lines = [], _Scanner(), code.split("\n")
    position = 0
    while position < len(lines):
        line = lines[position]
        position += 1
        python = _statement(line) if state.at_statement else None
        if python is None:
            state.scan(line)
            out.append(line)
            continue
        joined = 0
        while line.endswith("\\") and position < len(lines):
            line = line[:-1] + " " + lines[position].strip()
            position += 1
            joined += 1
        out.append(_statement(line) or python)
        out += [""] * joined
    return "\n".join(out)


def _statement(line: str) -> str | None:
    """One line of notebook syntax as Python, or None."""
    stripped = line.lstrip()
    indent = line[: len(line) - len(stripped)]
    if stripped.startswith("!!"):
        return f"{indent}get_ipython().getoutput({stripped[2:].strip()!r})"
    if stripped.startswith("!"):
        return f"{indent}get_ipython().system({stripped[1:].strip()!r})"
    if stripped.startswith("%%"):
        return None  # a cell magic is the first line, or an error that Python reports
    if stripped.startswith("%") and not _HELP.match(line):
        name, _, rest = stripped[1:].strip().partition(" ")
        return f"{indent}get_ipython().run_line_magic({name!r}, {rest.strip()!r})" if name else None
    if assigned := _ASSIGNED.match(line):
        indent, target, mark, rest = assigned.groups()
        if mark == "!":
            return f"{indent}{target} = get_ipython().getoutput({rest.strip()!r})"
        name, _, rest = rest.strip().partition(" ")
        return f"{indent}{target} = get_ipython().run_line_magic({name!r}, {rest.strip()!r})"
    helped = _HELP.match(line)
    if helped and (helped.group(2) or helped.group(4)):
        marks = helped.group(2) or helped.group(4)
        return f"{helped.group(1)}get_ipython().help({helped.group(3)!r}, {len(marks) - 1})"
    if helped and stripped.startswith("%"):
        return f"{indent}get_ipython().run_line_magic({stripped[1:].strip()!r}, '')"
    return None


class _Scanner:
    """Whether the next line begins a statement."""

    def __init__(self) -> None:
        self.depth = 0
        self.quote = ""  # of the string of several lines that is open
        self.continued = False

    @property
    def at_statement(self) -> bool:
        return not (self.depth or self.quote or self.continued)

    def scan(self, line: str) -> None:
        """Reads one line of Python."""
        self.continued = False
        at = self._end_of_string(line, 0) if self.quote else 0
        while at is not None:
            token = _TOKEN.search(line, at)
            if token is None or token["comment"]:
                self.continued = token is None and line.endswith("\\")
                return
            at = token.end()
            if token["open"]:
                self.depth += 1
            elif token["close"]:
                self.depth = max(0, self.depth - 1)
            else:
                self.quote = token["quote"]
                at = self._end_of_string(line, at)

    def _end_of_string(self, line: str, at: int) -> int | None:
        """Where the open string ends in this line; None if it goes on in the next."""
        while at < len(line):
            if line[at] == "\\":
                at += 2
            elif line.startswith(self.quote, at):
                at += len(self.quote)
                self.quote = ""
                return at
            else:
                at += 1
        if len(self.quote) == 1 and not line.endswith("\\"):
            self.quote = ""  # not closed: Python will say so
        return None
