"""Magics that time, capture, look up, show."""

from __future__ import annotations

import builtins
import inspect
import os
import sys
import time
import timeit

from . import display, errors, figures, streams
from .cell import NOTHING


def seconds(value: float) -> str:
    """A time span as people write it."""
    for unit, size in (("s", 1.0), ("ms", 1e-3), ("µs", 1e-6), ("ns", 1e-9)):
        if value >= size:
            return f"{value / size:.3g} {unit}"
    return f"{value / 1e-9:.3g} ns"


# ---- time

class _Clock:
    def __enter__(self):
        self.cpu, self.wall = os.times(), time.perf_counter()
        return self

    def __exit__(self, *exc):
        wall, cpu = time.perf_counter() - self.wall, os.times()
        user, system = cpu.user - self.cpu.user, cpu.system - self.cpu.system
        print(f"CPU times: user {seconds(user)}, sys: {seconds(system)}, total: {seconds(user + system)}\nWall time: {seconds(wall)}")


def _time(shell, line: str):
    if not line:
        raise errors.UsageError("%time needs a statement; %%time times the cell")
    with _Clock():
        value = shell.evaluate(line, "<timed statement>")
    return _value(value)


def _time_cell(shell, line: str, body: str):
    with _Clock():
        value = shell.body(body if not line else f"{line}\n{body}")
    return _value(value)


def _value(value):
    return None if value is NOTHING else value


def _timeit(shell, line: str, body: str = ""):
    words = line.split()
    number = repeat = 0
    quiet = give = False
    while words and words[0].startswith("-"):
        option = words.pop(0)
        try:
            if option[:2] in ("-n", "-r"):
                count = int(option[2:] or words.pop(0))
                number, repeat = (count, repeat) if option[1] == "n" else (number, count)
            elif option in ("-q", "-o"):
                quiet, give = quiet or option == "-q", give or option == "-o"
            else:
                raise ValueError
        except (ValueError, IndexError):
            raise errors.UsageError(f"%timeit: {option} is no option here; there are -n N, -r N, -q and -o") from None
    rest = line
    for _ in range(len(line.split()) - len(words)):
        rest = rest.lstrip().partition(" ")[2]
    statement, setup = (body, rest.strip() or "pass") if body else (rest.strip(), "pass")
    if not statement:
        raise errors.UsageError("%timeit needs a statement")
    timer = timeit.Timer(statement, setup, globals=shell.user_ns)
    repeat = repeat or 7
    if not number:
        number = 1
        while timer.timeit(number) < 0.2 and number < 10**9:
            number *= 10
    runs = [run / number for run in timer.repeat(repeat, number)]
    mean = sum(runs) / len(runs)
    deviation = (sum((run - mean) ** 2 for run in runs) / len(runs)) ** 0.5
    if not quiet:
        loops = f"{number:,} loops" if number != 1 else "1 loop"
        print(f"{seconds(mean)} ± {seconds(deviation)} per loop (mean ± std. dev. of {repeat} runs, {loops} each)")
    return runs if give else None


# ---- capture

class Captured:
    """The result of %%capture NAME: .stdout, .stderr, .outputs, and show()."""

    def __init__(self, stdout: str, stderr: str, outputs: list) -> None:
        self.stdout, self.stderr, self.outputs = stdout, stderr, outputs

    def show(self) -> None:
        sys.stdout.write(self.stdout)
        sys.stderr.write(self.stderr)
        for forms in self.outputs:
            display.publish(dict(forms))

    __call__ = show

    def __str__(self) -> str:
        return self.stdout


def _capture(shell, line: str, body: str) -> None:
    """Descriptors are pointed elsewhere, so programs that the cell starts are captured as well."""
    streams.flush()
    files, kept, outputs = [os.memfd_create("captured") for _ in range(2)], [os.dup(1), os.dup(2)], []
    try:
        for fd, file in zip((1, 2), files):
            os.dup2(file, fd)
        display.Publisher.taking.append(outputs)
        value = shell.body(body)
        if _value(value) is not None:
            display.show(value, True)
        figures.flush()
    finally:
        display.Publisher.taking.pop()
        streams.flush()
        texts = [os.pread(file, os.fstat(file).st_size, 0).decode("utf-8", "replace") for file in files]
        for fd, old in zip((1, 2), kept):
            os.dup2(old, fd)
        for fd in (*files, *kept):
            os.close(fd)
    names = [word for word in line.split() if not word.startswith("-")]
    if names:
        shell.user_ns[names[0]] = Captured(*texts, outputs)


# ---- looking up

def _who(shell, line: str) -> None:
    del line
    names = _names(shell)
    print("\t ".join(names) if names else "Interactive namespace is empty.")


def _whos(shell, line: str) -> None:
    del line
    rows = [(name, type(shell.user_ns[name]).__name__, _short(shell.user_ns[name])) for name in _names(shell)]
    if not rows:
        print("Interactive namespace is empty.")
        return
    rows = [("Variable", "Type", "Data/Info"), *rows]
    widths = [max(len(row[i]) for row in rows) + 3 for i in range(2)]
    lines = [f"{name:<{widths[0]}}{kind:<{widths[1]}}{info}" for name, kind, info in rows]
    print("\n".join([lines[0], "-" * (sum(widths) + 9), *lines[1:]]))


def _short(value) -> str:
    try:
        return repr(value)[:60].replace("\n", " ")
    except Exception as error:  # noqa: BLE001
        return f"<repr failed: {type(error).__name__}>"


def _names(shell) -> list[str]:
    return sorted(name for name in shell.user_ns if not name.startswith("_") and name not in ("In", "Out"))


def _reset(shell, line: str) -> None:
    del line
    for name in _names(shell):
        del shell.user_ns[name]


def _history(shell, line: str) -> None:
    del line
    print("\n".join(code for code in shell.history.inputs[1:-1]))


def describe(shell, name: str, more: int) -> None:
    """name?: what it is, how it is called, its documentation; name??: its source too."""
    try:
        value = eval(name, shell.user_ns)
    except Exception:  # noqa: BLE001
        value = getattr(builtins, name, errors)
        if value is errors:
            print(f"Object `{name}` not found.")
            return
    lines = []
    if callable(value):
        try:
            lines.append(f"Signature: {name}{inspect.signature(value)}")
        except (ValueError, TypeError):
            pass
    if not callable(value):
        lines.append(f"String form: {_short(value)}")
    if more:
        try:
            lines.append("Source:\n" + inspect.getsource(value).rstrip())
        except (OSError, TypeError):
            pass
    lines.append("Docstring: " + (inspect.getdoc(value) or "<no docstring>"))
    lines.append(f"Type:      {type(value).__name__}")
    print("\n".join(lines))


def _show_as(field: str):
    def magic(shell, line: str, body: str) -> None:
        del shell, line
        display.publish({"text": body, field: body} if field != "text" else {"text": body})

    return magic


LINE_MORE = {
    "history": _history,
    "hist": _history,
    "pinfo": lambda shell, line: describe(shell, line, 0),
    "pinfo2": lambda shell, line: describe(shell, line, 1),
    "reset": _reset,
    "time": _time,
    "timeit": _timeit,
    "who": _who,
    "whos": _whos,
}

CELL_MORE = {
    "capture": _capture,
    "html": _show_as("html"),
    "HTML": _show_as("html"),
    "javascript": _show_as("javascript"),
    "js": _show_as("javascript"),
    "latex": _show_as("latex"),
    "markdown": _show_as("markdown"),
    "svg": _show_as("svg"),
    "SVG": _show_as("svg"),
    "time": _time_cell,
    "timeit": _timeit,
}
