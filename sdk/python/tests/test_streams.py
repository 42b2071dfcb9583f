"""Streams over a network that breaks: every byte once, every command once."""

from __future__ import annotations

import asyncio
import re
import threading
from typing import Any, Callable

import pytest

from atoll_sandbox import AsyncSandbox, RPCTransportError, Sandbox
from atoll_sandbox import _wire as wire

from .conftest import Daemon, until
from .support.badnetwork import BadNetwork

NUMBERS = "".join(f"{i}\n" for i in range(1, 6_001))
COUNT = "for ((i = 1; i <= 6000; i++)); do echo $i; done"  # many small writes, and so many events
Network = Callable[..., BadNetwork]


def text(events: list[Any], kind: str) -> str:
    return "".join(event.data for event in events if event.type == kind)


def test_logs_wherever_connections_are_cut(make: Callable[..., Any], box_id: str, daemon: Daemon, network: Network) -> None:
    process = make(box_id).start_process(f"{COUNT}; echo grüße >&2; (exit 5)")
    process.wait_for_exit(60)
    # A little more from each connection: cuts fall inside heads, frames, characters.
    bad = network(lambda n: 300 + n * 1777 if n < 25 else None)
    events = list(make(box_id, url=bad.url, token=daemon.token).stream_process_logs(process.id))
    assert (text(events, "stdout"), text(events, "stderr")) == (NUMBERS, "grüße\n")
    assert [event.type for event in events].count("process_info") == 1
    assert (events[-1].type, events[-1].exit_code) == ("exit", 5)
    assert bad.connections > 5


def test_commands_wherever_connections_are_cut(make: Callable[..., Any], box_id: str, daemon: Daemon, network: Network) -> None:
    bad = network(lambda n: 700 + n * 2777 if n < 20 else None)
    sandbox = make(box_id, url=bad.url, token=daemon.token)
    events = list(sandbox.exec_stream(f"echo x >> /workspace/count; echo grüße >&2; {COUNT}; (exit 6)"))
    assert (text(events, "stdout"), text(events, "stderr")) == (NUMBERS, "grüße\n")
    assert [event.type for event in events].count("start") == 1
    assert (events[-1].type, events[-1].exit_code) == ("complete", 6)
    assert bad.connections > 5
    assert len([line for line in bad.requests if line.startswith("POST")]) == 1
    assert make(box_id).read_file("/workspace/count") == "x\n"


def test_waits_go_on(make: Callable[..., Any], box_id: str, daemon: Daemon, network: Network) -> None:
    bad = network()
    sandbox = make(box_id, url=bad.url, token=daemon.token)
    process = sandbox.start_process("echo one; until [ -e /tmp/go ]; do sleep 0.02; done; echo two; exit 3")
    process.wait_for_log("one")

    def interfere() -> None:
        with Sandbox(box_id) as home:
            for _ in range(3):
                before = bad.connections
                bad.cut()
                until(lambda: bad.connections > before, "the client to come back")
            home.write_file("/tmp/go", "")

    thread = threading.Thread(target=interfere)
    thread.start()
    assert process.wait_for_log(re.compile("t(w)o")).match[1] == "w"
    thread.join()
    assert process.wait_for_exit(60) == 3


def test_an_answer_that_is_lost_before_it_begins(make: Callable[..., Any], box_id: str, daemon: Daemon, network: Network) -> None:
    home = make(box_id)
    home.exec("true")
    bad = network(lambda n: 0 if n == 1 else None)
    with pytest.raises(RPCTransportError, match="not known"):
        list(make(box_id, url=bad.url, token=daemon.token).exec_stream("echo x >> /workspace/count"))
    assert len([line for line in bad.requests if line.startswith("POST")]) == 1


def test_leaving_ends_the_command(sandbox: Any) -> None:
    with sandbox.exec_stream("echo on; sleep 600") as events:
        for event in events:
            if event.type == "stdout":
                break
    until(lambda: sandbox.exec("pgrep -xc sleep").stdout == "0\n", "sleep to end")


def test_leaving_without_with_ends_the_command(box_id: str) -> None:
    def asleep(sandbox: Sandbox) -> bool:
        return sandbox.exec("pgrep -xc sleep").stdout != "0\n"

    async def leave() -> None:
        async with AsyncSandbox(box_id) as sandbox:
            async for event in sandbox.exec_stream("echo on; sleep 600"):
                if event.type == "stdout":
                    break
            for _ in range(2000):  # the loop closes what was left
                if (await sandbox.exec("pgrep -xc sleep")).stdout == "0\n":
                    return
                await asyncio.sleep(0.02)
            raise AssertionError("sleep still runs")

    with Sandbox(box_id) as sandbox:
        for event in sandbox.exec_stream("echo on; sleep 600"):
            if event.type == "stdout":
                break
        until(lambda: not asleep(sandbox), "sleep to end")
        asyncio.run(leave())
        stream = sandbox.exec_stream("touch /tmp/started")
        stream.close()
        assert not sandbox.exists("/tmp/started")


def test_a_command_is_read_no_faster_than_its_reader(sandbox: Any) -> None:
    with sandbox.exec_stream("yes | while read -r l; do echo $l; echo . >> /tmp/n; done") as events:
        next(events)
        seen: list[str] = []

        def stands_still() -> bool:
            # A writer that is held back sends no event: its file stays the same for a while.
            seen.append(sandbox.exec("sleep 0.1; cat /tmp/n 2>/dev/null | wc -l").stdout)
            return len(seen) >= 5 and len(set(seen[-5:])) == 1 and seen[-1] != "0\n"

        until(stands_still, "the command to stand still")
    until(lambda: sandbox.exec("pgrep -xc yes").stdout == "0\n", "the command to end")


def test_a_cancelled_task_ends_its_command(box_id: str) -> None:
    async def run() -> None:
        async with AsyncSandbox(box_id) as sandbox:
            begun = asyncio.Event()

            async def follow() -> None:
                async for event in sandbox.exec_stream("echo on; sleep 600"):
                    if event.type == "stdout":
                        begun.set()

            task = asyncio.create_task(follow())
            await asyncio.wait_for(begun.wait(), 60)
            task.cancel()
            with pytest.raises(asyncio.CancelledError):
                await task
            for _ in range(2000):
                if (await sandbox.exec("pgrep -xc sleep")).stdout == "0\n":
                    return
            raise AssertionError("sleep still runs")

    asyncio.run(run())


def test_a_hundred_calls_at_once(box_id: str) -> None:
    async def run() -> list[str]:
        async with AsyncSandbox(box_id, default_session=False) as sandbox:
            return [r.stdout for r in await asyncio.gather(*(sandbox.exec(f"echo {i}") for i in range(100)))]

    assert asyncio.run(run()) == [f"{i}\n" for i in range(100)]


def test_threads_share_a_sandbox(box_id: str) -> None:
    outputs: dict[int, str] = {}
    with Sandbox(box_id, default_session=False) as sandbox:
        def run(i: int) -> None:
            outputs[i] = sandbox.exec(f"echo {i}").stdout

        threads = [threading.Thread(target=run, args=(i,)) for i in range(20)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
    assert outputs == {i: f"{i}\n" for i in range(20)}


def test_a_stream_waits_for_its_session_and_notices_silence(
    make: Callable[..., Any], box_id: str, daemon: Daemon, network: Network, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The beginning of a command may take as long as the session is busy; once it runs, silence is a broken connection."""
    sandbox = make(box_id)
    sandbox.exec("true")
    monkeypatch.setattr(wire, "SILENCE_SECONDS", 0.3)
    command = "touch /tmp/busy; until [ -e /tmp/go ]; do sleep 0.05; done"
    busy = threading.Thread(target=lambda: Sandbox(box_id).exec(command, session="s"))
    busy.start()
    until(lambda: sandbox.exists("/tmp/busy"), "the other command")
    free = threading.Timer(1.5, lambda: Sandbox(box_id).write_file("/tmp/go", ""))
    free.start()
    assert [event.data for event in sandbox.exec_stream("echo mine", session="s") if event.type == "stdout"] == ["mine\n"]
    busy.join()
    free.join()
    # Silent for longer than the limit: the stream is taken up again, and nothing is lost.
    kept = network()
    there = make(box_id, url=kept.url, token=daemon.token)
    assert text(list(there.exec_stream("echo a; sleep 1.5; echo b")), "stdout") == "a\nb\n"
    assert [line for line in kept.requests if line.startswith("GET ") and "/api/execute/stream/" in line]
