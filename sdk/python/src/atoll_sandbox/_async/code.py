"""Code contexts."""

from __future__ import annotations

from typing import Any, Awaitable, Callable, Mapping, Union

from .. import _checks as checks
from .. import _wire as wire
from .._io import aio as io
from ..models import made
from ..results import CodeContext, CodeEvent, Execution, ExecutionError, OutputMessage, Result, code_event
from .commands import Scope
from .streams import AsyncEventStream, Link

OnOutput = Callable[[OutputMessage], Union[None, Awaitable[None]]]
OnResult = Callable[[Result], Union[None, Awaitable[None]]]
OnCodeError = Callable[[ExecutionError], Union[None, Awaitable[None]]]


def _context_id(context: CodeContext | str | None) -> str | None:
    if context is None or isinstance(context, str):
        return context
    if not isinstance(context, CodeContext):
        raise TypeError(f"a context is a CodeContext or its id, not {type(context).__name__}")
    return context.id


class AsyncCode(Scope):
    async def create_code_context(
        self,
        language: checks.Language = "python",
        *,
        cwd: checks.StrPath = "/workspace",
        env: Mapping[str, str | None] | None = None,
        timeout: float | None = None,
    ) -> CodeContext:
        """Starts an interpreter for `python`, `javascript` or `typescript`. `timeout` limits each run in it, in seconds."""
        body = {
            "language": checks.language_name(language),
            "cwd": checks.path_text(cwd, "cwd"),
            "env_vars": checks.present(self._box.env, checks.variables(env)),
            "timeout_ms": checks.milliseconds(timeout),
        }
        answer = await self._box.json(wire.request("POST", "/api/contexts", body))
        return made(CodeContext, {**answer, "id": answer.get("contextId"), "createdAt": answer.get("timestamp")})

    async def list_code_contexts(self) -> list[CodeContext]:
        answer = await self._box.json(wire.request("GET", "/api/contexts"))
        return [made(CodeContext, {"createdAt": answer["timestamp"], **one}) for one in answer["contexts"]]

    async def delete_code_context(self, context: CodeContext | str) -> None:
        await self._box.json(wire.request("DELETE", f"/api/contexts/{wire.segment(_context_id(context) or '')}"))

    async def run_code(
        self,
        code: str,
        *,
        context: CodeContext | str | None = None,
        language: checks.Language | None = None,
        env: Mapping[str, str | None] | None = None,
        timeout: float | None = None,
        on_stdout: OnOutput | None = None,
        on_stderr: OnOutput | None = None,
        on_result: OnResult | None = None,
        on_error: OnCodeError | None = None,
    ) -> Execution:
        """Runs code in a context that keeps its state: `context`, or the sandbox's own for `language` (Python).

        Code that fails is a result with `error`. Code that takes longer than `timeout` seconds is interrupted; the context
        keeps its state.
        """
        execution = Execution(code)
        async with self.run_code_stream(code, context=context, language=language, env=env, timeout=timeout) as events:
            async for event in events:
                execution.take(event)
                if event.type in ("stdout", "stderr"):
                    output = OutputMessage(event.text or "", event.timestamp)
                    await io.call(on_stdout if event.type == "stdout" else on_stderr, output)
                elif event.result is not None:
                    await io.call(on_result, event.result)
                elif event.error is not None:
                    await io.call(on_error, event.error)
        return execution

    def run_code_stream(
        self,
        code: str,
        *,
        context: CodeContext | str | None = None,
        language: checks.Language | None = None,
        env: Mapping[str, str | None] | None = None,
        timeout: float | None = None,
    ) -> AsyncEventStream[CodeEvent]:
        """Runs code and yields what it produces while it runs. Leaving the loop interrupts the code."""
        if not isinstance(code, str):
            raise TypeError(f"code is a str, not {type(code).__name__}")
        # A context was given the sandbox's variables when it was made; the default one was not.
        outside = self._box.env if context is None else {}
        body = {
            "code": code,
            "context_id": _context_id(context),
            "language": None if language is None else checks.language_name(language),
            "env_vars": checks.present(outside, checks.variables(env)),
            "timeout_ms": checks.milliseconds(timeout),
        }
        return AsyncEventStream(_CodeLink(self._box, wire.stream_request("POST", "/api/execute/code", body)), code_event)


class _CodeLink(Link):
    """A run is over when it says so: a stream that ends before has lost its outcome."""

    _over = False

    async def next(self, until: float | None = None) -> dict[str, Any] | None:
        event = await super().next(until)
        if event is None and not self._over:
            raise wire.ended_early(self._box.transport.place, "code.execute")
        self._over = self._over or (event or {}).get("type") in ("execution_complete", "error")
        return event
