"""A zygote runs the code of every context once, so that its children need not warm it up.

CPython rewrites the instructions of functions that are called often, and fills caches on first use. Done before the fork,
these pages are shared; done after it, each child has copies of its own. Small things only: memory that a rehearsal frees
leaves holes in shared pages, which children then fill. (Drawing a figure here was tried: 1.8 MB more in each child.)
"""

from __future__ import annotations

import json
import linecache
import sys

from . import axes, cell, charts, display, errors, history, plain, transform

ROUNDS = 20
"""Calls after which a function is as it will be."""


def rehearse() -> None:
    """Leaves nothing behind: no descriptor, no name, no output."""
    known = set(linecache.cache)
    for _ in range(ROUNDS):
        _one_round()
    for name in set(linecache.cache) - known:
        del linecache.cache[name]


def _one_round() -> None:
    space: dict = {}
    past, compiler, loop = history.History(space), cell.Compiler(), cell.Loop()
    for count, code in enumerate(("1+1", "import sys\nx = [1, 2.5]\nx;", "{'a': [1, None, True], 'b': 'text'}", "f'{1:5.2f}'", "1/0", "x = ("), 1):
        name = f"<cell {count}>"
        request = json.loads(json.dumps({"id": count, "code": code}))
        past.entered(count, request["code"])
        transform.split_cell_magic(code)
        try:
            tree, python = compiler.parse(code, name)
            value = cell.run_tree(tree, name, compiler, space, loop, cell.ends_quietly(python, tree))
        except Exception as error:  # noqa: BLE001
            errors.report(error, name)
            continue
        if value is not cell.NOTHING:
            display.event_of(display.forms_of(value))
            past.answered(count, value)
    compiler.forget(0)
    plain.encode({"n": float("nan"), "t": "é"})
    _tables()
    axes.Room(10).sample(3)
    charts.from_mime("text/plain", {})


def _tables() -> None:
    pandas = sys.modules.get("pandas")
    if pandas:
        display.event_of(display.forms_of(pandas.DataFrame({"a": [1, 2], "b": ["x", None], "c": [0.5, 1.5]})))
