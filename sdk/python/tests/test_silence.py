"""A daemon that takes requests and answers nothing any more."""

from __future__ import annotations

from typing import Any, Callable

import pytest

from atoll_sandbox import ContainerUnavailableError, RPCTransportError

from .support.badnetwork import BadNetwork

Make = Callable[..., Any]
Network = Callable[..., BadNetwork]


def test_a_command_is_given_up(make: Make, box_id: str, network: Network) -> None:
    there = network()
    sandbox = make(box_id, url=there.url)
    assert sandbox.exec("echo first").stdout == "first\n"
    there.mute()
    with pytest.raises(RPCTransportError, match="answers none: whether the request was carried out is not known"):
        sandbox.exec("true")


def test_a_terminal_is_given_up(make: Make, box_id: str, network: Network) -> None:
    there = network()
    with make(box_id, url=there.url).terminal() as terminal:
        terminal.write("echo first\r")
        terminal.wait_for("first")
        there.mute()
        with pytest.raises(RPCTransportError, match="answers none"):
            terminal.wait()


def test_the_first_contact_is_given_up(make: Make, box_id: str, network: Network) -> None:
    there = network()
    there.mute()
    with pytest.raises(ContainerUnavailableError, match="does not answer"):
        make(box_id, url=there.url).exec("true")


def test_a_command_that_takes_long_is_not_given_up(sandbox: Any) -> None:
    assert sandbox.exec("sleep 17; echo slept").stdout == "slept\n"
