"""Commands, environment, git: what runs in a session's shell."""

from __future__ import annotations

import re
import shlex
import uuid
from dataclasses import replace
from typing import TYPE_CHECKING, Any, Awaitable, Callable, Mapping, Union

from .. import _checks as checks
from .. import _wire as wire
from .._io import aio as io
from ..errors import CommandError, GitBranchNotFoundError, GitCheckoutError
from ..models import ExecEvent, ExecResult, GitCheckoutResult, exec_result, made
from .box import Box
from .streams import AsyncEventStream, Follow, ResumedLink

if TYPE_CHECKING:
    from .session import AsyncSession

#: A session, its id, or None: where a call runs unless told otherwise.
SessionLike = Union["AsyncSession", str, None]

#: A callback for text; with AsyncSandbox it may be a coroutine function.
OnText = Callable[[str], Union[None, Awaitable[None]]]

#: Seconds that a clone may take unless told otherwise.
CLONE_SECONDS = 600.0

_COMMIT = re.compile(r"[0-9a-fA-F]{7,64}")


class Scope:
    """A sandbox, or a session of one: where calls run that name no session."""

    _box: Box
    _session: str

    def _in(self, session: SessionLike) -> str:
        return self._session if session is None else checks.session_name(session)


def _public(session: str) -> str | None:
    return None if session == wire.NO_SESSION else session


class AsyncCommands(Scope):
    def _run(
        self,
        command: str,
        session: SessionLike,
        timeout: float | None,
        env: Mapping[str, str | None] | None,
        cwd: checks.StrPath | None,
        stdin: str | bytes | None = None,
    ) -> dict[str, Any]:
        """The fields that commands, streams and processes share."""
        name = self._in(session)
        outside = self._box.env if name == wire.NO_SESSION else {}
        given, encoding = checks.input_text(stdin)
        return {
            "command": checks.command_text(command),
            "sessionId": name,
            "timeoutMs": checks.milliseconds(timeout),
            "env": checks.present(outside, checks.variables(env)),
            "cwd": None if cwd is None else checks.path_text(cwd, "cwd"),
            "stdin": given,
            "stdinEncoding": encoding,
        }

    async def exec(
        self,
        command: str,
        *,
        timeout: float | None = None,
        env: Mapping[str, str | None] | None = None,
        cwd: checks.StrPath | None = None,
        stdin: str | bytes | None = None,
        session: SessionLike = None,
        check: bool = False,
        binary: bool = False,
        on_stdout: OnText | None = None,
        on_stderr: OnText | None = None,
    ) -> ExecResult:
        """Runs a command for bash and waits for its end.

        A command that fails is a result; one that cannot be run to its end, or takes longer than `timeout` seconds, raises
        CommandError, and so does an exit code other than 0 with `check=True`. `binary=True` fills `stdout_bytes` and
        `stderr_bytes`. With `on_stdout` or `on_stderr`, output is handed on while the command runs, which then leaves no state
        (directory, variables) in the session.
        """
        if on_stdout or on_stderr:
            if binary:
                raise ValueError("binary output cannot be handed on as text: leave out on_stdout and on_stderr")
            result = await self._streamed(
                self.exec_stream(command, timeout=timeout, env=env, cwd=cwd, stdin=stdin, session=session),
                command, self._in(session), on_stdout, on_stderr,
            )
        else:
            body = self._run(command, session, timeout, env, cwd, stdin)
            body["encoding"] = "base64" if binary else None
            limit = None if timeout is None else timeout + wire.GRACE_SECONDS
            answer = await self._box.json(wire.request("POST", "/api/execute", body, read_seconds=limit))
            result = exec_result(answer, _public(body["sessionId"]))
        return result.check() if check else result

    async def _streamed(
        self,
        stream: AsyncEventStream[ExecEvent],
        command: str,
        session: str,
        on_stdout: OnText | None,
        on_stderr: OnText | None,
    ) -> ExecResult:
        began = io.now()
        printed: dict[str, list[str]] = {"stdout": [], "stderr": []}
        callbacks = {"stdout": on_stdout, "stderr": on_stderr}
        async with stream as events:
            async for event in events:
                if event.type in printed and event.data:
                    printed[event.type].append(event.data)
                    await io.call(callbacks[event.type], event.data)
                elif event.type == "complete":
                    return made(
                        ExecResult, vars(event), command=command, session_id=_public(session), duration=io.now() - began,
                        stdout="".join(printed["stdout"]), stderr="".join(printed["stderr"]), timestamp=event.timestamp,
                    )
                elif event.type == "error":
                    context = {"command": command, **{name: "".join(text) for name, text in printed.items()}}
                    raise CommandError(event.error or "The command failed", http_status=500, context=context)
        raise CommandError("The stream ended without a result", http_status=500, context={"command": command})

    def exec_stream(
        self,
        command: str,
        *,
        timeout: float | None = None,
        env: Mapping[str, str | None] | None = None,
        cwd: checks.StrPath | None = None,
        stdin: str | bytes | None = None,
        session: SessionLike = None,
    ) -> AsyncEventStream[ExecEvent]:
        """Runs a command and yields what it prints while it runs, as events with `type` and `data`.

            async for event in sandbox.exec_stream("make"):
                if event.type == "stdout":
                    print(event.data, end="")

        The command starts with the first event that is asked for and is read no faster than that: it waits. Leaving the loop
        ends it. A broken connection does not: the stream goes on where it broke.
        """
        body = self._run(command, session, timeout, env, cwd, stdin)
        stream_id = uuid.uuid4().hex
        path = f"/api/execute/stream/{stream_id}"
        first = wire.stream_request("POST", "/api/execute/stream", {**body, "streamId": stream_id})
        # The session may be busy: the answer begins with the command.
        patience = None if timeout is None else max(timeout + wire.GRACE_SECONDS, wire.SILENCE_SECONDS)
        follow = Follow(
            "command.stream",
            replace(first, queued=True, queue_seconds=patience),
            wire.stream_request("GET", path),
            ("complete", "error"),
            leave=wire.request("DELETE", path),
        )
        return AsyncEventStream(ResumedLink(self._box, follow), lambda event: made(ExecEvent, event))

    async def _export(self, session: str, env: Mapping[str, str | None]) -> None:
        """Sets and unsets variables in a running shell."""
        if not env:
            return
        words = [f"unset {name}" if value is None else f"export {name}={shlex.quote(value)}" for name, value in env.items()]
        body = {"command": " && ".join(words), "sessionId": session, "origin": "internal"}
        answer = await self._box.json(wire.request("POST", "/api/execute", body))
        if answer.get("exitCode") != 0:
            raise CommandError(f"Failed to set {', '.join(env)}: {answer.get('stderr')}", http_status=500)

    async def set_env_vars(self, env: Mapping[str, str | None]) -> None:
        """Sets variables of the session's shell; None unsets one."""
        await self._export(self._session, checks.variables(env))

    async def git_checkout(
        self,
        url: str,
        target_dir: checks.StrPath | None = None,
        *,
        branch: str | None = None,
        ref: str | None = None,
        depth: int | None = None,
        timeout: float = CLONE_SECONDS,
        session: SessionLike = None,
    ) -> GitCheckoutResult:
        """Clones a repository, by default into `/workspace` and its name. `ref` is a branch, a tag or a commit; a commit is
        looked for in the whole history."""
        if not isinstance(url, str) or not url:
            raise TypeError("the URL of a repository is a str that is not empty")
        if depth is not None and (isinstance(depth, bool) or not isinstance(depth, int) or depth < 1):
            raise checks.invalid("depth", "the number of commits is an int of 1 or more")
        if not isinstance(branch, (str, type(None))) or not isinstance(ref, (str, type(None))):
            raise TypeError("branch and ref are str")
        if branch is not None and ref is not None:
            raise TypeError("git_checkout takes a branch or a ref, not both: a ref may be a branch, a tag or a commit")
        body = {
            "repoUrl": url,
            "branch": branch if ref is None else ref,
            "targetDir": None if target_dir is None else checks.path_text(target_dir, "target_dir"),
            "depth": depth,
            "timeoutMs": checks.milliseconds(timeout),
            "sessionId": self._in(session),
        }
        try:
            return await self._clone(body, timeout)
        except GitBranchNotFoundError:
            # No branch and no tag: a commit has no name that a clone can ask for.
            if ref is None or not _COMMIT.fullmatch(ref):
                raise
        done = await self._clone({**body, "branch": None, "depth": None}, timeout)
        await self._detach(done, ref, self._in(session), timeout)
        return replace(done, branch=ref)

    async def _clone(self, body: Mapping[str, Any], timeout: float) -> GitCheckoutResult:
        limit = timeout + wire.GRACE_SECONDS
        return made(GitCheckoutResult, await self._box.json(wire.request("POST", "/api/git/checkout", body, read_seconds=limit)))

    async def _detach(self, done: GitCheckoutResult, commit: str, session: str, timeout: float) -> None:
        """Goes to a commit of a clone. A clone without that commit is removed, as git itself removes one that failed."""
        at = shlex.quote(done.target_dir)
        command = f"git -C {at} checkout --quiet --detach {commit} -- || {{ rm -rf -- {at}; false; }}"
        # The session's shell may end at the first error (`set -e`): use it only where a path is relative to its directory.
        where = wire.NO_SESSION if done.target_dir.startswith("/") else session
        body = {"command": command, "sessionId": where, "origin": "internal"}
        answer = await self._box.json(wire.request("POST", "/api/execute", body, read_seconds=timeout + wire.GRACE_SECONDS))
        if answer.get("exitCode") != 0:
            context = {"branch": commit, "repository": done.repo_url, "targetDir": done.target_dir,
                       "stderr": answer.get("stderr"), "exitCode": answer.get("exitCode")}
            message = f"There is no branch, tag or commit '{commit}' in {done.repo_url}"
            raise GitCheckoutError(message, http_status=404, context=context, suggestion="Check the name of the ref.")
