"""Exceptions as the client gets them: name, message, line of the cell, and a traceback without our own frames."""

from __future__ import annotations

import json
import sys
import traceback

from . import limits
from .plain import whole_characters

OWN = "<atoll_worker"
"""The beginning of this package's file names."""

CELL = "<cell "
"""The beginning of cells' file names."""


_COMPACT = {"compact": True} if sys.version_info >= (3, 10) else {}


class UsageError(Exception):
    """A magic that does not exist, or was used wrongly."""


class StdinNotImplementedError(NotImplementedError):
    """input() in a run, where no user can answer."""


UsageError.__module__ = StdinNotImplementedError.__module__ = "builtins"


def message_of(error: BaseException) -> str:
    """str(error), also when that raises."""
    try:
        return str(error)
    except Exception:  # noqa: BLE001
        return "<exception str() failed>"


def report(error: BaseException, cell: str, line: int | None = None) -> str:
    """The payload of an X frame. `cell`: the file name of the cell that ran. Never raises."""
    name = type(error).__name__
    try:
        line = line or line_in(error, cell)
        lines = bounded(format_lines(error))
    except Exception as failure:  # noqa: BLE001 (no memory, a broken exception class: say at least what happened)
        lines = [f"{name}: {message_of(error)[:200]}", f"(no traceback: {type(failure).__name__})"]
    event = {"type": "error", "ename": name, "evalue": _short(message_of(error), limits.ERROR_TEXT_MAX), "traceback": lines}
    if line:
        event["lineNumber"] = line
    return json.dumps(event)


def short_report(error: BaseException) -> str:
    """The payload for an error whose full report could not be made: not even its text is asked for."""
    name = type(error).__name__
    return json.dumps({"type": "error", "ename": name, "evalue": "(its report was interrupted)", "traceback": [name]})


def line_in(error: BaseException, cell: str) -> int | None:
    """The line of the cell that was being run, else that of the outermost cell in the traceback."""
    if isinstance(error, SyntaxError) and error.filename == cell:
        return error.lineno
    here = outermost = None
    tb = error.__traceback__
    while tb:
        filename = tb.tb_frame.f_code.co_filename
        if filename == cell:
            here = tb.tb_lineno
        elif outermost is None and filename.startswith(CELL):
            outermost = tb.tb_lineno
        tb = tb.tb_next
    return here or outermost


def format_lines(error: BaseException) -> list[str]:
    """A traceback as Python prints it, line by line, with causes and contexts."""
    shown = traceback.TracebackException(type(error), error, error.__traceback__, **_COMPACT)
    _clean(shown, set())
    return "".join(shown.format()).rstrip("\n").split("\n")


def _clean(shown: traceback.TracebackException, seen: set) -> None:
    if shown is None or id(shown) in seen:
        return
    seen.add(id(shown))
    frames = list(shown.stack)
    # Frames outside of the first cell are ours, or the event loop's.
    first = next((i for i, f in enumerate(frames) if f.filename.startswith(CELL)), 0)
    kept = [f for f in frames[first:] if not f.filename.startswith(OWN)]
    shown.stack[:] = kept
    _clean(shown.__cause__, seen)
    _clean(shown.__context__, seen)
    for inner in getattr(shown, "exceptions", None) or ():
        _clean(inner, seen)


def bounded(lines: list[str]) -> list[str]:
    """The traceback within its limits: the beginning and, more of it, the end."""
    lines = [_short(line, limits.TRACE_LINE_MAX) for line in lines]
    if sum(map(len, lines)) <= limits.ERROR_TRACE_MAX:
        return lines
    head, tail, room = [], [], limits.ERROR_TRACE_MAX
    for line in lines:
        if sum(map(len, head)) + len(line) > room // 3:
            break
        head.append(line)
    room -= sum(map(len, head))
    for line in reversed(lines[len(head) :]):
        room -= len(line)
        if room < 0:
            break
        tail.append(line)
    return [*head, f"  … [{len(lines) - len(head) - len(tail)} lines left out]", *reversed(tail)]


def _short(text: str, most: int) -> str:
    text = whole_characters(text)
    return text if len(text) <= most else f"{text[:most]}… [{len(text) - most} more characters]"
