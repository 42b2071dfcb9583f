"""Policies, their log, and secrets."""

from __future__ import annotations

import asyncio
import os
from typing import Any, Callable, Iterator

import pytest

from atoll_sandbox import AsyncSecrets, SandboxError, Secrets, ValidationFailedError

from .support.driven import Driven

Make = Callable[..., Any]


@pytest.fixture(params=["sync", "async"])
def secrets(request: pytest.FixtureRequest) -> Iterator[Any]:
    loop = asyncio.new_event_loop()
    opened: Any = Secrets() if request.param == "sync" else Driven(AsyncSecrets(), loop)
    yield opened
    opened.close()
    loop.close()


@pytest.fixture
def name(secrets: Any, box_id: str) -> Iterator[str]:
    """Of a secret, which is deleted at the end."""
    yield box_id
    if secrets.get(box_id):
        secrets.delete(box_id)


def test_a_policy_at_the_beginning_and_later(make: Make, box_id: str) -> None:
    sandbox = make(box_id, network={"mode": "list", "allow": ["pypi.org"]})
    assert sandbox.get_network()["allow"] == ["pypi.org"]
    changed = sandbox.set_network({"allow": None, "deny": ["*.example"]})
    assert (changed["mode"], changed["allow"], changed["deny"]) == ("list", [], ["*.example"])
    with pytest.raises(ValidationFailedError, match="no rule"):
        sandbox.set_network({"allow": ["no rule"]})


def test_the_log_can_be_followed(make: Make, box_id: str) -> None:
    sandbox = make(box_id, network={"mode": "list"})
    with sandbox.follow_network_log() as records:
        assert sandbox.exec("getent hosts refused.example").exit_code == 2
        record = next(one for one in records if one["name"] == "refused.example")
    assert (record["decision"], record["protocol"]) == ("deny", "dns")
    assert record["name"] in [one["name"] for one in sandbox.network_log()]


def test_secrets_are_made_listed_and_deleted(secrets: Any, name: str) -> None:
    made = secrets.put(name, "sk-hidden", hosts=["api.example"], env="API_KEY")
    assert (made.name, made.hosts, made.env, made.last_used_at) == (name, ["api.example"], "API_KEY", None)
    assert made.places and "header:Authorization" in made.places
    assert secrets.get(name) == made and made in secrets.list()
    assert "sk-hidden" not in str(secrets.list())
    changed = secrets.put(name, "sk-other", hosts=["*.example"], places=["query:key"], header="Authorization: Bearer {}")
    assert (changed.hosts, changed.env, changed.header) == (["*.example"], None, "Authorization: Bearer {}")
    assert changed.places == ["query:key"]
    secrets.delete(name)
    assert secrets.get(name) is None
    with pytest.raises(SandboxError, match="there is no secret") as failed:
        secrets.delete(name)
    assert (failed.value.code, failed.value.http_status) == ("NOT_FOUND", 404)


def test_bad_secrets_are_refused(secrets: Any, name: str) -> None:
    with pytest.raises(ValidationFailedError, match="hosts"):
        secrets.put(name, "v", hosts=["not a host"])
    with pytest.raises(TypeError, match="hosts is a list"):
        secrets.put(name, "v", hosts="api.example")
    with pytest.raises(ValidationFailedError, match="in"):
        secrets.put(name, "v", hosts=["api.example"], places=["body"])


def test_a_sandbox_has_a_placeholder(make: Make, box_id: str, secrets: Any, name: str) -> None:
    secrets.put(name, "sk-hidden", hosts=["api.example"], env="API_KEY")
    sandbox = make(box_id, secrets=[name])
    shown = sandbox.exec("echo $API_KEY; env").stdout
    assert shown.startswith("atoll_") and "sk-hidden" not in shown
    sandbox.configure(secrets=[])
    assert sandbox.exec("printenv API_KEY", session=sandbox.create_session("fresh")).stdout == ""
    with pytest.raises(SandboxError, match="no secret"):
        make(f"{box_id}-x{os.getpid()}", secrets=["nowhere"]).exec("true")
