"""Sessions: shells that stay."""

from __future__ import annotations

import uuid
from typing import Mapping

from .. import _checks as checks
from .. import _wire as wire
from .backups import AsyncBackups
from .box import Box
from .code import AsyncCode
from .commands import SessionLike
from .processes import AsyncProcesses
from .terminal import AsyncTerminal, path_of
from .volumes import AsyncBuckets


class AsyncInside(AsyncProcesses, AsyncBackups, AsyncCode, AsyncBuckets):
    """Everything that can be done in a sandbox, in a session or in the default one."""

    async def terminal(
        self, *, cols: int = 80, rows: int = 24, shell: str | None = None, session: SessionLike = None
    ) -> AsyncTerminal:
        """Connects to the terminal of the session. The first connection starts its shell (bash); all connections share it."""
        name = self._in(session)
        if name == wire.NO_SESSION:
            name = f"sandbox-{self._box.id}"
        return AsyncTerminal(await self._box.websocket(path_of(name, cols, rows, shell)))


class AsyncSession(AsyncInside):
    """A session of a sandbox: its calls run in, or relative to, one shell that keeps its directory and variables.

    `async with` deletes the session at its end.
    """

    def __init__(self, box: Box, session_id: str) -> None:
        self._box = box
        self._session = session_id

    @property
    def id(self) -> str:
        return self._session

    def __str__(self) -> str:
        """The id, which does wherever a session is asked for: a session can be kept as text."""
        return self.id

    def __repr__(self) -> str:
        return f"<{type(self).__name__} {self.id!r} of {self._box.id!r}>"

    async def delete(self) -> None:
        """Ends the session's shell and what runs in it. Background processes live on."""
        await self._box.json(wire.request("POST", "/api/session/delete", {"sessionId": self.id}))

    async def __aenter__(self) -> AsyncSession:
        return self

    async def __aexit__(self, *_: object) -> None:
        await self.delete()


class AsyncSessions(AsyncInside):
    async def create_session(
        self,
        session_id: str | None = None,
        *,
        cwd: checks.StrPath | None = None,
        env: Mapping[str, str | None] | None = None,
        command_timeout: float | None = None,
    ) -> AsyncSession:
        """Makes a session. `command_timeout` is the limit for each of its commands that has none of its own, in seconds."""
        name = f"session-{uuid.uuid4().hex[:12]}" if session_id is None else checks.session_name(session_id)
        if name == wire.NO_SESSION:
            raise checks.invalid("session_id", f"'{wire.NO_SESSION}' is reserved")
        body = {
            "id": name,
            "env": checks.present(self._box.env, checks.variables(env)),
            "cwd": None if cwd is None else checks.path_text(cwd, "cwd"),
            "commandTimeoutMs": checks.milliseconds(command_timeout, "command_timeout"),
        }
        await self._box.json(wire.request("POST", "/api/session/create", body))
        return AsyncSession(self._box, name)

    def get_session(self, session_id: str) -> AsyncSession:
        """A session by its id. Nothing is asked: a session that does not exist is made by its first command."""
        return AsyncSession(self._box, checks.session_name(session_id))

    async def list_sessions(self) -> list[str]:
        """The ids of all sessions."""
        return list((await self._box.json(wire.request("GET", "/api/session/list")))["data"])

    async def delete_session(self, session: AsyncSession | str) -> None:
        name = checks.session_name(session)
        if name == self._session:
            raise checks.invalid("session", f"'{name}' is the default session: it ends with the sandbox, by destroy()")
        await AsyncSession(self._box, name).delete()
