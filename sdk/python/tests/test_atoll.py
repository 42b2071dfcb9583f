"""The daemon itself: sandboxes, events, images; tickets and usage of a sandbox."""

from __future__ import annotations

import asyncio
from pathlib import Path
from typing import Any, Callable, Iterator

import httpx
import pytest

from atoll_sandbox import AsyncAtoll, Atoll, SandboxError, ValidationFailedError, __version__

from .conftest import Daemon
from .support.driven import Driven

Make = Callable[..., Any]


@pytest.fixture(params=["sync", "async"])
def atoll(request: pytest.FixtureRequest) -> Iterator[Any]:
    loop = asyncio.new_event_loop()
    opened: Any = Atoll() if request.param == "sync" else Driven(AsyncAtoll(), loop)
    yield opened
    opened.close()
    loop.run_until_complete(loop.shutdown_asyncgens())
    loop.close()


def test_sandboxes_are_listed(atoll: Any, make: Make, box_id: str) -> None:
    assert atoll.health()["version"] == __version__
    make(box_id, labels={"team": "a", "n": "1"}).exec("true")
    assert [info.id for info in atoll.sandboxes(labels={"team": "a"}) if info.id == box_id] == [box_id]
    assert box_id in [info.id for info in atoll.sandboxes(state="running")]
    assert box_id not in [info.id for info in atoll.sandboxes(labels={"team": "b"})]
    with pytest.raises(ValidationFailedError, match="state"):
        atoll.sandboxes(state="happy")


def test_events_are_followed(atoll: Any, make: Make, box_id: str) -> None:
    with atoll.follow_events() as events:
        sandbox = make(box_id)
        sandbox.exec("true")
        sandbox.stop()
        sandbox.destroy()
        seen: list[str] = []
        for event in events:
            if event.sandbox == box_id:
                seen.append(event.type)
                assert event.time.tzinfo is not None
            if event.type == "destroyed" and event.sandbox == box_id:
                break
    assert [one for one in seen if one in ("created", "stopped", "destroyed")] == ["created", "stopped", "destroyed"]
    assert [event.type for event in atoll.events() if event.sandbox == box_id] == seen


def test_images_are_built_named_and_removed(atoll: Any, make: Make, box_id: str, tmp_path: Path) -> None:
    (tmp_path / "Dockerfile").write_text("FROM default\nARG WHO=nobody\nCOPY hello /hello\nRUN echo built for $WHO > /built\n")
    (tmp_path / "hello").write_text("hello\n")
    name = f"py-{box_id}"
    try:
        events = list(atoll.build_image(tmp_path, tags=[name], args={"WHO": "me"}))
        assert events[-1].type == "done" and {"step", "done"} <= {event.type for event in events}
        assert name in [image.name.partition(":")[0] for image in atoll.images()]
        assert atoll.get_image(name).id == events[-1].id and atoll.get_image(name).config
        assert make(box_id, image=name).exec("cat /hello /built").stdout == "hello\nbuilt for me\n"
        atoll.tag_image(name, f"{name}:two")
        atoll.delete_image(f"{name}:two")
        with pytest.raises(SandboxError) as missing:
            atoll.get_image(f"{name}:two")
        assert missing.value.code == "IMAGE_NOT_FOUND"
        make(box_id).write_file("/more", "kept")
        assert atoll.commit_image(box_id, f"{name}:three") == atoll.get_image(f"{name}:three").id
        (tmp_path / "Dockerfile").write_text("FROM default\nRUN exit 7\n")
        with pytest.raises(SandboxError, match="7"):
            list(atoll.build_image(tmp_path))
    finally:
        make(box_id).destroy()
        for image in [image.name for image in atoll.images() if image.name.startswith(name)]:
            atoll.delete_image(image)
    with pytest.raises(TypeError, match="list of str"):
        atoll.build_image(tmp_path, tags=name)


def test_a_ticket_is_good_once(sandbox: Any, daemon: Daemon) -> None:
    sandbox.write_file("/tmp/f", "fetched")
    ticket = sandbox.create_ticket("download", "/tmp/f")
    url = f"{daemon.url}/v1/sandboxes/{sandbox.id}/api/file"
    first = httpx.get(url, params={"path": "/tmp/f", "ticket": str(ticket)})
    assert (first.status_code, first.text) == (200, "fetched")
    assert httpx.get(url, params={"path": "/tmp/f", "ticket": str(ticket)}).status_code == 401
    assert sandbox.create_ticket("terminal").sandbox == sandbox.id
    for purpose, path in (("download", None), ("terminal", "/tmp/f")):
        with pytest.raises(ValidationFailedError, match="path"):
            sandbox.create_ticket(purpose, path)


def test_usage(atoll: Any, make: Make, box_id: str) -> None:
    sandbox = make(box_id)
    with pytest.raises(SandboxError) as missing:
        sandbox.usage()
    assert missing.value.code == "SANDBOX_NOT_FOUND"
    sandbox.exec("true")
    assert isinstance(sandbox.usage(), list)  # the first sample comes after a minute
    with atoll.follow_events() as events:
        sample = next(one for event in events for one in event.samples if one.sandbox == box_id)
    assert sample.memory > 0 and sample.pids >= 1 and sample.time.tzinfo is not None
