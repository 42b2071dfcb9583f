"""Where an Atoll listens: a URL, or a socket of this machine, which needs no token."""

from __future__ import annotations

import errno
import os
from dataclasses import dataclass
from pathlib import Path
from urllib.parse import urlsplit

DEFAULT_URL = "http://127.0.0.1:8700"


@dataclass(frozen=True)
class Place:
    """`url` has no slash at its end; with `socket_path`, it only names the host in requests."""

    url: str
    socket_path: str | None = None
    token: str | None = None

    @property
    def where(self) -> str:
        """For messages."""
        return self.socket_path or self.url

    @property
    def secure(self) -> bool:
        return self.url.startswith("https:")


def _at_socket(path: str, token: str | None = None) -> Place:
    return Place("http://localhost", path, token)


def _at_url(text: str, token: str | None) -> Place:
    if text.startswith("unix:"):
        path = text[len("unix://"):] if text.startswith("unix://") else text[len("unix:"):]
        if path:
            return _at_socket(path, token)
    try:
        parts = urlsplit(text)
        usable = parts.scheme in ("http", "https") and parts.hostname and parts.port != 0 and not parts.query
    except ValueError:
        usable = False
    if not usable:
        raise ValueError(f"'{text}' is not the URL of an Atoll: use http://host:port or unix:/path/to/atoll.sock")
    return Place(text.rstrip("/"), None, token)


def _content_of(path: Path) -> str | None:
    try:
        return path.read_text(encoding="utf-8").strip() or None
    except (OSError, UnicodeDecodeError):
        return None


def _on_this_machine(token: str | None) -> Place:
    """The Atoll of this machine: its socket; else, for users who may not use that, the address in the file beside it."""
    run = Path(os.environ.get("ATOLL_RUN") or "/run/atoll")
    path = run / "atoll.sock"
    if os.access(path, os.R_OK | os.W_OK):
        return _at_socket(str(path))
    forbidden = _errno_of(path) in (None, errno.EACCES)
    # A directory chosen by hand means that daemon and no other.
    if not forbidden and os.environ.get("ATOLL_RUN"):
        return _at_socket(str(path))
    listed = _content_of(run / "listen") if forbidden else None
    url = f"http://{listed.splitlines()[0]}" if listed else DEFAULT_URL
    data = Path(os.environ.get("ATOLL_DATA") or "/var/lib/atoll")
    return Place(url, None, token or _content_of(data / "token"))


def _errno_of(path: Path) -> int | None:
    try:
        path.stat()
    except OSError as error:
        return error.errno
    return None


def locate(url: str | None, token: str | None) -> Place:
    """Finds the Atoll that the arguments, the environment or this machine name."""
    for name, value in (("url", url), ("token", token)):
        if value is not None and not isinstance(value, str):
            raise TypeError(f"{name} is a str, not {type(value).__name__}")
    token = token or os.environ.get("ATOLL_TOKEN") or None
    url = url or os.environ.get("ATOLL_URL") or None
    if token is not None and not (token.isascii() and token.isprintable()):
        raise ValueError("the token has characters that no token has: give the content of the token file, without its line end")
    return _at_url(url, token) if url else _on_this_machine(token)
