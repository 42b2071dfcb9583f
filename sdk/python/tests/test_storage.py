from __future__ import annotations

from typing import Any, Callable

import pytest

from atoll_sandbox import Sandbox, SandboxError

from .conftest import until

MIB = 1 << 20


@pytest.fixture
def forks() -> Any:
    """Ids of further sandboxes, which are destroyed at the end."""
    made: list[str] = []
    yield made
    for name in made:
        with Sandbox(name) as one:
            one.destroy()


def text(sandbox: Any, path: str = "/root/f") -> str:
    return str(sandbox.exec(f"cat {path}").stdout)


def write(sandbox: Any, content: str, path: str = "/root/f") -> None:
    sandbox.exec(f"printf '%s' '{content}' > {path}").check()


def slept(sandbox: Any) -> bool:
    """On a busy machine a freeze may take longer than it may, and is undone."""
    try:
        sandbox.sleep()
    except SandboxError as error:
        assert error.code == "INVALID_STATE"
        return False
    return True


def test_a_snapshot_is_made_compared_restored_and_deleted(sandbox: Any) -> None:
    write(sandbox, "one")
    made = sandbox.snapshot("before")
    assert made.id.startswith("snap-") and made.sandbox == sandbox.id and made.name == "before" and made.size > 0
    assert made.created_at.tzinfo is not None and sandbox.snapshots() == [made]
    write(sandbox, "two")
    write(sandbox, "", "/root/new")
    found = sandbox.diff(made)
    assert found.added == ["/root/new"] and "/root/f" in found.changed and found.deleted == [] and not found.truncated
    assert sandbox.diff("before") == found == sandbox.diff(made.id)
    sandbox.restore("before")
    assert sandbox.info().state == "stopped"
    assert text(sandbox) == "one"
    sandbox.delete_snapshot(made)
    assert sandbox.snapshots() == []
    with pytest.raises(SandboxError) as refused:
        sandbox.restore(made)
    assert refused.value.code == "SNAPSHOT_NOT_FOUND"


def test_forks_have_the_files_and_the_winner_replaces_the_parent(
    sandbox: Any, make: Callable[..., Any], forks: list[str]
) -> None:
    write(sandbox, "base")
    forks += sandbox.fork(2)
    assert forks == [f"{sandbox.id}-1", f"{sandbox.id}-2"]
    forks += sandbox.fork([f"{sandbox.id}-x"])
    for name in forks:
        one = make(name)
        assert text(one) == "base"
        write(one, name)
    sandbox.replace(sandbox=forks[1])
    assert text(sandbox) == forks[1]
    assert text(make(forks[0])) == forks[0]


def test_a_sandbox_is_made_from_a_snapshot_or_from_another_one(
    sandbox: Any, make: Callable[..., Any], forks: list[str]
) -> None:
    write(sandbox, "then")
    kept = sandbox.snapshot()
    write(sandbox, "now")
    forks += [f"{sandbox.id}-then", f"{sandbox.id}-now"]
    then, now = make(forks[0], labels={"of": "a snapshot"}), make(forks[1])
    then.create_from(snapshot=kept)
    now.create_from(sandbox=sandbox.id)
    assert (text(then), text(now)) == ("then", "now")
    assert then.info().labels == {"of": "a snapshot"}
    with pytest.raises(SandboxError):
        now.create_from(sandbox=sandbox.id)


def test_the_disk_has_a_limit_that_is_shown(make: Callable[..., Any], box_id: str) -> None:
    sandbox = make(box_id, limits={"disk": 32 * MIB})
    write(sandbox, "x")
    info = sandbox.info()
    assert info.limits.disk == 32 * MIB == info.disk.allowed and 0 < info.disk.used < MIB
    with pytest.raises(SandboxError) as refused:
        sandbox.write_file("/root/big", b"x" * (40 * MIB))
    assert refused.value.code == "NO_SPACE"


def test_sleep_wake_stop_and_a_service_that_comes_back(sandbox: Any) -> None:
    sandbox.exec("true")
    until(lambda: slept(sandbox), "the freeze")
    assert sandbox.info().state == "asleep"
    sandbox.wake()
    assert sandbox.info().state == "running"
    first = sandbox.start_process("exec sleep 600", process_id="web", service=True)
    sandbox.stop()
    assert sandbox.info().state == "stopped"
    again = sandbox.get_process("web")
    assert again is not None and again.status == "running" and again.start_time > first.start_time
    again.kill()


def test_what_makes_no_sense_is_refused_before_it_is_sent(sandbox: Any) -> None:
    calls: list[tuple[Callable[..., Any], dict[str, Any]]] = [
        (sandbox.replace, {}), (sandbox.replace, {"sandbox": "a", "snapshot": "b"}), (sandbox.restore, {"snapshot": 5}),
        (sandbox.restore, {"snapshot": ""}), (sandbox.fork, {"wanted": "name"}),
    ]
    for call, arguments in calls:
        with pytest.raises(TypeError):
            call(**arguments)
