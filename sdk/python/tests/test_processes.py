from __future__ import annotations

import re
from typing import Any, Callable

import pytest

from atoll_sandbox import (
    CommandNotFoundError,
    ProcessExitedBeforeReadyError,
    ProcessNotFoundError,
    ProcessReadyTimeoutError,
    SandboxError,
)

from .conftest import until


def test_a_server(sandbox: Any) -> None:
    server = sandbox.start_process("python3 -u -m http.server 8000", process_id="web")
    server.wait_for_port(8000, timeout=60)
    assert (server.id, server.get_status(), server.session_id) == ("web", "running", f"sandbox-{sandbox.id}")
    assert server.wait_for_log(re.compile(r"port (\d+)"), timeout=60).match[1] == "8000"
    page = sandbox.fetch(8000, "/?query=1")
    assert (page.status_code, "Directory listing" in page.text) == (200, True)
    assert [process.id for process in sandbox.list_processes()] == ["web"]
    server.kill()
    assert server.wait_for_exit(60) != 0
    assert server.get_status() == "killed"
    with pytest.raises(CommandNotFoundError):
        server.kill()


def test_logs_and_ends(sandbox: Any) -> None:
    job = sandbox.start_process('echo working; echo "port 4242" >&2; (exit 2)')
    assert job.wait_for_exit(timeout=60) == 2
    assert (job.logs().stdout, job.logs().stderr) == ("working\n", "port 4242\n")
    assert job.wait_for_log("4242").line == "port 4242"
    events = list(job.stream_logs())
    assert (events[0].type, events[-1].type, events[-1].exit_code) == ("process_info", "exit", 2)
    assert {(event.type, event.data) for event in events[1:-1]} == {("stdout", "working\n"), ("stderr", "port 4242\n")}
    job.refresh()
    assert (job.status, job.exit_code) == ("failed", 2)
    assert job.end_time >= job.start_time
    with pytest.raises(ProcessExitedBeforeReadyError) as caught:
        job.wait_for_log("never")
    assert (caught.value.exit_code, caught.value.condition) == (2, '"never"')
    with pytest.raises(ProcessExitedBeforeReadyError):
        job.wait_for_port(4242)


def test_the_whole_line_also_when_it_comes_in_two_writes(sandbox: Any) -> None:
    slow = sandbox.start_process('printf "listening on port 80"; sleep 0.05; echo 80; sleep 600')
    found = slow.wait_for_log(re.compile(r"port (\d+)"))
    # On a busy machine the second write may be later than it is waited for: then the line is what was there.
    assert re.fullmatch(r"listening on port 80(80)?", found.line)
    assert found.line.endswith(found.match[1])
    prompt = sandbox.start_process('printf "Password: "; sleep 600')
    assert prompt.wait_for_log("Password:").line == "Password: "


def test_time_limits_of_waits(sandbox: Any) -> None:
    process = sandbox.start_process("while echo tick; do sleep 0.05; done")
    waits: list[Callable[[], object]] = [
        lambda: process.wait_for_exit(timeout=0.3),
        lambda: process.wait_for_log("never", timeout=0.3),
        lambda: process.wait_for_port(9, timeout=0.3, mode="tcp"),
    ]
    for wait in waits:
        with pytest.raises(ProcessReadyTimeoutError) as caught:
            wait()
        assert (caught.value.timeout, caught.value.process_id, caught.value.http_status) == (0.3, process.id, 408)
        assert isinstance(caught.value, TimeoutError)


def test_signals_and_cleaning_up(sandbox: Any) -> None:
    session = sandbox.create_session("mine")
    trapping = session.start_process('trap "echo got; exit 7" USR1; echo up; while :; do sleep 0.05; done')
    other = sandbox.start_process("sleep 600", process_id="other")
    trapping.wait_for_log("up")
    assert [process.id for process in sandbox.list_processes("mine")] == [trapping.id]
    assert {process.id for process in session.list_processes()} == {trapping.id, other.id}
    sandbox.kill_process(trapping.id, "SIGUSR1")
    assert trapping.wait_for_exit(60) == 7
    assert sandbox.get_process_logs(trapping.id).stdout == "up\ngot\n"
    assert sandbox.cleanup_completed_processes() == 1
    assert sandbox.get_process(trapping.id) is None
    assert sandbox.get_process("other").command == "sleep 600"
    assert trapping.get_status() == "error"
    assert sandbox.kill_all_processes() == 1


def test_callbacks(sandbox: Any) -> None:
    seen: list[tuple[str, Any]] = []
    sandbox.start_process(
        "echo out; echo err >&2; exit 2",
        on_stdout=lambda text: seen.append(("stdout", text)),
        on_stderr=lambda text: seen.append(("stderr", text)),
        on_exit=lambda code: seen.append(("exit", code)),
    )
    until(lambda: sandbox.info() and seen and seen[-1][0] == "exit", "on_exit")
    assert seen[-1] == ("exit", 2)
    assert sorted(seen[:-1]) == [("stderr", "err\n"), ("stdout", "out\n")]


def test_a_destroyed_sandbox_is_told_and_not_made_again(sandbox: Any) -> None:
    told: list[SandboxError] = []
    heard: list[str] = []
    process = sandbox.start_process(
        "echo up; sleep 600", on_stdout=heard.append, on_error=told.append,
    )
    with sandbox.stream_process_logs(process.id) as events:
        assert next(events).type == "process_info"
        until(lambda: sandbox.info() and heard, "the callback to follow")
        sandbox.destroy()
        with pytest.raises(SandboxError) as caught:
            list(events)
    assert (caught.value.code, caught.value.context["reason"]) == ("OPERATION_INTERRUPTED", "sandbox_lifetime_changed")
    until(lambda: sandbox.info() is None and told, "on_error")
    assert told[0].code == "OPERATION_INTERRUPTED"
    assert sandbox.info() is None


def test_an_unknown_process(sandbox: Any) -> None:
    with pytest.raises(ProcessNotFoundError):
        list(sandbox.stream_process_logs("none"))
    with pytest.raises(ProcessNotFoundError):
        sandbox.kill_process("none")


def test_a_service_comes_back_after_a_stop(sandbox: Any) -> None:
    sandbox.start_process("exec sleep 600", process_id="web", service=True, keep_alive=True)
    sandbox.start_process("exec sleep 600", process_id="plain")
    sandbox.stop()
    assert sandbox.info().state == "stopped"
    sandbox.wake()
    assert sandbox.info().state == "running"
    assert [process.id for process in sandbox.list_processes()] == ["web"]


def test_spellings(sandbox: Any) -> None:
    process = sandbox.spawn("exec sleep 600", process_id="p")
    assert sandbox.is_process_running("p") and not sandbox.is_process_running("none")
    process.kill()
    assert not sandbox.is_process_running("p")
