"""AsyncSandbox, used as if it were blocking: every test runs with both clients and is written once."""

from __future__ import annotations

import asyncio
import inspect
from typing import Any, Iterator


def _unwrapped(value: Any) -> Any:
    return value._target if isinstance(value, Driven) else value


class Driven:
    """An object of the async client. Calls, loops and `with` are driven by an event loop; what they give is wrapped again."""

    def __init__(self, target: Any, loop: asyncio.AbstractEventLoop) -> None:
        self._target, self._loop = target, loop

    def _wrapped(self, value: Any) -> Any:
        if inspect.isawaitable(value):
            value = self._loop.run_until_complete(_awaited(value))
        if isinstance(value, list):
            return [self._wrapped(one) for one in value]
        own = type(value).__module__.startswith("atoll_sandbox._async")
        return Driven(value, self._loop) if own else value

    def __getattr__(self, name: str) -> Any:
        found = getattr(self._target, "aclose" if name == "close" else name)
        if not callable(found):
            return found

        def called(*arguments: Any, **named: Any) -> Any:
            given = [_unwrapped(one) for one in arguments]
            return self._wrapped(found(*given, **{key: _unwrapped(one) for key, one in named.items()}))

        return called

    def __iter__(self) -> Iterator[Any]:
        iterator = self._target.__aiter__()
        while True:
            try:
                yield self._wrapped(iterator.__anext__())
            except StopAsyncIteration:
                return

    def __next__(self) -> Any:
        return self._wrapped(self._target.__anext__())

    def __enter__(self) -> Driven:
        self._wrapped(self._target.__aenter__())
        return self

    def __exit__(self, *error: object) -> None:
        self._wrapped(self._target.__aexit__(*error))

    def __str__(self) -> str:
        return str(self._target)


async def _awaited(value: Any) -> Any:
    return await value
