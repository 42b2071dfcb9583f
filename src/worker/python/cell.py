"""A cell from text to value: parsed, split before its last expression, compiled, run; with `await` at the top level."""

from __future__ import annotations

import __future__

import ast
import asyncio
import inspect
import linecache
import sys

from . import interrupts, transform

FUTURES = 0
for _name in __future__.all_feature_names:
    FUTURES |= getattr(__future__, _name).compiler_flag

NOTHING = object()
"""The value of a cell that does not end in an expression, or ends in one with a semicolon."""


class Compiler:
    """Keeps the state that one cell leaves for the next: `from __future__` and sources for tracebacks."""

    def __init__(self) -> None:
        self.flags = 0
        self.names: list[str] = []

    def parse(self, code: str, name: str) -> tuple[ast.Module, str]:
        """The cell as a tree and the Python text of it. Notebook syntax is looked for only when it is no Python as it stands."""
        self.remember(code, name)
        flags = ast.PyCF_ONLY_AST | ast.PyCF_ALLOW_TOP_LEVEL_AWAIT | self.flags
        try:
            return compile(code, name, "exec", flags, dont_inherit=True), code
        except SyntaxError:
            python = transform.transform(code)
            if python == code:
                raise
        return compile(python, name, "exec", flags, dont_inherit=True), python

    def compile(self, tree, name: str, mode: str):
        """Code of a tree, in whose flags later cells are compiled too."""
        code = compile(tree, name, mode, ast.PyCF_ALLOW_TOP_LEVEL_AWAIT | self.flags, dont_inherit=True)
        self.flags |= code.co_flags & FUTURES
        return code

    def remember(self, code: str, name: str) -> None:
        """Lets tracebacks and inspect.getsource show the cell."""
        if name not in linecache.cache:
            self.names.append(name)
        linecache.cache[name] = (len(code), None, code.splitlines(keepends=True), name)

    def forget(self, most: int) -> None:
        """Drops the oldest sources."""
        while len(self.names) > most:
            linecache.cache.pop(self.names.pop(0), None)


class Loop:
    """The event loop of a context: made at the first `await`, kept until its end."""

    def __init__(self) -> None:
        self.loop = None

    def run(self, coroutine):
        """The coroutine's value. An interrupt while it waits cancels it and becomes KeyboardInterrupt."""
        if self.loop is None or self.loop.is_closed():
            self.loop = asyncio.new_event_loop()
        asyncio.set_event_loop(self.loop)
        task = self.loop.create_task(coroutine)
        interrupted = False

        def cancel() -> None:
            nonlocal interrupted
            interrupted = True
            self.loop.call_soon_threadsafe(task.cancel)

        interrupts.cancel_task = cancel
        try:
            return self.loop.run_until_complete(task)
        except asyncio.CancelledError:
            if interrupted:
                raise KeyboardInterrupt from None
            raise
        finally:
            interrupts.cancel_task = None
            if not task.done():  # the interrupt hit the loop itself
                task.cancel()


def ends_quietly(python: str, tree: ast.Module) -> bool:
    """Whether a semicolon follows the last expression, so that its value is not shown."""
    if ";" not in python or not tree.body or not isinstance(tree.body[-1], ast.Expr):
        return False
    last = tree.body[-1]
    lines = python.replace("\r\n", "\n").replace("\r", "\n").split("\n")
    line = lines[last.end_lineno - 1].encode("utf-8", "surrogatepass")
    return line[last.end_col_offset :].lstrip().startswith(b";")


def run_tree(tree: ast.Module, name: str, compiler: Compiler, space: dict, loop: Loop, quiet: bool):
    """Runs a cell in a namespace; its value, or NOTHING."""
    last = tree.body.pop() if tree.body and isinstance(tree.body[-1], ast.Expr) else None
    if tree.body:
        _evaluate(compiler.compile(tree, name, "exec"), space, loop)
    if last is None:
        return NOTHING
    value = _evaluate(compiler.compile(ast.Expression(last.value), name, "eval"), space, loop)
    return NOTHING if quiet else value


def _evaluate(code, space: dict, loop: Loop):
    if code.co_flags & inspect.CO_COROUTINE:
        return loop.run(eval(code, space))
    return eval(code, space)


def guard_limits() -> None:
    """A recursion limit that is too low for our own code goes back to Python's default."""
    if sys.getrecursionlimit() < 500:
        sys.setrecursionlimit(1000)
