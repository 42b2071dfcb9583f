from __future__ import annotations

import re
from typing import Any, Callable

import pytest


def test_every_byte_of_a_flood_comes(sandbox: Any) -> None:
    with sandbox.terminal(cols=100, rows=30) as terminal:
        terminal.write("stty -echo; seq 1 100000; exit 4\r")
        text = b"".join(terminal).decode()
        assert terminal.exit_code == 4
    numbers = [int(n) for n in re.findall(r"(\d+)\r\n", text)]
    assert numbers[-100_000:] == list(range(1, 100_001))  # before them: what was typed


def test_a_terminal_is_left_and_found_again(sandbox: Any) -> None:
    with sandbox.terminal(cols=100, rows=30) as terminal:
        terminal.write("stty size\r")
        assert terminal.wait_for("30 100").endswith("30 100")
        terminal.resize(120, 40)
        terminal.write(b"stty size\r")
        terminal.wait_for(re.compile(r"40 \d{3}"))
        terminal.write("echo after\r")
        with pytest.raises(TimeoutError):
            terminal.wait_for("never", timeout=0.3)
        terminal.wait_for("after")
    with sandbox.terminal() as again:
        again.wait_for(re.compile("30 100.*40 120", re.S))
        again.write("exit 3\r")
        assert again.wait(timeout=60) == 3


def test_one_terminal_for_each_session(sandbox: Any) -> None:
    with sandbox.terminal(session="s") as a, sandbox.get_session("s").terminal() as b:
        a.write("echo shared$((20+22)); exit\r")
        for terminal in (a, b):
            terminal.wait_for("shared42")
            assert terminal.wait(60) == 0
        with pytest.raises(EOFError):
            a.wait_for("more")


def test_nothing_is_lost_behind_a_match(sandbox: Any) -> None:
    with sandbox.terminal() as terminal:
        terminal.write("stty -echo; printf 'a\\303\\274b-%s-c\\r\\n' mid; exit\r")
        assert terminal.wait_for(re.compile("a(.)b-mid")).endswith("aüb-mid")
        assert b"".join(terminal).startswith(b"-c\r")


def test_over_the_unix_socket(make: Callable[..., Any], box_id: str, daemon: Any) -> None:
    with make(box_id, url=f"unix:{daemon.socket}").terminal(shell="/bin/sh") as terminal:
        terminal.write("echo $0; exit\r")
        terminal.wait_for("sh")
        assert terminal.wait(60) == 0


def test_sizes_that_cannot_be(sandbox: Any) -> None:
    for wrong in (0, -1, "80", True):
        with pytest.raises(ValueError):
            sandbox.terminal(cols=wrong)
