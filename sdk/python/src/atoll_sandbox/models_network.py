"""The sandbox and the world: secrets, ports, tunnels, connections."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime
from typing import List, Literal

from .models import Record


@dataclass(frozen=True)
class Secret:
    """A secret without its value, which nothing shows."""

    name: str
    hosts: List[str]
    created_at: datetime
    #: None: never, since the daemon knows it.
    last_used_at: datetime | None = None
    env: str | None = None
    header: str | None = None
    #: `accessKeyId`, `region`, `service`.
    aws: dict[str, str] | None = None
    #: Where its placeholder is replaced (`in` on the wire). None: anywhere in the head of a request, until it is set anew.
    places: List[str] | None = None


@dataclass(frozen=True)
class ExposedPort:
    """A port with a URL of its own."""

    url: str
    port: int
    token: str
    name: str | None = None
    #: `active`, or `inactive` while the sandbox is stopped.
    status: str = "active"

    def __str__(self) -> str:
        return self.url


@dataclass(frozen=True)
class Tunnel:
    """A port with a host name of its own, without a token."""

    id: str
    port: int
    url: str
    hostname: str
    created_at: datetime
    #: None when the host name is random.
    name: str | None = None

    def __str__(self) -> str:
        return self.url


@dataclass(frozen=True)
class NetworkRecord(Record):
    """A connection that has ended, or a name that was refused."""

    #: When it began.
    time: datetime
    port: int
    protocol: Literal["tcp", "tls", "http", "udp", "dns"]
    decision: Literal["allow", "deny"]
    #: The rule that decided, or the reason where none did.
    rule: str
    name: str | None = None
    address: str | None = None
    #: Bytes each way, milliseconds, and how it ended.
    sent: int = 0
    received: int = 0
    ms: int = 0
    end: str = ""


@dataclass(frozen=True)
class Approval(Record):
    """A connection that waits for an approval. `follow_approvals` also reports the end of the wait: type `ended`."""

    id: str
    sandbox: str
    #: The name, or the address where the connection has no name.
    host: str
    port: int
    type: Literal["approval", "ended"] = "approval"
    protocol: Literal["tcp", "tls", "http"] | None = None
    address: str | None = None
    created_at: datetime | None = None
    expires_at: datetime | None = None
    #: With `ended`: `allow`, `deny`, `timeout` or `gone`.
    end: str | None = None
