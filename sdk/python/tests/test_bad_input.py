"""Every failure is an exception that says what to do, within a time limit."""

from __future__ import annotations

import http.server
import json
import pickle
import socket
import threading
import time
from typing import Any, Callable, Iterator

import pytest

import atoll_sandbox
from atoll_sandbox import (
    ContainerUnavailableError,
    FileSystemError,
    OperationInterruptedError,
    RPCTransportError,
    Sandbox,
    SandboxError,
    SandboxSecurityError,
    ValidationFailedError,
)
from atoll_sandbox import _wire as wire

from .conftest import Daemon, until
from .support.badnetwork import BadNetwork

Make = Callable[..., Any]


class Server:
    """A server that is not Atoll, or a bad one: answers each request with what `answer` says."""

    def __init__(self, answer: Callable[[str, int], "tuple[int, object] | None"], port: int = 0) -> None:
        asked: dict[str, int] = {}
        self.asked = asked

        class Handler(http.server.BaseHTTPRequestHandler):
            def do_GET(self) -> None:
                asked[self.path] = asked.get(self.path, 0) + 1
                said = answer(self.path, asked[self.path])
                if said is None:
                    time.sleep(30)
                    return
                body = said[1].encode() if isinstance(said[1], str) else json.dumps(said[1]).encode()
                self.send_response(said[0])
                self.send_header("Content-Length", str(len(body)))
                self.send_header("Content-Type", "text/event-stream" if body.startswith(b"data:") else "text/html")
                self.end_headers()
                self.wfile.write(body)

            do_POST = do_PUT = do_DELETE = do_GET

            def log_message(self, *_: object) -> None:
                pass

        self._server = http.server.ThreadingHTTPServer(("127.0.0.1", port), Handler)
        self._server.daemon_threads = True
        self._server.block_on_close = False
        threading.Thread(target=self._server.serve_forever, daemon=True).start()
        self.url = f"http://127.0.0.1:{self._server.server_address[1]}"

    def close(self) -> None:
        self._server.shutdown()
        self._server.server_close()


@pytest.fixture
def serve() -> Iterator[Callable[..., Server]]:
    started: list[Server] = []

    def start(answer: Callable[[str, int], "tuple[int, object] | None"]) -> Server:
        started.append(Server(answer))
        return started[-1]

    yield start
    for one in started:
        one.close()


def healthy(version: str = "0.1.0") -> tuple[int, object]:
    return 200, {"status": "ok", "version": version}


# ---- The daemon


def test_a_daemon_that_is_not_there(make: Make, tmp_path: Any) -> None:
    with socket.create_server(("127.0.0.1", 0)) as free:
        port = free.getsockname()[1]
    for url in (f"http://127.0.0.1:{port}", f"unix:{tmp_path}/none.sock"):
        began = time.monotonic()
        sandbox = make("x", url=url)
        for call in (lambda: sandbox.exec("true"), sandbox.terminal, sandbox.info, lambda: list(sandbox.exec_stream("true"))):
            with pytest.raises(ContainerUnavailableError, match="cannot be reached.*atoll up.*ATOLL_URL") as caught:
                call()
            assert caught.value.retryable and isinstance(caught.value, ConnectionError)
        # Nothing listens, which no waiting changes.
        assert time.monotonic() - began < wire.RETRY_SECONDS
    with pytest.raises(ContainerUnavailableError, match="cannot be reached"):
        make("x", url="http://no-such-host.invalid:1").exec("true")


def test_a_daemon_that_starts_again(make: Make) -> None:
    """One that has answered before is waited for; one that never did, only on request."""
    result = {"exitCode": 0, "stdout": "again\n", "stderr": "", "command": "x", "timestamp": "2026-01-01T00:00:00.000Z"}

    def answer(path: str, n: int) -> tuple[int, object]:
        return healthy() if path == "/v1/health" else (200, result)

    server = Server(answer)
    known, patient = make("x", url=server.url), make("x", url=server.url, retry_timeout=60)
    known.exec("true")
    server.close()
    port = int(server.url.rpartition(":")[2])
    later = threading.Timer(0.5, lambda: started.append(Server(answer, port)))
    started: list[Server] = []
    later.start()
    try:
        assert known.exec("true").stdout == "again\n" == patient.exec("true").stdout
    finally:
        later.join()
        started[0].close()
    hasty = make("x", url=server.url, retry_timeout=0)
    with pytest.raises(ContainerUnavailableError):
        hasty.exec("true")


def test_a_daemon_that_is_silent(make: Make, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(wire, "CONNECT_SECONDS", 0.3)
    with socket.create_server(("127.0.0.1", 0)) as server:
        sandbox = make("x", url=f"http://127.0.0.1:{server.getsockname()[1]}")
        with pytest.raises(ContainerUnavailableError, match="does not answer like Atoll"):
            sandbox.exec("true")


def test_a_daemon_that_falls_silent(make: Make, serve: Callable[..., Server], monkeypatch: pytest.MonkeyPatch) -> None:
    server = serve(lambda path, n: healthy() if path == "/v1/health" else None)
    monkeypatch.setattr(wire, "GRACE_SECONDS", 0.2)
    with pytest.raises(RPCTransportError, match="sent nothing for 0.4 s.*not known") as caught:
        make("x", url=server.url).exec("true", timeout=0.2)
    assert caught.value.kind == "timeout"


def test_a_server_that_is_not_atoll(make: Make, serve: Callable[..., Server]) -> None:
    for answer, told in (
        ((200, "<html>hello"), "no JSON object"),
        ((200, {"hello": "there"}), "is not Atoll"),
        ((404, "<html>nothing here"), "HTTP 404: Not Found"),
    ):
        server = serve(lambda path, n, answer=answer: answer)
        with pytest.raises(SandboxError, match=f"{told}.*Check"):
            make("x", url=server.url).exec("true")


def test_versions_that_do_not_fit(make: Make, serve: Callable[..., Server]) -> None:
    for version in ("1.0.0", "0.0.9", "99.1", "nightly"):
        server = serve(lambda path, n, version=version: healthy(version))
        with pytest.raises(SandboxError, match=f"version {version}.*Install") as caught:
            make("x", url=server.url).exec("true")
        assert caught.value.code == "VERSION_MISMATCH"
        assert set(server.asked) == {"/v1/health"}


def test_a_wrong_token(make: Make, daemon: Daemon) -> None:
    for token in ("wrong", "x" * 64):
        sandbox = make("x", url=daemon.url, token=token)
        for call in (lambda: sandbox.exec("true"), lambda: sandbox.read_file("f"), sandbox.terminal):
            with pytest.raises(SandboxError, match="token=…") as caught:
                call()
            assert (caught.value.code, caught.value.http_status) == ("UNAUTHORIZED", 401)


def test_not_ready_is_waited_for_and_too_many_is_told(make: Make, serve: Callable[..., Server]) -> None:
    late = {"code": "CONTAINER_UNAVAILABLE", "message": "not yet", "context": {}, "httpStatus": 503}
    result = {"exitCode": 0, "stdout": "ready\n", "stderr": "", "command": "x", "timestamp": "2026-01-01T00:00:00.000Z"}
    server = serve(lambda path, n: healthy() if path == "/v1/health" else (503, late) if n <= 2 else (200, result))
    assert make("x", url=server.url).exec("true").stdout == "ready\n"
    assert server.asked["/v1/sandboxes/x/api/execute"] == 3
    server = serve(lambda path, n: healthy() if path == "/v1/health" else (503, late))
    with pytest.raises(ContainerUnavailableError, match="not yet"):
        make("x", url=server.url, ready_timeout=0.2).exec("true")


def test_429(sandbox: Any) -> None:
    with pytest.raises(SandboxError, match="Wait for what is under way, or free what is not needed") as caught:
        for port in range(2000, 2100):
            sandbox.expose_port(port)
    assert (caught.value.code, caught.value.http_status) == ("LIMIT_REACHED", 429)


# ---- The sandbox


def test_an_unknown_sandbox(make: Make, box_id: str) -> None:
    sandbox = make(box_id, create=False)
    for call in (lambda: sandbox.exec("true"), lambda: list(sandbox.exec_stream("true")), sandbox.terminal):
        with pytest.raises(SandboxError, match="create=False") as caught:
            call()
        assert caught.value.code == "SANDBOX_NOT_FOUND"
    assert sandbox.info() is None


def test_ids_that_cannot_be(make: Make) -> None:
    for name, code in (
        ("", "LENGTH"), ("x" * 64, "LENGTH"), ("a-", "HYPHENS"), ("-a", "HYPHENS"), ("a b", "CHARACTERS"), ("a/b", "CHARACTERS"),
        ("ä", "CHARACTERS"), ("a\n", "CHARACTERS"), (".", "CHARACTERS"), ("..", "CHARACTERS"),
    ):
        with pytest.raises(SandboxSecurityError) as caught:
            make(name)
        assert caught.value.code == f"INVALID_SANDBOX_ID_{code}"
    with pytest.raises(SandboxSecurityError) as reserved:
        make("API")
    assert reserved.value.code == "RESERVED_SANDBOX_ID"
    with pytest.raises(TypeError):
        make(7)
    make("x" * 63)


def test_a_full_disk(sandbox: Any) -> None:
    sandbox.write_file("/dev/shm/f", "old")
    with pytest.raises(FileSystemError, match="space") as caught:
        sandbox.write_file("/dev/shm/f", (b"x" * (1 << 20) for _ in range(512)))
    assert caught.value.code == "NO_SPACE"
    assert caught.value.suggestion
    assert sandbox.read_file("/dev/shm/f") == "old"


def test_a_sandbox_that_ends_while_it_works(sandbox: Any) -> None:
    def destroy() -> None:
        with Sandbox(sandbox.id) as other:
            until(lambda: other.exists("/tmp/on", session="other"), "the command to run")
            other.destroy()

    thread = threading.Thread(target=destroy)
    thread.start()
    with pytest.raises(SandboxError, match="not known") as caught:
        sandbox.exec("touch /tmp/on; sleep 600")
    thread.join()
    assert caught.value.code in ("CONTAINER_LOST", "RPC_TRANSPORT_ERROR")


# ---- Connections that break


def test_a_command_whose_answer_is_lost_is_not_run_again(
    make: Make, box_id: str, daemon: Daemon, network: Callable[..., BadNetwork]
) -> None:
    home = make(box_id)
    home.exec("true")
    bad = network(lambda n: 0 if n == 1 else None)
    with pytest.raises(RPCTransportError, match="not known.*decide whether to repeat"):
        make(box_id, url=bad.url, token=daemon.token).exec("echo x >> /workspace/count")
    until(lambda: home.exists("/workspace/count"), "the command to have run")
    assert home.read_file("/workspace/count") == "x\n"
    assert len([line for line in bad.requests if "/api/execute" in line]) == 1


def test_reading_is_repeated(make: Make, box_id: str, daemon: Daemon, network: Callable[..., BadNetwork]) -> None:
    make(box_id).write_file("/workspace/f", "content")
    bad = network(lambda n: 0 if n <= 3 else None)
    there = make(box_id, url=bad.url, token=daemon.token)
    assert there.read_file("/workspace/f") == "content"
    assert len([line for line in bad.requests if "/api/file" in line]) == 4
    assert there.list_processes() == []


def test_a_cut_stream_of_code_is_told(make: Make, box_id: str, daemon: Daemon, network: Callable[..., BadNetwork]) -> None:
    make(box_id).run_code("1")
    bad = network(lambda n: 400 if n == 1 else None)
    there = make(box_id, url=bad.url, token=daemon.token)
    with pytest.raises(RPCTransportError, match="not known"):
        there.run_code("for i in range(10000): print(i)")


def test_a_cut_stream_without_an_end_is_told(make: Make, box_id: str, daemon: Daemon, network: Callable[..., BadNetwork]) -> None:
    make(box_id).exec("true")
    for method in ("watch", "follow_network_log", "follow_approvals"):
        bad = network()
        with getattr(make(box_id, url=bad.url, token=daemon.token), method)() as events:
            bad.cut()
            with pytest.raises(RPCTransportError):
                list(events)


def test_a_stream_of_a_sandbox_that_ends_is_told(make: Make, box_id: str) -> None:
    sandbox = make(box_id)
    sandbox.exec("true")
    with sandbox.follow_network_log() as records:
        make(box_id).destroy()
        with pytest.raises((OperationInterruptedError, RPCTransportError)):
            list(records)
    assert sandbox.info() is None, "it was not made anew"


def test_a_run_without_an_end_is_no_success(make: Make, serve: Callable[..., Server]) -> None:
    events = 'data: {"type": "stdout", "text": "1"}\n\n'
    server = serve(lambda path, n: healthy() if path == "/v1/health" else (200, events))
    with pytest.raises(RPCTransportError, match="code.execute: .* before its last event"):
        make("x", url=server.url).run_code("print(1)")


def test_a_page_in_the_place_of_a_stream_is_told(make: Make, serve: Callable[..., Server]) -> None:
    server = serve(lambda path, n: healthy() if path == "/v1/health" else (200, "<h1>Sign in</h1>"))
    sandbox = make("x", url=server.url)
    for stream in (sandbox.run_code_stream("1"), sandbox.exec_stream("true"), sandbox.follow_network_log()):
        with pytest.raises(SandboxError, match="no stream of events.*proxy") as caught:
            list(stream)
        assert (caught.value.code, caught.value.context["body"]) == ("INVALID_JSON_RESPONSE", "<h1>Sign in</h1>")


def test_a_cut_terminal_is_told(make: Make, box_id: str, daemon: Daemon, network: Callable[..., BadNetwork]) -> None:
    bad = network()
    with make(box_id, url=bad.url, token=daemon.token).terminal() as terminal:
        terminal.wait_for("#")
        bad.cut()
        with pytest.raises((RPCTransportError, EOFError)):
            terminal.wait_for("never")
            terminal.write("x")


# ---- Arguments


@pytest.mark.parametrize("call, error", [
    (lambda s: s.exec(["ls", "-l"]), TypeError),
    (lambda s: s.exec("  "), atoll_sandbox.CommandError),
    (lambda s: s.exec("true", timeout=0), ValueError),
    (lambda s: s.exec("true", timeout=-1), ValueError),
    (lambda s: s.exec("true", timeout="5"), TypeError),
    (lambda s: s.exec("true", timeout=float("nan")), ValueError),
    (lambda s: s.exec("true", tiemout=5), TypeError),
    (lambda s: s.exec("true", env={"A": 1}), ValidationFailedError),
    (lambda s: s.exec("true", env={"A=B": "1"}), ValidationFailedError),
    (lambda s: s.exec("true", session=""), ValidationFailedError),
    (lambda s: s.exec("true", binary=True, on_stdout=print), ValueError),
    (lambda s: s.exec("true", stdin=7), TypeError),
    (lambda s: s.exec("true", 5), TypeError),
    (lambda s: s.set_network(["pypi.org"]), TypeError),
    (lambda s: s.set_allowed_hosts("pypi.org"), TypeError),
    (lambda s: s.approve(None), TypeError),
    (lambda s: s.restore_from(None), TypeError),
    (lambda s: s.backup(ttl="1d"), TypeError),
    (lambda s: s.backup(timeout=0), ValueError),
    (lambda s: s.create_volume(None), TypeError),
    (lambda s: s.mount_bucket("data", "/m", endpoint="https://x", secret=None), TypeError),
    (lambda s: s.open_tunnel("8080"), TypeError),
    (lambda s: s.set_outbound_handler("x"), TypeError),
    (lambda s: s.set_outbound_by_host(None, print), TypeError),
    (lambda s: s.git_checkout("file:///x", ref=7), TypeError),
    (lambda s: s.rm(""), ValidationFailedError),
    (lambda s: s.stat(b"f"), TypeError),
    (lambda s: s.fork(True), TypeError),
    (lambda s: s.write_file("f", {"a": 1}), TypeError),
    (lambda s: s.write_file("f", 7), TypeError),
    (lambda s: s.write_file("", "x"), ValidationFailedError),
    (lambda s: s.write_file("a\0b", "x"), ValidationFailedError),
    (lambda s: s.read_file(b"f"), TypeError),
    (lambda s: s.run_code("1", language="cobol"), SandboxSecurityError),
    (lambda s: s.run_code(b"1"), TypeError),
    (lambda s: s.run_code("1", context=7), TypeError),
    (lambda s: s.expose_port("8080"), TypeError),
    (lambda s: s.fetch(8080, "no-slash"), ValidationFailedError),
    (lambda s: s.fetch(0), atoll_sandbox.InvalidPortError),
    (lambda s: s.watch(include="*.py"), TypeError),
    (lambda s: s.watch(include=["a"], exclude=["b"]), ValidationFailedError),
    (lambda s: s.git_checkout("file:///x", depth=0), ValidationFailedError),
    (lambda s: s.git_checkout(""), TypeError),
    (lambda s: s.get_process(""), TypeError),
    (lambda s: s.create_session("__DISABLE_SESSION__"), ValidationFailedError),
])
def test_what_the_server_would_refuse_is_refused_here(make: Make, box_id: str, call: Any, error: Any) -> None:
    sandbox = make(box_id)
    with pytest.raises(error):
        call(sandbox)
    assert sandbox.info() is None, "nothing was sent"


def test_which_atoll_cannot_be_said_so(make: Make) -> None:
    for options in ({"url": 7}, {"token": 7}):
        with pytest.raises(TypeError, match="is a str, not int"):
            make("x", **options)
    for url in ("localhost:8700", "ftp://host", "http://", "http://host:0", "unix:"):
        with pytest.raises(ValueError, match="is not the URL of an Atoll"):
            make("x", url=url)
    with pytest.raises(ValueError, match="without its line end"):
        make("x", token="abc\n")


def test_bytes_where_text_is_expected(sandbox: Any, tmp_path: Any) -> None:
    for stdin in (b"bytes", bytearray(b"bytes"), memoryview(b"bytes")):
        assert sandbox.exec("cat", stdin=stdin).stdout == "bytes"
    sandbox.write_file("f", b"\xff\xfe")
    with pytest.raises(UnicodeDecodeError, match="encoding=None"):
        sandbox.read_file("f")
    (tmp_path / "text").write_text("x")
    with open(tmp_path / "text", encoding="utf-8") as file, pytest.raises(TypeError, match="'rb'"):
        sandbox.write_file("g", file)
    assert not sandbox.exists("g")


# ---- The errors themselves


def test_every_class_of_the_table_is_exported_and_has_its_code() -> None:
    for name in atoll_sandbox.__all__:
        kind = getattr(atoll_sandbox, name)
        if not (isinstance(kind, type) and issubclass(kind, SandboxError)) or kind is SandboxError:
            continue
        assert kind.codes, name
        for code in kind.codes:
            answer = {"code": code, "message": "m", "context": {"path": "/x"}, "httpStatus": 400}
            error = atoll_sandbox.error_from_response(answer)
            assert type(error) is kind and (error.code, str(error)[:1], error.http_status) == (code, "m", 400)
    other = atoll_sandbox.error_from_response({"code": "BRAND_NEW", "message": "m", "suggestion": "Do this."}, 418)
    assert (type(other), other.code, other.http_status, str(other)) == (SandboxError, "BRAND_NEW", 418, "m. Do this.")


def test_errors_are_what_python_calls_them_and_can_be_pickled() -> None:
    error = atoll_sandbox.FileNotFoundError("gone", context={"path": "/x"}, suggestion="Look.")
    assert isinstance(error, FileNotFoundError) and isinstance(error, OSError)
    again = pickle.loads(pickle.dumps(error))
    assert (type(again), str(again), again.path, again.code) == (type(error), "gone. Look.", "/x", "FILE_NOT_FOUND")
    with pytest.raises(OSError):
        with Sandbox("x", url="unix:/nowhere/at/all.sock") as sandbox:
            sandbox.exec("true")
