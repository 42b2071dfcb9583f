"""Results of code. In a notebook, results show themselves: charts as pictures, tables as tables."""

from __future__ import annotations

import base64
import json
from dataclasses import dataclass, field
from datetime import datetime
from typing import Any, Iterable, List, Literal, Mapping

from .models import made

_MIME = {
    "text": "text/plain",
    "html": "text/html",
    "markdown": "text/markdown",
    "latex": "text/latex",
    "svg": "image/svg+xml",
    "png": "image/png",
    "jpeg": "image/jpeg",
    "javascript": "application/javascript",
    "json": "application/json",
}
_FORMS = (*_MIME, "chart", "data")


@dataclass(frozen=True)
class CodeContext:
    """An interpreter that keeps its state from one run to the next."""

    id: str
    language: str
    cwd: str
    created_at: datetime
    last_used: datetime | None = None


@dataclass(frozen=True)
class ExecutionError:
    """An exception of the code. `str(error)` is like `NameError: name 'x' is not defined`."""

    name: str
    message: str
    traceback: List[str] = field(default_factory=list)
    #: The line of the code, from 1.
    line_number: int | None = None

    def __str__(self) -> str:
        return f"{self.name}: {self.message}" if self.message else self.name


@dataclass(frozen=True)
class Result:
    """A value that code produced, in every form that the interpreter offers."""

    text: str | None = None
    html: str | None = None
    markdown: str | None = None
    latex: str | None = None
    svg: str | None = None
    #: base64; `image` has the bytes.
    png: str | None = None
    #: base64; `image` has the bytes.
    jpeg: str | None = None
    javascript: str | None = None
    json: Any = None
    #: The data behind a chart: its type, title, axes and series.
    chart: dict[str, Any] | None = None
    data: Any = None

    def formats(self) -> list[str]:
        """Names of the forms that the value has."""
        return [form for form in _FORMS if getattr(self, form) is not None]

    @property
    def image(self) -> bytes | None:
        """The picture, if there is one: PNG or else JPEG."""
        encoded = self.png if self.png is not None else self.jpeg
        return None if encoded is None else base64.b64decode(encoded)

    def __str__(self) -> str:
        return self.text if self.text is not None else f"<{', '.join(self.formats()) or 'empty'}>"

    def _repr_mimebundle_(self, include: Iterable[str] | None = None, exclude: Iterable[str] | None = None) -> dict[str, Any]:
        bundle = {mime: getattr(self, form) for form, mime in _MIME.items() if getattr(self, form) is not None}
        bundle.setdefault("text/plain", str(self))
        return _selected(bundle, include, exclude)


def _selected(bundle: dict[str, Any], include: Iterable[str] | None, exclude: Iterable[str] | None) -> dict[str, Any]:
    wanted = set(bundle if include is None else include) - set(exclude or ())
    return {mime: value for mime, value in bundle.items() if mime in wanted}


@dataclass(frozen=True)
class Logs:
    """Output of code, piece by piece."""

    stdout: List[str] = field(default_factory=list)
    stderr: List[str] = field(default_factory=list)


@dataclass(frozen=True)
class OutputMessage:
    """One piece of output of code."""

    text: str
    timestamp: datetime | None = None


@dataclass(frozen=True)
class CodeEvent:
    """One event of `run_code_stream`: `stdout`, `stderr`, `result`, `error`, `execution_complete`."""

    type: Literal["stdout", "stderr", "result", "error", "execution_complete"]
    text: str | None = None
    #: With `result`.
    result: Result | None = None
    #: With `error`.
    error: ExecutionError | None = None
    execution_count: int | None = None
    timestamp: datetime | None = None


def code_event(wire: Mapping[str, Any]) -> CodeEvent:
    kind = wire.get("type")
    more: dict[str, Any] = {}
    if kind == "result":
        more["result"] = made(Result, {form: wire[form] for form in _FORMS if form in wire})
    elif kind == "error":
        more["error"] = ExecutionError(
            str(wire.get("ename") or "Error"), str(wire.get("evalue") or ""),
            [str(line) for line in wire.get("traceback") or ()], wire.get("lineNumber"),
        )
    if not isinstance(wire.get("timestamp"), str):
        more["timestamp"] = None
    return made(CodeEvent, wire, **more)


@dataclass
class Execution:
    """The answer of `run_code`. Code that fails is a result with `error`, not an exception."""

    code: str
    results: List[Result] = field(default_factory=list)
    logs: Logs = field(default_factory=Logs)
    error: ExecutionError | None = None
    execution_count: int | None = None
    _printed: List[str] = field(default_factory=list, init=False, repr=False, compare=False)

    @property
    def success(self) -> bool:
        """Whether the code ran to its end without an exception."""
        return self.error is None

    @property
    def text(self) -> str | None:
        """The text of the last value."""
        return next((result.text for result in reversed(self.results) if result.text is not None), None)

    @property
    def output(self) -> str:
        """Everything printed, on either stream, in its order; the text of the last value if nothing was printed."""
        return "".join(self._printed) or self.text or ""

    def take(self, event: CodeEvent) -> None:
        """Adds what an event tells."""
        if event.type in ("stdout", "stderr"):
            self._printed.append(event.text or "")
        if event.type == "stdout":
            self.logs.stdout.append(event.text or "")
        elif event.type == "stderr":
            self.logs.stderr.append(event.text or "")
        elif event.result is not None:
            self.results.append(event.result)
        elif event.error is not None:
            self.error = event.error
        elif event.type == "execution_complete":
            self.execution_count = event.execution_count

    def to_json(self) -> str:
        results = [{form: getattr(result, form) for form in result.formats()} for result in self.results]
        error = self.error and {**vars(self.error)}
        whole = {"code": self.code, "results": results, "logs": vars(self.logs), "error": error,
                 "execution_count": self.execution_count}
        return json.dumps(whole)

    def _repr_mimebundle_(self, include: Iterable[str] | None = None, exclude: Iterable[str] | None = None) -> dict[str, Any]:
        bundle = self.results[-1]._repr_mimebundle_() if self.results and not self.error else {}
        shown = ["".join(self.logs.stdout), "".join(self.logs.stderr), bundle.get("text/plain", "")]
        if self.error:
            shown.append("\n".join(self.error.traceback) or str(self.error))
        bundle["text/plain"] = "\n".join(part.rstrip("\n") for part in shown if part)
        return _selected(bundle, include, exclude)
