"""Outbound handlers: requests of programs in the sandbox, answered here. WebSockets: tests/sdk/test_python_network.py."""

from __future__ import annotations

import threading
import time
from typing import Any, Callable, Iterator

import httpx
import pytest

from atoll_sandbox import SandboxError, ValidationFailedError
from atoll_sandbox._async.outbound import means_host

from .conftest import until
from .support.badnetwork import BadNetwork

Make = Callable[..., Any]


def greet(request: httpx.Request) -> httpx.Response:
    return httpx.Response(203, text=f"{request.url.scheme} {request.url.host} {request.method}\n", headers={"x-from": "here"})


def curl(sandbox: Any, *words: str) -> str:
    return str(sandbox.exec("curl -sS " + " ".join(words), timeout=60).check().stdout)


def test_http_and_https_are_answered(sandbox: Any) -> None:
    sandbox.set_outbound_handler(greet)
    assert curl(sandbox, "-w '%{http_code}\\n' http://one.example/ https://two.example/x") == (
        "http one.example GET\n203\nhttps two.example GET\n203\n"
    )
    head = curl(sandbox, "-I http://one.example/").lower()
    assert " 203" in head.splitlines()[0] and "x-from: here" in head


def test_one_host_goes_before_all_and_none_ends_it(sandbox: Any) -> None:
    sandbox.set_outbound_handler(greet)
    sandbox.set_outbound_by_host("*.by.example", lambda request: httpx.Response(200, json={"by": "host"}))
    assert curl(sandbox, "http://a.by.example/ http://one.example/") == '{"by": "host"}http one.example GET\n'
    sandbox.set_outbound_handler(None)
    assert sandbox.info().outbound == {"http": ["*.by.example"], "https": ["*.by.example"]}
    assert curl(sandbox, "http://a.by.example/") == '{"by": "host"}'
    sandbox.set_outbound_by_host("*.by.example", None)
    assert sandbox.info().outbound is None


def test_hosts_of_one_protocol(sandbox: Any) -> None:
    sandbox.set_outbound_handler(greet, {"http": ["one.example"]})
    assert sandbox.info().outbound == {"http": ["one.example"], "https": []}
    with pytest.raises(ValidationFailedError, match="'http' and 'https'"):
        sandbox.set_outbound_handler(greet, {"ftp": ["one.example"]})
    with pytest.raises(TypeError, match="list of str"):
        sandbox.set_outbound_handler(greet, "one.example")
    with pytest.raises(TypeError, match="function"):
        sandbox.set_outbound_handler("no function")


def echo(request: httpx.Request) -> httpx.Response:
    return httpx.Response(200, content=request.stream)


def test_bodies_stream_in_both_directions(sandbox: Any) -> None:
    sandbox.set_outbound_handler(echo)
    sent = "head -c 3000000 /dev/urandom > /tmp/f; curl -sS -T /tmp/f -X POST http://one.example/ | cmp - /tmp/f && echo same"
    assert sandbox.exec(sent, timeout=120).stdout == "same\n"


def forever() -> Iterator[bytes]:
    while True:
        yield b"x" * 65536


def test_a_program_that_leaves_ends_its_answer(sandbox: Any) -> None:
    """An answer without an end is given up with its request, and others go on."""
    left = threading.Event()

    def handler(request: httpx.Request) -> httpx.Response:
        def pieces() -> Iterator[bytes]:
            try:
                yield from forever()
            finally:
                left.set()

        return httpx.Response(200, content=pieces()) if request.url.path == "/long" else greet(request)

    sandbox.set_outbound_handler(handler)
    assert sandbox.exec("curl -sS http://one.example/long | head -c 1000000 | wc -c", timeout=60).stdout == "1000000\n"
    assert curl(sandbox, "http://one.example/") == "http one.example GET\n"

    def ended() -> bool:
        sandbox.exec("true")  # drives the loop of the async client
        return left.is_set()

    until(ended, "the end of the answer")


def test_a_handler_that_fails_is_a_520(sandbox: Any, caplog: pytest.LogCaptureFixture) -> None:
    def broken(request: httpx.Request) -> Any:
        if request.url.path == "/none":
            return None
        raise ValueError("a fault of the handler")

    sandbox.set_outbound_handler(broken)
    assert curl(sandbox, "-w '%{http_code}\\n'", "http://one.example/").endswith("520\n")
    assert "ValueError: a fault of the handler" in caplog.text
    assert curl(sandbox, "-w '%{http_code}\\n'", "http://one.example/none").endswith("520\n")
    assert "returns httpx.Response or a WebSocket, not NoneType" in caplog.text


def test_several_requests_at_once(sandbox: Any) -> None:
    seen: list[str] = []

    def handler(request: httpx.Request) -> httpx.Response:
        seen.append(request.url.path)
        return httpx.Response(200, content=request.stream)

    sandbox.set_outbound_handler(handler)
    # The first one's body ends only after the second was answered.
    script = "(until [ -s /tmp/two ]; do sleep 0.05; done; echo one) | curl -sS -T - http://one.example/1 & "
    script += "echo two | curl -sS -T - http://one.example/2 > /tmp/two; wait; cat /tmp/two"
    assert sandbox.exec(script, timeout=60).stdout == "one\ntwo\n"
    assert sorted(seen) == ["/1", "/2"]


def test_the_hook_comes_back_after_a_break(make: Make, box_id: str, daemon: Any, network: Callable[..., BadNetwork]) -> None:
    bad = network()
    sandbox = make(box_id, url=bad.url, token=daemon.token)
    sandbox.set_outbound_handler(greet)
    assert curl(sandbox, "http://one.example/") == "http one.example GET\n"
    hooks = sum("/hook" in line for line in bad.requests)
    bad.cut()

    def again() -> bool:
        sandbox.exec("true")
        return sum("/hook" in line for line in bad.requests) > hooks

    until(again, "the hook")
    assert curl(sandbox, "http://one.example/") == "http one.example GET\n"


def test_destroy_ends_handlers_and_makes_nothing_anew(sandbox: Any) -> None:
    sandbox.set_outbound_handler(greet)
    sandbox.destroy()
    end = time.monotonic() + 1  # a hook that came back would have made the sandbox by then
    while time.monotonic() < end:
        assert sandbox.info() is None
    sandbox.exec("true")
    assert sandbox.info().outbound is None


def test_closing_lets_go_of_the_hook(make: Make, box_id: str) -> None:
    first, second = make(box_id), make(box_id)
    first.set_outbound_handler(greet)
    first.close()
    second.set_outbound_handler(lambda request: httpx.Response(200, text="the second\n"))
    assert curl(second, "http://one.example/") == "the second\n"
    with pytest.raises((SandboxError, RuntimeError)):
        first.set_outbound_handler(greet)


def test_patterns_of_hosts() -> None:
    for pattern, url, meant in (
        ("*", "http://a.b/", True), ("a.example", "https://A.example/x", True), ("a.example", "http://b.a.example/", False),
        ("*.example", "http://a.example/", True), ("*.example", "http://example/", False), ("a.e", "http://axe/", False),
        ("10.0.0.1:80", "http://10.0.0.1/", True), ("10.0.0.1:80", "http://10.0.0.1:81/", False),
        ("a.example:443", "https://a.example/", True),
    ):
        assert means_host(pattern, httpx.URL(url)) is meant, (pattern, url)
