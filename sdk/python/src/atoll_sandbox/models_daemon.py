"""The daemon and what it has beside sandboxes: events, samples of usage, images, tickets."""

from __future__ import annotations

from dataclasses import dataclass, field
from datetime import datetime
from typing import Any, List, Literal, Mapping

from .models import made


@dataclass(frozen=True)
class UsageSample:
    """What a sandbox used at one moment."""

    time: datetime
    memory: int
    cpu_seconds: float
    pids: int
    #: Bytes to and from other machines, over connections that have ended.
    bytes_sent: int
    bytes_received: int
    sandbox: str | None = None
    #: Only where files are counted.
    disk: int | None = None


@dataclass(frozen=True)
class DaemonEvent:
    """Something that happened to a sandbox; `usage` has samples of all that run."""

    type: Literal["created", "started", "slept", "woke", "stopped", "failed", "oom", "destroyed", "usage"]
    id: int | None = None
    sandbox: str | None = None
    reason: str | None = None
    time: datetime | None = None
    samples: List[UsageSample] = field(default_factory=list)


def daemon_event(wire: Mapping[str, Any]) -> DaemonEvent:
    return made(DaemonEvent, wire, samples=[made(UsageSample, one) for one in wire.get("samples") or ()])


@dataclass(frozen=True)
class Image:
    name: str
    id: str
    #: Milliseconds since 1970.
    created: int | None = None
    layers: int | None = None
    #: Bytes of its imported layers.
    size: int | None = None
    #: The OCI configuration, of one image alone.
    config: dict[str, Any] | None = None


@dataclass(frozen=True)
class ImageEvent:
    """Progress of a build, a pull or a push: `step`, `cached`, `output`, `layer`, then `done`."""

    type: Literal["step", "cached", "output", "layer", "done"]
    #: Which step, of how many, at which line of the Dockerfile.
    n: int | None = None
    of: int | None = None
    line: int | None = None
    text: str | None = None
    name: str | None = None
    names: List[str] = field(default_factory=list)
    id: str | None = None
    milliseconds: int | None = None


@dataclass(frozen=True)
class Ticket:
    """A permission for one request of a web page: `?ticket=` in its URL, for a minute."""

    ticket: str
    sandbox: str
    expires_at: datetime

    def __str__(self) -> str:
        return self.ticket
