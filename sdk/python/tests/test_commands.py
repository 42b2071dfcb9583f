from __future__ import annotations

from typing import Any, Callable

import pytest

from atoll_sandbox import CommandError, SessionAlreadyExistsError, SessionTerminatedError, ValidationFailedError


def test_a_command_that_fails_is_a_result(sandbox: Any) -> None:
    result = sandbox.exec("echo out; echo err >&2; (exit 3)")
    assert (result.exit_code, result.stdout, result.stderr, result.success) == (3, "out\n", "err\n", False)
    assert (result.outcome, result.session_id) == ("exited", f"sandbox-{sandbox.id}")
    assert 0 <= result.duration < 60
    assert sandbox.exec("true").success


def test_check_raises_what_was_printed(sandbox: Any) -> None:
    assert sandbox.exec("echo fine", check=True).stdout == "fine\n"
    with pytest.raises(CommandError, match="exit code 4: sorry") as caught:
        sandbox.exec("echo some; echo sorry >&2; (exit 4)", check=True)
    assert (caught.value.exit_code, caught.value.stdout, caught.value.stderr) == (4, "some\n", "sorry\n")


def test_options(sandbox: Any) -> None:
    result = sandbox.exec("echo $NAME in $PWD; cat", env={"NAME": "it's", "UNSET": None}, cwd="/tmp", stdin="typed")
    assert result.stdout == "it's in /tmp\ntyped"
    assert sandbox.exec("echo $NAME; pwd").stdout == "\n/workspace\n"


def test_bytes(sandbox: Any) -> None:
    result = sandbox.exec("tee /dev/stderr", stdin=b"\x00\xff\n", binary=True)
    assert (result.stdout_bytes, result.stderr_bytes) == (b"\x00\xff\n", b"\x00\xff\n")
    assert result.stdout == "\x00\ufffd\n"


def test_a_time_limit(sandbox: Any) -> None:
    with pytest.raises(CommandError, match="longer timeout") as caught:
        sandbox.exec("echo begun; sleep 600", timeout=2)
    assert (caught.value.outcome, caught.value.stdout) == ("timeout", "begun\n")
    assert sandbox.exec("echo still here").stdout == "still here\n"


def test_output_while_the_command_runs(sandbox: Any) -> None:
    heard: list[str] = []

    def go_on(text: str) -> None:
        heard.append(text)

    result = sandbox.exec("echo a; echo b >&2; (exit 2)", on_stdout=go_on, on_stderr=go_on)
    assert sorted(heard) == ["a\n", "b\n"]
    assert (result.stdout, result.stderr, result.exit_code) == ("a\n", "b\n", 2)
    with pytest.raises(CommandError):
        sandbox.exec("sleep 600", timeout=0.3, on_stdout=go_on)


def test_events(sandbox: Any) -> None:
    events = list(sandbox.exec_stream("echo x; echo y >&2; (exit 5)"))
    assert [event.type for event in events][0] == "start"
    assert sorted((event.type, event.data) for event in events[1:-1]) == [("stderr", "y\n"), ("stdout", "x\n")]
    assert (events[-1].type, events[-1].exit_code, events[-1].outcome) == ("complete", 5, "exited")


def test_sessions(sandbox: Any) -> None:
    session = sandbox.create_session("build", cwd="/tmp", env={"STAGE": "test"})
    session.exec("cd /; X=1")
    assert session.exec("echo $STAGE $X $PWD").stdout == "test 1 /\n"
    assert sandbox.exec('echo "[$X]" $PWD').stdout == "[] /workspace\n"
    assert sandbox.exec("pwd", session=session).stdout == sandbox.exec("pwd", session="build").stdout == "/\n"
    session.write_file("tmp/relative.txt", "here")
    assert sandbox.read_file("/tmp/relative.txt") == "here"
    assert "build" in sandbox.list_sessions()
    with pytest.raises(SessionAlreadyExistsError) as caught:
        sandbox.create_session("build")
    assert caught.value.session_id == "build"
    sandbox.delete_session(session)
    with sandbox.create_session() as made:
        name = made.id
        assert sandbox.get_session(name).exec("echo $0").success
    assert {"build", name} & set(sandbox.list_sessions()) == set()
    with pytest.raises(ValidationFailedError, match="destroy"):
        sandbox.delete_session(f"sandbox-{sandbox.id}")


def test_a_shell_that_ends(sandbox: Any) -> None:
    with pytest.raises(SessionTerminatedError) as caught:
        sandbox.exec("exit 3")
    assert (caught.value.code, caught.value.exit_code) == ("SESSION_TERMINATED", 3)
    assert sandbox.exec("echo fresh").stdout == "fresh\n"


def test_variables(make: Callable[..., Any], box_id: str) -> None:
    sandbox = make(box_id)
    sandbox.set_env_vars({"A": "it's", "B": "2"})
    sandbox.set_env_vars({"B": None})
    assert sandbox.exec('echo "$A[$B]"').stdout == "it's[]\n"
    assert sandbox.create_session("s").exec('echo "$A[$B]"').stdout == "it's[]\n"
    with pytest.raises(ValidationFailedError):
        sandbox.set_env_vars({"A-B": "1"})


def test_outside_of_sessions(make: Callable[..., Any], box_id: str) -> None:
    sandbox = make(box_id, default_session=False)
    sandbox.set_env_vars({"A": "1"})
    assert sandbox.exec("cd /tmp; echo $A").stdout == "1\n"
    result = sandbox.exec("pwd; echo $A", env={"A": "mine"})
    assert (result.stdout, result.session_id) == ("/workspace\nmine\n", None)


def test_git(sandbox: Any) -> None:
    from atoll_sandbox import GitBranchNotFoundError, GitError, GitRepositoryNotFoundError

    sandbox.exec(
        "git init -q -b main /tmp/origin && cd /tmp/origin && echo hi > README && git add . && "
        "git -c user.name=me -c user.email=me@example.org commit -qm first", check=True,
    )
    done = sandbox.git_checkout("file:///tmp/origin")
    assert (done.branch, done.target_dir) == ("main", "/workspace/origin")
    assert sandbox.git_checkout("file:///tmp/origin", "/workspace/other", depth=1).target_dir == "/workspace/other"
    assert sandbox.read_file("/workspace/other/README") == "hi\n"
    with pytest.raises(GitRepositoryNotFoundError):
        sandbox.git_checkout("file:///tmp/none")
    with pytest.raises(GitError) as caught:
        sandbox.git_checkout("file:///tmp/origin", "/workspace/third", branch="none")
    assert isinstance(caught.value, GitBranchNotFoundError)


def test_refs_of_git(sandbox: Any) -> None:
    from atoll_sandbox import GitBranchNotFoundError, GitCheckoutError

    commit = "git -c user.name=me -c user.email=me@example.org commit -qam"
    first = sandbox.exec(
        "git init -q -b main /tmp/origin && cd /tmp/origin && echo 1 > f && git add . && "
        f"{commit} first && git tag v1 && git rev-parse HEAD && echo 2 > f && {commit} second && git branch other", check=True,
    ).stdout.strip()
    for ref, content in (("main", "2\n"), ("other", "2\n"), ("v1", "1\n"), (first, "1\n"), (first[:10], "1\n")):
        done = sandbox.git_checkout("file:///tmp/origin", f"/workspace/at-{ref}", ref=ref)
        assert done.branch == ref and sandbox.read_file(f"{done.target_dir}/f") == content
    with pytest.raises(GitCheckoutError, match="no branch, tag or commit"):
        sandbox.git_checkout("file:///tmp/origin", "/workspace/gone", ref="0" * 40)
    with pytest.raises(GitBranchNotFoundError):
        sandbox.git_checkout("file:///tmp/origin", "/workspace/gone", ref="no-such-branch")
    assert not sandbox.exists("/workspace/gone")
    with pytest.raises(TypeError, match="not both"):
        sandbox.git_checkout("file:///tmp/origin", branch="main", ref="v1")


def test_a_session_can_be_kept_as_text(sandbox: Any) -> None:
    session = sandbox.create_session(cwd="/tmp")
    assert sandbox.exec("pwd", session=str(session)).stdout == "/tmp\n" == sandbox.exec("pwd", session=session).stdout
