"""Files and watches. Relative paths begin where the session is."""

from __future__ import annotations

import re
import shlex
from datetime import datetime, timezone
from typing import Any, AsyncIterator, Mapping, Sequence, Union, overload

import httpx

from .. import _checks as checks
from .. import _wire as wire
from .._io import aio as io
from ..errors import FileNotFoundError, FileSystemError, SandboxError
from ..models import Changes, FileInfo, FileStat, WatchEvent, made
from .box import Box
from .commands import Scope, SessionLike
from .streams import AsyncEventStream, EndlessLink

#: Content for a file: text (as UTF-8), bytes, a binary file object, or an iterable of bytes.
Content = Union[str, bytes, bytearray, memoryview, io.Pieces]

#: Seconds for a command of this client's own, such as the removal of a large tree.
OWN_SECONDS = 600.0

_STAT = re.compile(r"(\d+) (\d+) (-?\d+) (.*)\n")


def _raw(method: str, path: checks.StrPath, session: str, body: bytes | None = None) -> wire.Request:
    """The route of a file's bytes as they are."""
    target = wire.request(method, "/api/file", query={"path": checks.path_text(path), "sessionId": session}).path
    headers = {"content-type": "application/octet-stream"} if method == "PUT" else {}
    return wire.Request(method, target, body, headers, repeatable=method == "GET")


class AsyncFileStream:
    """The bytes of a file of any size, piece by piece. `size` and `mime_type` are there inside of `async with`."""

    def __init__(self, box: Box, request: wire.Request) -> None:
        self._box, self._request = box, request
        self._body: io.Body | None = None
        self.size: int | None = None
        self.mime_type: str | None = None

    async def __aenter__(self) -> AsyncFileStream:
        if self._body is None:
            response = await self._box.send(self._request)
            self._body = io.Body(response)
            length = response.headers.get("content-length")
            self.size = None if length is None else int(length)
            self.mime_type = response.headers.get("content-type")
        return self

    async def __aexit__(self, *_: object) -> None:
        await self.aclose()

    async def __aiter__(self) -> AsyncIterator[bytes]:
        async with self:
            assert self._body is not None
            while True:
                try:
                    piece = await self._body.next()
                except httpx.TransportError as error:
                    raise wire.failure(error, self._box.transport.place, self._request.read_seconds) from error
                if piece is None:
                    return
                yield piece

    async def aclose(self) -> None:
        body, self._body = self._body, None
        if body is not None:
            await body.close()


class AsyncFiles(Scope):
    async def write_file(
        self, path: checks.StrPath, content: Content, *, encoding: str = "utf-8", session: SessionLike = None
    ) -> None:
        """Writes a file, and the directories above it. The file is replaced as a whole, or not at all.

        Content of any size can come from a binary file object or from an iterable of bytes. Text is written in `encoding`.
        """
        if isinstance(content, str):
            content = content.encode(encoding)
        if isinstance(content, (bytes, bytearray, memoryview)):
            await self._box.json(_raw("PUT", path, self._in(session), bytes(content)))
            return
        if isinstance(content, Mapping) or not any(hasattr(content, name) for name in ("read", "__aiter__", "__iter__")):
            kind = type(content).__name__
            raise TypeError(f"the content of a file is str, bytes, a file object or an iterable of bytes, not {kind}")
        await self._box.json(_raw("PUT", path, self._in(session)), content)

    @overload
    async def read_file(self, path: checks.StrPath, *, encoding: str = "utf-8", session: SessionLike = None) -> str: ...

    @overload
    async def read_file(self, path: checks.StrPath, *, encoding: None, session: SessionLike = None) -> bytes: ...

    async def read_file(
        self, path: checks.StrPath, *, encoding: str | None = "utf-8", session: SessionLike = None
    ) -> str | bytes:
        """The content of a file: text in `encoding`, or bytes with `encoding=None`."""
        data = await self._box.data(_raw("GET", path, self._in(session)))
        try:
            return data if encoding is None else data.decode(encoding)
        except UnicodeDecodeError as error:
            reason = f"{error.reason} (read it as bytes with encoding=None)"
            raise UnicodeDecodeError(error.encoding, error.object, error.start, error.end, reason) from None

    def read_file_stream(self, path: checks.StrPath, *, session: SessionLike = None) -> AsyncFileStream:
        """The bytes of a file of any size, piece by piece.

            async with sandbox.read_file_stream("big.bin") as file:
                print(file.size, file.mime_type)
                async for piece in file:
                    ...
        """
        return AsyncFileStream(self._box, _raw("GET", path, self._in(session)))

    async def mkdir(self, path: checks.StrPath, *, recursive: bool = False, session: SessionLike = None) -> None:
        """Makes a directory; with `recursive`, also those above it, and an existing directory is no error."""
        await self._file("mkdir", {"path": checks.path_text(path), "recursive": bool(recursive)}, session)

    async def delete_file(self, path: checks.StrPath, *, session: SessionLike = None) -> None:
        """Deletes a file. Directories are refused."""
        await self._file("delete", {"path": checks.path_text(path)}, session)

    async def rename_file(self, old_path: checks.StrPath, new_path: checks.StrPath, *, session: SessionLike = None) -> None:
        body = {"oldPath": checks.path_text(old_path, "old_path"), "newPath": checks.path_text(new_path, "new_path")}
        await self._file("rename", body, session)

    async def move_file(self, source: checks.StrPath, destination: checks.StrPath, *, session: SessionLike = None) -> None:
        names = checks.path_text(source, "source"), checks.path_text(destination, "destination")
        await self._file("move", {"sourcePath": names[0], "destinationPath": names[1]}, session)

    async def list_files(
        self, path: checks.StrPath = ".", *, recursive: bool = False, include_hidden: bool = False, session: SessionLike = None
    ) -> list[FileInfo]:
        """The entries of a directory; with `recursive`, also those below it."""
        options = {"recursive": bool(recursive), "includeHidden": bool(include_hidden)}
        answer = await self._file("list-files", {"path": checks.path_text(path), "options": options}, session, reads=True)
        return [made(FileInfo, info) for info in answer["files"]]

    async def exists(self, path: checks.StrPath, *, session: SessionLike = None) -> bool:
        """Whether there is a file or a directory."""
        return bool((await self._file("exists", {"path": checks.path_text(path)}, session, reads=True))["exists"])

    async def readdir(self, path: checks.StrPath = ".", *, session: SessionLike = None) -> list[str]:
        """The names in a directory, hidden ones too, sorted."""
        return sorted(info.name for info in await self.list_files(path, include_hidden=True, session=session))

    async def stat(self, path: checks.StrPath, *, session: SessionLike = None) -> FileStat:
        """Type, size, time and mode of a file or a directory. Symbolic links are followed."""
        name = checks.path_text(path)
        answer = await self._own(f"stat -L -c '%a %s %Y %F' -- {shlex.quote(name)}", name, session)
        found, words = _STAT.fullmatch(answer["stdout"]), answer["stderr"].strip()
        if answer["exitCode"] != 0 or not found:
            missing = "No such file" in words or "Not a directory" in words
            kind = FileNotFoundError if missing else FileSystemError
            raise kind(f"'{name}' cannot be looked at: {words}", http_status=404 if missing else 500, context={"path": name})
        plain = "directory" if found[4] == "directory" else "file" if found[4].startswith("regular") else "other"
        when = datetime.fromtimestamp(int(found[3]), timezone.utc)
        return FileStat(name, plain, int(found[2]), when, int(found[1], 8))  # type: ignore[arg-type]

    async def rm(
        self, path: checks.StrPath, *, recursive: bool = False, force: bool = False, session: SessionLike = None
    ) -> None:
        """Removes a file; with `recursive` also a directory with all that it holds. With `force`, a path that does not exist is
        no error."""
        name = checks.path_text(path)
        try:
            await self.delete_file(name, session=session)
            return
        except FileNotFoundError:
            if force:
                return
            raise
        except FileSystemError as error:
            if error.code != "IS_DIRECTORY":
                raise
        if not recursive:
            hint = "Use rm(path, recursive=True)."
            raise FileSystemError(
                f"'{name}' is a directory", code="IS_DIRECTORY", http_status=400, context={"path": name}, suggestion=hint
            )
        answer = await self._own(f"rm -r -- {shlex.quote(name)}", name, session)
        if answer["exitCode"] != 0:
            words = answer["stderr"].strip()
            raise FileSystemError(f"'{name}' could not be removed: {words}", http_status=500, context={"path": name})

    async def _own(self, command: str, path: str, session: SessionLike) -> dict[str, Any]:
        """A command of this client's own. Only a relative path needs the session, which may be busy."""
        where = wire.NO_SESSION if path.startswith("/") else self._in(session)
        body = {"command": f"LC_ALL=C {command}", "sessionId": where, "origin": "internal"}
        return await self._box.json(wire.request("POST", "/api/execute", body, read_seconds=OWN_SECONDS))

    async def _file(self, route: str, body: dict[str, Any], session: SessionLike, reads: bool = False) -> dict[str, Any]:
        body["sessionId"] = self._in(session)
        return await self._box.json(wire.request("POST", f"/api/{route}", body, repeatable=reads))

    def watch(
        self,
        path: checks.StrPath = "/workspace",
        *,
        recursive: bool = True,
        include: Sequence[str] | None = None,
        exclude: Sequence[str] | None = None,
        session: SessionLike = None,
    ) -> AsyncEventStream[WatchEvent]:
        """Watches a directory below `/workspace`; `include` or `exclude` are globs.

            async with sandbox.watch("/workspace") as changes:
                async for event in changes:
                    print(event.event_type, event.path)

        The watch is in place when the `async with` block begins, and its first event, of type `watching`, says so.
        """
        body = _watch(path, recursive, include, exclude, self._in(session))
        link = _WatchLink(self._box, wire.stream_request("POST", "/api/watch", body), "directory.watch")
        return AsyncEventStream(link, _watched)

    async def check_changes(
        self,
        path: checks.StrPath = "/workspace",
        *,
        since: str | None = None,
        recursive: bool = True,
        include: Sequence[str] | None = None,
        exclude: Sequence[str] | None = None,
        session: SessionLike = None,
    ) -> Changes:
        """Whether anything changed since the `version` of an earlier answer."""
        body = {**_watch(path, recursive, include, exclude, self._in(session)), "since": since}
        return made(Changes, await self._box.json(wire.request("POST", "/api/watch/check", body)))


def _watched(event: Any) -> WatchEvent:
    return made(WatchEvent, event)


class _WatchLink(EndlessLink):
    """Opened when the watch is in place: what happens after that is seen."""

    last = ("stopped", "error")

    async def open(self) -> None:
        if self._body is not None:
            return
        await super().open()
        frame = await self.frame()
        if frame is None or frame.event.get("type") == "error":
            await self.close()
            reason = frame.event.get("error") if frame else "the stream ended before the watch was in place"
            raise SandboxError(f"The directory cannot be watched: {reason}", code="WATCH_START_ERROR", http_status=500)
        self._frames.insert(0, frame)


def _watch(
    path: checks.StrPath, recursive: bool, include: Sequence[str] | None, exclude: Sequence[str] | None, session: str
) -> dict[str, Any]:
    if include is not None and exclude is not None:
        raise checks.invalid("exclude", "give include or exclude, not both")
    for name, globs in (("include", include), ("exclude", exclude)):
        if isinstance(globs, (str, bytes)):
            raise TypeError(f"{name} is a list of patterns, not one {type(globs).__name__}")
    return {
        "path": checks.path_text(path), "recursive": bool(recursive), "sessionId": session,
        "include": None if include is None else list(include), "exclude": None if exclude is None else list(exclude),
    }
