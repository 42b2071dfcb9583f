"""Magics: the part of IPython's that makes sense without IPython. LINE and CELL list them."""

from __future__ import annotations

import os
import re
import subprocess
import sys

from . import errors, figures
from .magics_more import CELL_MORE, LINE_MORE, describe

__all__ = ["CELL", "LINE", "UNEXPANDED", "describe", "expand", "getoutput", "system"]

_FIELD = re.compile(r"\{([^{}\n]+)\}|\$\$|\$([A-Za-z_]\w*)")


class SList(list):
    """Lines of output: also .s (joined by blanks), .n (by newlines)."""

    @property
    def s(self) -> str:
        return " ".join(self)

    @property
    def n(self) -> str:
        return "\n".join(self)

    l = property(lambda self: list(self))  # noqa: E741 (IPython's name)
    spstr, nlstr = s, n


def expand(shell, text: str) -> str:
    """{expression} and $name as their values; text that is no Python stays for the shell."""
    if "{" not in text and "$" not in text:
        return text

    def value(match) -> str:
        expression, name = match.groups()
        try:
            if name:
                return str(shell.user_ns[name])
            if expression:
                return str(eval(expression, shell.user_ns))
        except Exception:  # noqa: BLE001
            return match.group()
        return "$"

    return _FIELD.sub(value, text)


def system(shell, command: str) -> int:
    """Runs a command whose output goes where ours goes."""
    status = run([_bash(), "-c", command])
    shell.user_ns["_exit_code"] = status
    return status


def run(argv: list[str], text: str | None = None) -> int:
    """The exit code of a program; 128+N for one that a signal ended."""
    with subprocess.Popen(argv, stdin=subprocess.DEVNULL if text is None else subprocess.PIPE) as child:
        if text is not None:
            try:
                child.stdin.write(text.encode("utf-8", "surrogateescape"))
                child.stdin.close()
            except BrokenPipeError:
                pass
        status = child.wait()
    return status if status >= 0 else 128 - status


def getoutput(shell, command: str) -> SList:
    """The lines that a command printed, on both streams."""
    done = subprocess.run([_bash(), "-c", command], stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, check=False)
    shell.user_ns["_exit_code"] = done.returncode
    return SList(done.stdout.decode("utf-8", "replace").splitlines())


def _bash() -> str:
    return "/bin/bash" if os.access("/bin/bash", os.X_OK) else "/bin/sh"


# ---- line magics

def _pip(shell, line: str) -> None:
    status = system(shell, f"{_quoted(sys.executable)} -m pip {line}")
    if status == 0 and line.split()[:1] in (["install"], ["uninstall"]):
        import importlib

        importlib.invalidate_caches()


def _program(name: str):
    return lambda shell, line: system(shell, f"{name} {line}") and None


def _quoted(text: str) -> str:
    return "'" + text.replace("'", "'\\''") + "'"


def _cd(shell, line: str) -> None:
    visited = shell.user_ns.setdefault("_dh", [])
    target = line.strip().strip("'\"") or "~"
    if target == "-":
        if len(visited) < 2:
            raise errors.UsageError("%cd -: there is no directory before this one")
        target = visited[-2]
    try:
        os.chdir(os.path.expanduser(target))
    except OSError as error:
        raise errors.UsageError(f"%cd: {error.strerror}: {target}") from None
    visited.append(os.getcwd())
    print(os.getcwd())


def _env(shell, line: str):
    del shell
    if not line:
        return dict(os.environ)
    name, separator, value = line.partition("=") if "=" in line else line.partition(" ")
    name = name.strip()
    if not separator:
        if name not in os.environ:
            raise errors.UsageError(f"%env: the environment has no variable {name}")
        return os.environ[name]
    os.environ[name] = value.strip()
    print(f"env: {name}={value.strip()}")
    return None


def _matplotlib(shell, line: str) -> None:
    del shell
    if line.strip("-") in ("list", "l"):
        print("Available matplotlib backends: ['inline', 'agg']")
    elif line not in ("", "inline", "agg", "Agg", "notebook", "widget", "ipympl"):
        raise errors.UsageError(f"%matplotlib {line}: there is no screen here; figures are results (inline)")


def _config(shell, line: str) -> None:
    del shell
    if not line.startswith("InlineBackend."):
        raise errors.UsageError("%config: only InlineBackend.figure_format can be set here")
    if "figure_format" in line:
        svg, retina = "svg" in line, "retina" in line or "png2x" in line
        figures.FORMAT.update(kind="svg" if svg else "png", scale=2.0 if retina else 1.0)


def _run(shell, line: str) -> None:
    import runpy
    import shlex

    argv = shlex.split(line)
    if not argv:
        raise errors.UsageError("%run needs the name of a file")
    saved, sys.argv = sys.argv, argv
    try:
        shell.user_ns.update({k: v for k, v in runpy.run_path(argv[0], run_name="__main__").items() if not k.startswith("__")})
    finally:
        sys.argv = saved
        sys.modules["__main__"] = shell.module


# ---- cell magics

def _script(program: str):
    def magic(shell, line: str, body: str) -> None:
        del line
        status = run([program], body)
        shell.user_ns["_exit_code"] = status
        if status:
            raise subprocess.CalledProcessError(status, program)

    return magic


def _bash_cell(shell, line: str, body: str) -> None:
    _script(_bash())(shell, line, body)


def _writefile(shell, line: str, body: str) -> None:
    append = line.startswith(("-a ", "--append "))
    path = os.path.expanduser(expand(shell, line.split(None, 1)[1] if append else line).strip().strip("'\""))
    if not path:
        raise errors.UsageError("%%writefile needs the name of a file")
    existed = os.path.exists(path)
    with open(path, "a" if append else "w", encoding="utf-8", errors="surrogateescape") as file:
        file.write(body if body.endswith("\n") else body + "\n")
    print(("Appending to" if append else "Overwriting" if existed else "Writing") + f" {path}")


def _lsmagic(shell, line: str) -> None:
    del shell, line
    print("Available line magics:\n" + "  ".join("%" + name for name in sorted(LINE)))
    print("\nAvailable cell magics:\n" + "  ".join("%%" + name for name in sorted(CELL)))


LINE = {
    "cd": _cd,
    "config": _config,
    "env": _env,
    "lsmagic": _lsmagic,
    "matplotlib": _matplotlib,
    "pip": _pip,
    "pwd": lambda shell, line: os.getcwd(),
    "run": _run,
    "set_env": _env,
    "sx": lambda shell, line: getoutput(shell, line),
    "system": lambda shell, line: getoutput(shell, line),
    **{name: _program(name) for name in ("cat", "cp", "ls", "mkdir", "mv", "rm", "rmdir")},
    **LINE_MORE,
}

CELL = {
    "!": _bash_cell,
    "bash": _bash_cell,
    "file": _writefile,
    "python": _script(sys.executable or "python3"),
    "python3": _script(sys.executable or "python3"),
    "sh": _script("/bin/sh"),
    "writefile": _writefile,
    **CELL_MORE,
}

UNEXPANDED = {"time", "timeit"}
"""Line magics whose argument is Python."""
