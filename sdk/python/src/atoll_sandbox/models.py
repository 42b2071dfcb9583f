"""Results and events, as dataclasses. Times are datetimes, durations are seconds."""

from __future__ import annotations

import base64
import dataclasses
import functools
import re
from dataclasses import dataclass, field
from datetime import datetime
from typing import Any, Dict, List, Literal, Mapping, Match, Type, TypeVar

from .errors import CommandError, SandboxError

T = TypeVar("T")
R = TypeVar("R", bound="ExecResult")

#: How a command or a process ended. `lost` is not known.
Outcome = Literal["exited", "killed", "timeout", "oom", "lost"]

_CAPITAL = re.compile(r"(?<=[a-z0-9])([A-Z])")


@functools.lru_cache(maxsize=None)
def _snake(name: str) -> str:
    return _CAPITAL.sub(r"_\1", name).lower()


def time_of(text: str) -> datetime:
    return datetime.fromisoformat(text.replace("Z", "+00:00"))


def made(kind: Type[T], wire: Mapping[str, Any], **more: Any) -> T:
    """An object of a dataclass from the JSON object of an answer; members that the class does not have are left out."""
    given = {_snake(key): value for key, value in wire.items() if value is not None}
    values: dict[str, Any] = {}
    try:
        for one in dataclasses.fields(kind):
            if one.name in more:
                values[one.name] = more[one.name]
            elif one.name in given:
                value = given[one.name]
                values[one.name] = time_of(value) if "datetime" in str(one.type) else value
        return kind(**values)
    except (AttributeError, TypeError, ValueError) as error:
        message = f"Atoll answered something that is no {kind.__name__}: {error}"
        raise SandboxError(message, code="INVALID_JSON_RESPONSE", context={"body": str(wire)[:200]}) from error


class Record:
    """A dataclass whose members can also be had by their names on the wire: `record["createdAt"]`."""

    def __getitem__(self, name: str) -> Any:
        try:
            return getattr(self, _snake(name))
        except AttributeError:
            raise KeyError(name) from None


# ---- Commands


@dataclass(frozen=True)
class ExecResult:
    """How a command ended. A command that fails is a result, not an exception."""

    exit_code: int
    stdout: str
    stderr: str
    command: str
    duration: float
    timestamp: datetime
    outcome: Outcome = "exited"
    signal: str | None = None
    #: The session it ran in; None when it ran outside of any.
    session_id: str | None = None
    #: The bytes of stdout and of stderr, with `exec(…, binary=True)`: in text, bytes that are no UTF-8 become U+FFFD.
    stdout_bytes: bytes = field(default=b"", repr=False)
    stderr_bytes: bytes = field(default=b"", repr=False)

    @property
    def success(self) -> bool:
        """Whether the exit code is 0."""
        return self.exit_code == 0

    def check(self: R) -> R:
        """The result itself; raises CommandError unless the exit code is 0."""
        if self.success:
            return self
        context = {"command": self.command, "exitCode": self.exit_code, "stdout": self.stdout, "stderr": self.stderr}
        last = self.stderr.strip().rpartition("\n")[2]
        message = f"The command ended with exit code {self.exit_code}" + (f": {last}" if last else "")
        raise CommandError(message, context=context)


def exec_result(wire: Mapping[str, Any], session_id: str | None) -> ExecResult:
    more: dict[str, Any] = {"session_id": session_id, "duration": wire.get("duration", 0) / 1000}
    if wire.get("encoding") == "base64":
        for name in ("stdout", "stderr"):
            decoded = base64.b64decode(wire[name])
            more[f"{name}_bytes"], more[name] = decoded, decoded.decode("utf-8", "replace")
    return made(ExecResult, wire, **more)


@dataclass(frozen=True)
class ExecEvent:
    """One event of `exec_stream`: `start`, `stdout`, `stderr`, then `complete` or `error`."""

    type: Literal["start", "stdout", "stderr", "complete", "error"]
    timestamp: datetime | None = None
    #: The output.
    data: str | None = None
    command: str | None = None
    pid: int | None = None
    session_id: str | None = None
    exit_code: int | None = None
    outcome: Outcome | None = None
    signal: str | None = None
    error: str | None = None


@dataclass(frozen=True)
class GitCheckoutResult:
    repo_url: str
    branch: str
    target_dir: str


# ---- Processes


@dataclass(frozen=True)
class ProcessLogs:
    """Everything that a process has printed."""

    stdout: str
    stderr: str


@dataclass(frozen=True)
class LogEvent:
    """One event of a process's log: `process_info`, `stdout`, `stderr`, then `exit`."""

    type: Literal["process_info", "stdout", "stderr", "exit"]
    process_id: str
    timestamp: datetime | None = None
    data: str | None = None
    command: str | None = None
    status: str | None = None
    exit_code: int | None = None
    outcome: Outcome | None = None
    #: Bytes of output that are gone before this event: a log holds 16 MiB.
    dropped: int = 0


@dataclass(frozen=True)
class LogMatch:
    """The result of `wait_for_log`: the line, and the match of a compiled expression."""

    line: str
    match: Match[str] | None = None


# ---- Files


@dataclass(frozen=True)
class FileInfo:
    name: str
    absolute_path: str
    relative_path: str
    type: Literal["file", "directory", "symlink", "other"]
    size: int
    modified_at: datetime
    #: Like `rwxr-xr-x`.
    mode: str
    #: `readable`, `writable` and `executable`, for the owner.
    permissions: dict[str, bool] = field(default_factory=dict)


@dataclass(frozen=True)
class FileStat:
    """The answer of `stat`. Symbolic links are followed."""

    path: str
    type: Literal["file", "directory", "other"]
    size: int
    modified_at: datetime
    #: The permission bits: 0o755.
    mode: int

    @property
    def is_file(self) -> bool:
        return self.type == "file"

    @property
    def is_dir(self) -> bool:
        return self.type == "directory"


@dataclass(frozen=True)
class WatchEvent:
    """One event of `watch`: `watching`, then `event` for each change; `error`; `stopped`."""

    type: Literal["watching", "event", "error", "stopped"]
    path: str | None = None
    #: `create`, `modify`, `delete`, `move_from`, `move_to` or `attrib`.
    event_type: str | None = None
    is_directory: bool = False
    timestamp: datetime | None = None
    watch_id: str | None = None
    error: str | None = None
    reason: str | None = None


@dataclass(frozen=True)
class Changes:
    """Whether something changed: `unchanged`, `changed`, or `resync` when nothing is known about the time since."""

    status: Literal["unchanged", "changed", "resync"]
    #: Give it as `since` the next time.
    version: str
    reason: str | None = None


# ---- Sandboxes


@dataclass(frozen=True)
class Limits:
    """Limits of a sandbox: bytes of memory, CPUs, processes, bytes of files."""

    memory: int | None = None
    cpu: float | None = None
    pids: int | None = None
    disk: int | None = None


@dataclass(frozen=True)
class Disk:
    """Bytes of files that a sandbox is charged for, and may have."""

    allowed: int
    used: int | None = None


@dataclass(frozen=True)
class Usage:
    memory: int
    memory_peak: int
    cpu_seconds: float
    pids: int
    oom_kills: int


@dataclass(frozen=True)
class SandboxInfo:
    """A sandbox as the daemon sees it."""

    id: str
    state: Literal["creating", "running", "asleep", "stopped", "failed"]
    image: str
    limits: Limits
    created_at: datetime
    labels: dict[str, str]
    env_names: List[str]
    keep_alive: bool
    sleep_after: int | None = None
    #: Only while the sandbox lives.
    usage: Usage | None = None
    #: Only on hosts with disk limits.
    disk: Disk | None = None
    #: Why it is stopped.
    reason: str | None = None
    #: False: `sleep_after` is the daemon's own, and work keeps the sandbox awake.
    sleep_after_chosen: bool = False
    #: One of upstream's instance types, if it was made as one.
    instance: str | None = None
    #: Names of the secrets that it has.
    secrets: List[str] = field(default_factory=list)
    #: Its volumes: `name`, `path`, `readOnly`.
    volumes: List[Dict[str, Any]] = field(default_factory=list)
    #: Hosts whose requests come to an outbound handler: `http`, `https`.
    outbound: dict[str, List[str]] | None = None


def sandbox_info(wire: Mapping[str, Any]) -> SandboxInfo:
    usage, disk = wire.get("usage"), wire.get("disk")
    return made(
        SandboxInfo,
        wire,
        limits=made(Limits, wire.get("limits") or {}),
        usage=made(Usage, usage) if usage else None,
        disk=made(Disk, disk) if disk else None,
    )
