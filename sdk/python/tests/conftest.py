"""Fixtures: the daemon that tests/sdk has started, and sandboxes of both clients."""

from __future__ import annotations

import asyncio
import itertools
import os
import time
from typing import Any, Callable, Iterator, NamedTuple

import pytest

from atoll_sandbox import AsyncSandbox, Sandbox

from .support.badnetwork import BadNetwork, Fate
from .support.driven import Driven

_numbers = itertools.count(1)


class Daemon(NamedTuple):
    url: str
    token: str
    socket: str


@pytest.fixture(scope="session")
def daemon() -> Daemon:
    try:
        return Daemon(os.environ["ATOLL_URL"], os.environ["ATOLL_TOKEN"], os.environ["ATOLL_TEST_SOCKET"])
    except KeyError as missing:
        pytest.fail(f"{missing} is not set: tests/run sdk -k python starts a daemon and sets it")


@pytest.fixture(params=["sync", "async"])
def make(request: pytest.FixtureRequest) -> Iterator[Callable[..., Any]]:
    """Makes objects of either client: `make("id", …)`; all are closed at the end."""
    loop = asyncio.new_event_loop()
    made: list[Any] = []

    def maker(name: str, **options: Any) -> Any:
        made.append(Sandbox(name, **options) if request.param == "sync" else Driven(AsyncSandbox(name, **options), loop))
        return made[-1]

    yield maker
    for one in made:
        one.close()
    loop.run_until_complete(loop.shutdown_asyncgens())
    loop.close()


@pytest.fixture
def box_id(daemon: Daemon) -> Iterator[str]:
    """The id of a sandbox, which is destroyed at the end."""
    name = f"p{os.getpid()}-{next(_numbers)}"
    yield name
    with Sandbox(name, url=daemon.url, token=daemon.token) as sandbox:
        sandbox.destroy()


@pytest.fixture
def sandbox(make: Callable[..., Any], box_id: str) -> Any:
    return make(box_id)


@pytest.fixture
def network(daemon: Daemon) -> Iterator[Callable[..., BadNetwork]]:
    """Starts a network that breaks."""
    started: list[BadNetwork] = []

    def start(fate: Fate = lambda n: None) -> BadNetwork:
        started.append(BadNetwork(daemon.url.split("://")[1], fate))
        return started[-1]

    yield start
    for one in started:
        one.close()


def until(condition: Callable[[], Any], what: str, seconds: float = 45) -> Any:
    """Waits for a state that has no event."""
    end = time.monotonic() + seconds
    while True:
        answer = condition()
        if answer:
            return answer
        assert time.monotonic() < end, f"waited too long for {what}"
        time.sleep(0.02)
