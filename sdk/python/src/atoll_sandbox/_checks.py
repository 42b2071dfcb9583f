"""Arguments that the server would refuse are refused here, before anything is sent."""

from __future__ import annotations

import base64
import math
import os
import re
from typing import Literal, Mapping, Sequence, Union, get_args

from .errors import CommandError, InvalidPortError, SandboxSecurityError, ValidationFailedError

#: A path in the sandbox: absolute, or relative to the session's directory.
StrPath = Union[str, "os.PathLike[str]"]

Language = Literal["python", "python3", "javascript", "js", "node", "typescript", "ts"]

ID_LENGTH = 63
PORT_LOWEST, PORT_HIGHEST = 1024, 65535

_RESERVED = frozenset(("www", "api", "admin", "root", "system", "cloudflare", "workers"))
_LANGUAGES = frozenset(get_args(Language))
_ID = re.compile(r"[!-.0-~]+")
_VARIABLE = re.compile(r"[A-Za-z_][A-Za-z0-9_]*")
_TOKEN = re.compile(r"[a-z0-9_]{1,16}")


def sandbox_id(value: object) -> str:
    if not isinstance(value, str):
        raise TypeError(f"a sandbox id is a str, not {type(value).__name__}")
    if not 0 < len(value) <= ID_LENGTH:
        message = f"A sandbox id has 1 to {ID_LENGTH} characters, not {len(value)}"
        raise SandboxSecurityError(message, code="INVALID_SANDBOX_ID_LENGTH", http_status=400)
    if value.startswith("-") or value.endswith("-"):
        message = "A sandbox id must not start or end with a hyphen"
        raise SandboxSecurityError(message, code="INVALID_SANDBOX_ID_HYPHENS", http_status=400)
    if value.lower() in _RESERVED:
        message = f"'{value}' is a reserved name: choose another sandbox id"
        raise SandboxSecurityError(message, code="RESERVED_SANDBOX_ID", http_status=400)
    # A parser of URLs takes "." and ".." for directories, also when they are percent-encoded.
    if not _ID.fullmatch(value) or not value.strip("."):
        message = "A sandbox id has printable ASCII characters only, no blanks and no '/', and not dots alone"
        raise SandboxSecurityError(message, code="INVALID_SANDBOX_ID_CHARACTERS", http_status=400)
    return value


def port_number(value: object, lowest: int = PORT_LOWEST) -> int:
    if isinstance(value, bool) or not isinstance(value, int):
        raise TypeError(f"a port is an int, not {type(value).__name__}")
    if not lowest <= value <= PORT_HIGHEST:
        reason = f"use {lowest} to {PORT_HIGHEST}"
        raise InvalidPortError(
            f"Invalid port number {value}: {reason}", code="INVALID_PORT_NUMBER", http_status=400,
            context={"port": value, "reason": reason},
        )
    return value


def preview_token(value: str | None) -> str | None:
    if value is not None and not _TOKEN.fullmatch(value):
        raise invalid("token", "a token has 1 to 16 of a-z, 0-9 and _")
    return value


def language_name(value: str) -> str:
    if value not in _LANGUAGES:
        message = f"Unsupported language '{value}'. There are python, javascript and typescript"
        raise SandboxSecurityError(message, code="INVALID_LANGUAGE", http_status=400)
    return value


def path_text(value: StrPath, name: str = "path") -> str:
    if isinstance(value, bytes):
        raise TypeError(f"{name} is a str or a path, not bytes")
    text = os.fspath(value)
    if not text or "\0" in text:
        raise invalid(name, "a path is not empty and has no NUL character")
    return text


def command_text(value: object) -> str:
    if not isinstance(value, str):
        hint = ": quote it with shlex.join()" if isinstance(value, (list, tuple)) else ""
        raise TypeError(f"a command is a str for bash, not {type(value).__name__}{hint}")
    if not value.strip() or "\0" in value:
        message = "The command is empty" if not value.strip() else "The command has a NUL character"
        raise CommandError(message, code="INVALID_COMMAND", http_status=400, context={"command": value})
    return value


def input_text(value: object) -> tuple[str | None, str | None]:
    """Input of a command, as text and how it is encoded."""
    if value is None or isinstance(value, str):
        return value, None
    if isinstance(value, (bytes, bytearray, memoryview)):
        return base64.b64encode(value).decode(), "base64"
    raise TypeError(f"stdin is a str or bytes, not {type(value).__name__}: give the content of a file with .read()")


def milliseconds(seconds: float | None, name: str = "timeout") -> int | None:
    """Seconds as the wire has them. None is no limit; a limit that is too short for the wire becomes a millisecond."""
    if seconds is None:
        return None
    if isinstance(seconds, bool) or not isinstance(seconds, (int, float)):
        raise TypeError(f"{name} is a number of seconds, not {type(seconds).__name__}")
    if not math.isfinite(seconds) or seconds <= 0:
        raise ValueError(f"{name} is {seconds}: give a positive number of seconds, or None for no limit")
    return max(1, round(seconds * 1000))


def variables(env: Mapping[str, str | None] | None, name: str = "env") -> dict[str, str | None]:
    """Environment variables; None unsets one."""
    if env is None:
        return {}
    if not isinstance(env, Mapping):
        raise TypeError(f"{name} is a mapping of str to str, not {type(env).__name__}")
    for key, value in env.items():
        if not isinstance(key, str) or not _VARIABLE.fullmatch(key):
            raise invalid(name, f"{key!r} cannot be the name of an environment variable")
        if value is not None and (not isinstance(value, str) or "\0" in value):
            raise invalid(name, f"the value of {key} is a str without NUL characters, or None")
    return dict(env)


def names(value: Sequence[str], name: str) -> list[str]:
    """A list of names; one str would be a list of its letters."""
    if isinstance(value, (str, bytes)) or not all(isinstance(one, str) for one in value):
        raise TypeError(f"{name} is a list of str")
    return list(value)


def volume(value: Mapping[str, object]) -> dict[str, object]:
    """A volume of a sandbox; `read_only` is `readOnly` on the wire."""
    if not isinstance(value, Mapping):
        raise TypeError(f"a volume is a mapping like {{'name': …, 'path': …}}, not {type(value).__name__}")
    known = {"name": "name", "path": "path", "read_only": "readOnly", "readOnly": "readOnly"}
    unknown = [str(key) for key in value if key not in known]
    if unknown or "name" not in value or "path" not in value:
        raise invalid("volumes", f"a volume has name, path and, if you like, read_only; not {', '.join(unknown) or 'less'}")
    return {known[key]: path_text(one) if key == "path" else one for key, one in value.items()}  # type: ignore[arg-type]


def present(*levels: Mapping[str, str | None]) -> dict[str, str] | None:
    """Variables that have a value; later levels win."""
    merged: dict[str, str | None] = {}
    for level in levels:
        merged.update(level)
    return {key: value for key, value in merged.items() if value is not None} or None


def session_name(value: object) -> str:
    """The id of a session, from the id or from the session."""
    named = getattr(value, "_session", value)
    if not isinstance(named, str):
        raise TypeError(f"a session is a Session or its id, not {type(value).__name__}")
    if not named.strip():
        raise invalid("session", "the id of a session is not empty")
    return named


def invalid(field: str, message: str) -> ValidationFailedError:
    errors = [{"field": field, "message": message}]
    return ValidationFailedError(f"Invalid {field}: {message}", http_status=400, context={"validationErrors": errors})
