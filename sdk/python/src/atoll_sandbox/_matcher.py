"""Looks for a pattern in text that comes in pieces, at a cost that does not grow with what came before."""

from __future__ import annotations

import re
from typing import NamedTuple, Pattern, Union

from .models import LogMatch

#: How much of earlier output is looked at together with new output, for matches over several lines.
WINDOW_CHARACTERS = 64 * 1024

LogPattern = Union[str, Pattern[str]]


class Found(NamedTuple):
    match: LogMatch
    whole: bool  # whether the line of the match is complete


class LogMatcher:
    def __init__(self, pattern: LogPattern) -> None:
        if isinstance(pattern, re.Pattern) and isinstance(pattern.pattern, str):
            # "^" and "$" mean lines: output is never looked at as one text with one beginning.
            self._pattern: LogPattern = re.compile(pattern.pattern, pattern.flags | re.MULTILINE)
        elif isinstance(pattern, str) and pattern:
            self._pattern = pattern
        else:
            raise TypeError(f"a pattern is a str that is not empty, or a compiled expression for str, not {pattern!r}")
        self._text = ""

    def push(self, piece: str) -> Found | None:
        self._text += piece
        found = self._find(self._text)
        keep = max(WINDOW_CHARACTERS, len(self._text) - self._text.rfind("\n"))
        if len(self._text) > 2 * keep:
            self._text = self._text[-keep:]
        return found

    def _find(self, text: str) -> Found | None:
        if isinstance(self._pattern, str):
            at = text.find(self._pattern)
            if at < 0:
                return None
            start, end, match = at, at + len(self._pattern), None
        else:
            match = self._pattern.search(text)
            if not match:
                return None
            start, end = match.span()
        if "\n" in text[start:end]:
            return Found(LogMatch(text[start:end], match), True)
        first = text.rfind("\n", 0, start) + 1
        last = text.find("\n", end)
        return Found(LogMatch(text[first:last if last >= 0 else None], match), last >= 0)
