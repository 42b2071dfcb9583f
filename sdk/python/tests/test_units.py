"""The parts that need no daemon."""

from __future__ import annotations

import ast
import re
import subprocess
import sys
from pathlib import Path
from typing import Any

import httpx
import pytest

from atoll_sandbox import _sse
from atoll_sandbox import _wire as wire
from atoll_sandbox._matcher import LogMatcher
from atoll_sandbox._sse import FrameReader
from atoll_sandbox._version import fits
from atoll_sandbox._websocket import Connection
from atoll_sandbox.errors import SandboxError
from atoll_sandbox.models import ExecEvent, made

HERE = Path(__file__).resolve().parents[1]


def test_the_blocking_client_is_made_from_the_async_one() -> None:
    done = subprocess.run([sys.executable, HERE / "tools/unasync.py", "--check"], capture_output=True, text=True, check=False)
    assert done.returncode == 0, f"run tools/unasync.py: these are not as it writes them\n{done.stdout}{done.stderr}"


def test_both_clients_have_the_same_methods() -> None:
    import inspect

    from atoll_sandbox import AsyncProcess, AsyncSandbox, AsyncSession, AsyncTerminal, Process, Sandbox, Session, Terminal

    def public(kind: type) -> dict[str, list[str]]:
        found = {name.replace("aclose", "close"): value for name, value in inspect.getmembers(kind, callable)}
        return {name: list(inspect.signature(value).parameters) for name, value in found.items() if not name.startswith("_")}

    for one, other in ((Sandbox, AsyncSandbox), (Session, AsyncSession), (Process, AsyncProcess), (Terminal, AsyncTerminal)):
        assert public(one) == public(other)


def test_files_are_small_and_in_the_syntax_of_python_3_9() -> None:
    for path in [*HERE.glob("src/**/*.py"), *HERE.glob("tests/**/*.py"), *HERE.glob("tools/*.py")]:
        text = path.read_text(encoding="utf-8")
        ast.parse(text, str(path), feature_version=(3, 9))
        assert text.count("\n") <= 600, path


def test_frames_wherever_pieces_end() -> None:
    stream = (b': comment\n\nid: 1\ndata: {"type": "a"}\n\r\n\ndata: {"type":\ndata: "b"}\r\n\r\n'
              b'data: [DONE]\n\ndata: nothing\n\ndata:{"type": "gr\xc3\xbc\xc3\x9fe"}\n\ndata: {"type": "cut"}\n')
    for size in (1, 2, 3, 7, 1000):
        reader = FrameReader()
        frames = [frame for at in range(0, len(stream), size) for frame in reader.push(stream[at:at + size])]
        assert [(frame.event["type"], frame.id) for frame in frames] == [("a", "1"), ("b", None), ("grüße", None)]


def test_an_endless_frame_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(_sse, "FRAME_BYTES", 1000)
    reader = FrameReader()
    assert reader.push(b"data: " + b"x" * 994) == []
    with pytest.raises(SandboxError):
        reader.push(b"x")


def test_patterns_in_pieces() -> None:
    def found(pattern: "str | re.Pattern[str]", *pieces: str) -> "tuple[str, bool] | None":
        matcher = LogMatcher(pattern)
        last = [matcher.push(piece) for piece in pieces][-1]
        return (last.match.line, last.whole) if last else None

    assert found("ready", "rea", "dy\nmore") == ("ready", True)
    assert found("ready", "is ready") == ("is ready", False)
    assert found(re.compile(r"port (\d+)"), "on port 80", "80\n") == ("on port 8080", True)
    assert found(re.compile("^b$"), "a\n", "b\n") == ("b", True)
    assert found(re.compile("a\nb"), "x a\n", "b y\n") == ("a\nb", True)
    assert found("none", "x" * 500_000, "y\n") is None
    many = LogMatcher("needle")
    assert not any(many.push("x" * 10_000 + "\n") for _ in range(50))
    assert len(many._text) < 200_000
    last = many.push("needle\n")
    assert last and last.match.line == "needle"
    for wrong in ("", re.compile(b"x"), None):
        with pytest.raises(TypeError):
            LogMatcher(wrong)  # type: ignore[arg-type]


def test_answers_that_are_no_websocket() -> None:
    for answer in (b"garbage\r\n\r\n", b"HTTP/1.1 101 OK\r\n\r\n", b""):
        connection = Connection("http://a:1/x", {})
        assert connection.output().startswith(b"GET /x HTTP/1.1\r\nHost: a:1\r\n")
        connection.receive(answer)
        assert connection.refusal and connection.over and not connection.open
    refused = Connection("http://a:1/x", {"authorization": "Bearer t"})
    assert b"authorization: Bearer t" in refused.output()
    body = b'{"code": "UNAUTHORIZED", "message": "no"}'
    refused.receive(b"HTTP/1.1 401 Unauthorized\r\nContent-Length: %d\r\n\r\n%b" % (len(body), body))
    assert refused.refusal and refused.refusal.code == "UNAUTHORIZED"


def test_paths_stay_below_the_server() -> None:
    for path, wanted in (
        ("/", "/"), ("/a/b/", "/a/b/"), ("/a?x=/../y", "/a?x=/../y"), ("/..", "/"), ("/a/..", "/"), ("/a/b/..", "/a/"),
        ("/a/.", "/a/"), ("/../../../etc", "/etc"), ("//x/../y", "//y"), ("/a/..%2f/b", "/a/..%2f/b"), ("/%2E%2e/b", "/b"),
        ("/a#b", "/a%23b"), ("/...", "/..."),
    ):
        target = wire.proxied(8080, path)
        assert target == f"/proxy/8080{wanted}", path
        assert httpx.URL(f"http://h/v1{target}").raw_path.startswith(b"/v1/proxy/8080/")
    for dots in (".", "..", ""):
        with pytest.raises(ValueError):
            wire.segment(dots)


def test_versions() -> None:
    assert [version for version in ("0.1.0", "0.1.9-rc1", "0.2", "1.0.0", "0.0.9", "x", "") if fits(version)] == [
        "0.1.0", "0.1.9-rc1", "0.2",
    ]


def test_answers_that_are_no_answers() -> None:
    assert made(ExecEvent, {"type": "stdout", "new": 1, "data": None}).data is None
    answers: list[dict[str, Any]] = [{}, {"type": "x", "timestamp": "soon"}, {"type": "x", "timestamp": 7}]
    for wrong in answers:
        with pytest.raises(SandboxError) as caught:
            made(ExecEvent, wrong)
        assert caught.value.code == "INVALID_JSON_RESPONSE"
