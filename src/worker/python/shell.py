"""One context: its namespace, its history, and its runs. User code knows it as get_ipython()."""

from __future__ import annotations

import builtins
import os
import sys
import types

from . import cell, display, errors, figures, history, interrupts, limits, magics, streams, transform


class Shell:
    """The state of a context."""

    def __init__(self, channel) -> None:
        self.channel = channel
        self.count = 0
        self.compiler = cell.Compiler()
        self.loop = cell.Loop()
        # A module of its own as __main__, under which pickle, dataclasses and typing find the definitions of cells.
        self.module = types.ModuleType("__main__")
        self.module.__builtins__ = builtins
        sys.modules["__main__"] = self.module
        self.user_ns = self.module.__dict__
        self.history = history.History(self.user_ns)
        self.user_ns["_dh"] = [os.getcwd()]
        builtins.get_ipython = lambda: self
        builtins.display = display.display
        builtins.input = self._input
        figures.publish = display.publish

    # ---- runs

    def run(self, request: dict) -> None:
        """One R frame: everything up to its D frame."""
        self.count += 1
        name = f"<cell {self.count}>"
        undo = _apply_environment(request.get("env") or {})
        self.channel.begin()
        failure = self._guarded(self._cell, request["code"].lstrip("\ufeff"), name)
        late = self._guarded(figures.flush)
        failure = failure or late
        if self.channel.forked:
            self._end_of_fork(failure)
        cell.guard_limits()
        # All of this may call code of the user: an exception's __str__, a replaced stream.
        self._guarded(figures.close_all)
        self._guarded(streams.flush)
        if failure is not None:
            reports: list[str] = []
            self._guarded(lambda: reports.append(errors.report(failure, name)))
            self.channel.send("X", reports[0] if reports else errors.short_report(failure))
            _keep_for_debugging(failure)
        self._guarded(streams.restore)
        interrupts.install()
        self._repair()
        self.compiler.forget(limits.HISTORY_MAX)
        undo()
        self.channel.done(f'{{"execution_count":{self.count}}}')

    def _guarded(self, function, *args) -> BaseException | None:
        """Runs code that an interrupt may end; returns the exception, or None."""
        try:
            try:
                interrupts.arm()
                function(*args)
            finally:
                interrupts.armed = False  # before any call: calls are where CPython looks at signals
                interrupts.hold_others()
        except BaseException as error:  # noqa: BLE001 (also SystemExit and KeyboardInterrupt end a run, not a context)
            return error
        return None

    def _cell(self, code: str, name: str) -> None:
        self.history.entered(self.count, code)
        # A warning is shown once for each line of a module; lines of another cell are other lines.
        self.user_ns.pop("__warningregistry__", None)
        magic = transform.split_cell_magic(code)
        if magic:
            self.compiler.remember(code, name)
            value = self.run_cell_magic(*magic)
            value = cell.NOTHING if value is None else value
        else:
            value = self.evaluate(code, name)
        if value is None or value is cell.NOTHING:
            return
        display.show(value, False)
        self.history.answered(self.count, value)

    def evaluate(self, code: str, name: str):
        """The value of cell text, or cell.NOTHING."""
        tree, python = self.compiler.parse(code, name)
        quiet = cell.ends_quietly(python, tree)
        return cell.run_tree(tree, name, self.compiler, self.user_ns, self.loop, quiet)

    def _repair(self) -> None:
        """A namespace that was emptied is still that of a module."""
        self.user_ns["__builtins__"] = builtins
        for name, value in (("__name__", "__main__"), ("__doc__", None), ("__spec__", None)):
            self.user_ns.setdefault(name, value)

    def _end_of_fork(self, failure: BaseException | None) -> None:
        """A child that user code forked has come to the end of the cell: here it ends, as at the end of a script."""
        status = 0
        if isinstance(failure, SystemExit):
            status = failure.code if isinstance(failure.code, int) else 0 if failure.code is None else 1
        elif failure is not None:
            status = 1
            display.complain(failure)
        streams.flush()
        os._exit(status)

    def _input(self, prompt="", /):
        """No user can answer here."""
        raise errors.StdinNotImplementedError("input() was called, but code runs without a terminal: nobody can answer. "
                                              "Pass values in the code or in files instead.")

    # ---- the interface of get_ipython()

    def system(self, command: str) -> None:
        """!command"""
        magics.system(self, magics.expand(self, command))

    def getoutput(self, command: str):
        """x = !command"""
        return magics.getoutput(self, magics.expand(self, command))

    def run_line_magic(self, name: str, line: str, _stack_depth: int = 1):
        """%name line"""
        function = magics.LINE.get(name)
        if function is None:
            hint = f", but `%%{name}` is a cell magic: it belongs on the first line" if name in magics.CELL else ""
            raise errors.UsageError(f"Line magic function `%{name}` not found{hint}. %lsmagic lists what there is.")
        return function(self, line if name in magics.UNEXPANDED else magics.expand(self, line))

    def run_cell_magic(self, name: str, line: str, body: str):
        """%%name line, and the lines below"""
        function = magics.CELL.get(name)
        if function is None:
            hint = f", but `%{name}` is a line magic: use one % and nothing below it" if name in magics.LINE else ""
            raise errors.UsageError(f"Cell magic `%%{name}` not found{hint}. %lsmagic lists what there is.")
        return function(self, line, body)

    def magic(self, text: str):
        """Old name for a line magic, with its name in the text."""
        name, _, line = text.lstrip("%").partition(" ")
        return self.run_line_magic(name, line.strip())

    def help(self, name: str, more: int) -> None:
        """name? and name??"""
        magics.describe(self, name, more)

    def run_cell(self, code: str, **_options) -> None:
        """Runs text as a cell inside of this one."""
        value = self.evaluate(code, f"<cell {self.count}, run_cell>")
        if value is not None and value is not cell.NOTHING:
            display.show(value, True)

    def showtraceback(self, *_args, **_options) -> None:
        """The current exception on stderr."""
        display.complain(sys.exc_info()[1])

    def body(self, code: str):
        """The value of the lines below a cell magic, with their line numbers kept."""
        return self.evaluate("\n" + code, f"<cell {self.count}>")


def _apply_environment(changes: dict):
    """Sets variables for one run; returns the undo."""
    before = {name: os.environ.get(name) for name in changes}
    _set_environment(changes)
    return lambda: _set_environment(before)


def _set_environment(values: dict) -> None:
    for name, value in values.items():
        if value is None:
            os.environ.pop(name, None)
        else:
            os.environ[name] = value


def _keep_for_debugging(error: BaseException) -> None:
    """The names that pdb.pm() and traceback.print_last() look for."""
    sys.last_type, sys.last_value, sys.last_traceback = type(error), error, error.__traceback__
