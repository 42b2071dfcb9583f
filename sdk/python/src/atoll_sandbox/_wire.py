"""The wire without the wire: requests, answers, and which failures a second try can mend.

`_async` (and `_sync`, which is made from it) sends these requests.
"""

from __future__ import annotations

import errno
import json
import random
import re
import socket
import ssl
from dataclasses import dataclass, field, replace
from typing import Any, Iterator, Mapping
from urllib.parse import quote, urlencode

import httpx

from ._place import Place
from .errors import ContainerUnavailableError, RPCTransportError, SandboxError

#: The session id that means: outside of any session.
NO_SESSION = "__DISABLE_SESSION__"

#: Port 3000 of the daemon's route is the sandbox's own API, unless a request says that it is for an app there.
FOR_THE_APP = {"x-atoll-app": "1"}

#: Seconds. How long a connection may take; how long an answer may take that needs no work; what is granted beyond the
#: caller's own limit; how long an event stream may be silent (the server sends a comment every 15 s).
CONNECT_SECONDS = 10.0
ANSWER_SECONDS = 60.0
GRACE_SECONDS = 15.0
SILENCE_SECONDS = 60.0
#: Where no limit is set, a command may take any time: without a byte for `ASK_SECONDS`, Atoll is asked whether it answers at all,
#: and given up when it does not within `HEALTH_SECONDS`.
ASK_SECONDS = 15.0
HEALTH_SECONDS = 5.0
SILENT = "accepts no requests, or answers none"
#: Seconds for which requests that can be repeated are, and for which a sandbox that is not ready is waited for.
RETRY_SECONDS = 5.0
READY_SECONDS = 30.0
#: The longest pause between two tries, and the longest that a server can ask for.
PAUSE_SECONDS, RETRY_AFTER_SECONDS = 1.0, 5.0


@dataclass(frozen=True)
class Request:
    """A request to one sandbox; `path` is below `/v1/sandboxes/{id}`."""

    method: str
    path: str
    body: bytes | None = None
    headers: Mapping[str, str] = field(default_factory=dict)
    #: It only reads, or doing it twice is doing it once.
    repeatable: bool = False
    #: Seconds without a byte of the answer after which it is given up; None is never while Atoll answers anything.
    read_seconds: float | None = ANSWER_SECONDS
    #: It may have to wait for its turn: how long the beginning of the answer may take, in the place of `read_seconds`.
    queued: bool = False
    queue_seconds: float | None = None

    def behind(self, event_id: str | None) -> Request:
        """The same, for the events behind this one."""
        return self if event_id is None else replace(self, headers={**self.headers, "last-event-id": event_id})


def request(
    method: str,
    path: str,
    body: Mapping[str, Any] | None = None,
    *,
    query: Mapping[str, Any] | None = None,
    repeatable: bool | None = None,
    read_seconds: float | None = ANSWER_SECONDS,
    nulls: bool = False,
) -> Request:
    """A request with JSON as its body. Members that are None are left out, or null with `nulls`."""
    given = {key: value for key, value in (query or {}).items() if value is not None}
    target = f"{path}?{urlencode(given, quote_via=quote)}" if given else path
    repeated = method == "GET" if repeatable is None else repeatable
    if body is None:
        return Request(method, target, repeatable=repeated, read_seconds=read_seconds)
    encoded = json.dumps({key: value for key, value in body.items() if nulls or value is not None}).encode()
    headers = {"content-type": "application/json"}
    return Request(method, target, encoded, headers, repeated, read_seconds)


def stream_request(method: str, path: str, body: Mapping[str, Any] | None = None) -> Request:
    """A request whose answer is a stream of events."""
    return request(method, path, body, read_seconds=SILENCE_SECONDS)


def segment(text: str) -> str:
    """A part of a path. Dots alone would be a directory for whoever normalizes the URL, httpx among them."""
    if not text.strip("."):
        raise ValueError(f"{text!r} cannot be an id")
    return quote(text, safe="")


def proxied(port: int, path: str) -> str:
    """The path of a request to a server in the sandbox. "." and ".." are resolved here, below the server's own root: httpx
    would resolve them in the whole path, and a stranger's `/../../api/execute` would reach the sandbox itself."""
    only, question, query = path.replace("#", "%23").partition("?")
    kept: list[str] = []
    parts = only.split("/")[1:]
    for number, part in enumerate(parts, 1):
        plain = re.sub("%2e", ".", part, flags=re.I)
        if plain not in (".", ".."):
            kept.append(part)
            continue
        del kept[len(kept) - (plain == ".."):]
        if number == len(parts):
            kept.append("")
    return f"/proxy/{port}/" + "/".join(kept) + question + query


def not_atoll(place: Place, body: bytes) -> SandboxError:
    """Something else answered where a stream of events was expected."""
    context = {"body": body[:200].decode("utf-8", "replace")}
    hint = "Check url=… and ATOLL_URL, and any proxy between here and there."
    message = f"The server at {place.where} answered something that is no stream of events"
    return SandboxError(message, code="INVALID_JSON_RESPONSE", context=context, suggestion=hint)


def json_of(body: bytes) -> dict[str, Any]:
    """The JSON object of an answer."""
    try:
        value = json.loads(body)
        if isinstance(value, dict):
            return value
    except ValueError:
        pass
    context = {"body": body[:200].decode("utf-8", "replace")}
    hint = "Check that the URL is that of an Atoll."
    raise SandboxError(
        "Atoll answered something that is no JSON object", code="INVALID_JSON_RESPONSE", context=context, suggestion=hint
    )


# ---- Failures


def delay(attempt: int) -> float:
    """Seconds before try number `attempt` (from 0): doubling, a little different each time."""
    doubled = 0.025 * float(1 << min(attempt, 10))
    return min(doubled, PAUSE_SECONDS) * random.uniform(0.75, 1.25)


def retry_after(headers: Mapping[str, str], attempt: int) -> float:
    try:
        asked = float(headers.get("retry-after") or 0)
    except ValueError:
        asked = 0.0
    return min(asked, RETRY_AFTER_SECONDS) if asked > 0 else delay(attempt)


def not_sent(error: BaseException) -> bool:
    """Whether the request has not left: nothing was done."""
    return isinstance(error, (httpx.ConnectError, httpx.ConnectTimeout, httpx.PoolTimeout, httpx.UnsupportedProtocol))


def _causes(error: BaseException | None) -> Iterator[BaseException]:
    while error is not None:
        yield error
        for inner in getattr(error, "exceptions", ()):  # a group: one for each address
            yield from _causes(inner)
        error = error.__cause__ or error.__context__


def no_server(error: BaseException) -> bool:
    """Whether the address is known to have no server: trying again for a moment is no use."""
    final = (errno.ECONNREFUSED, errno.ENOENT, errno.EACCES, errno.ENOTSOCK, errno.ENOTDIR)
    return any(
        isinstance(cause, (socket.gaierror, ssl.SSLError, httpx.UnsupportedProtocol))
        or getattr(cause, "errno", None) in final
        for cause in _causes(error)
    )


def _words(error: BaseException) -> str:
    system = next((cause for cause in _causes(error) if isinstance(cause, OSError) and cause.strerror), None)
    if isinstance(error, httpx.ConnectTimeout):
        return f"no connection within {CONNECT_SECONDS:g} s"
    return str(system.strerror if isinstance(system, OSError) else error) or type(error).__name__


def failure(error: BaseException, place: Place, read_seconds: float | None = None) -> SandboxError:
    """An error of the connection in the words and classes of the API."""
    words = _words(error)
    if not_sent(error):
        hint = "Start it with `atoll up`, or name another one with url=… and token=…, or with ATOLL_URL and ATOLL_TOKEN."
        if any(isinstance(cause, ssl.SSLError) for cause in _causes(error)):
            hint = "Set SSL_CERT_FILE to the certificate of the authority that has signed the daemon's."
        return ContainerUnavailableError(
            f"Atoll at {place.where} cannot be reached: {words}", http_status=503, suggestion=hint,
            context={"reason": "container_unreachable", "retryable": True, "originalMessage": words},
        )
    hint = "Look at what the sandbox has, then decide whether to repeat the call."
    if isinstance(error, httpx.TimeoutException):
        lost = words == SILENT
        message = f"Atoll at {place.where} {SILENT if lost else f'sent nothing for {read_seconds or 0:g} s'}"
        kind = "timeout"
    else:
        message, kind = f"The connection to Atoll at {place.where} broke ({words})", "peer_closed"
    return RPCTransportError(
        f"{message}: whether the request was carried out is not known", http_status=503, suggestion=hint,
        context={"kind": kind, "originalMessage": words, "errorName": type(error).__name__},
    )


def silent(error: RPCTransportError, place: Place) -> ContainerUnavailableError:
    """A server that accepts connections and does not answer even a greeting: nothing was done."""
    hint = "Check url=… and ATOLL_URL, and whether the daemon is well: `atoll doctor`."
    return ContainerUnavailableError(
        f"The server at {place.where} does not answer like Atoll: {error.original_message}", http_status=503, suggestion=hint,
        context={"reason": "container_unreachable", "retryable": True, "originalMessage": error.original_message},
    )


def ended_early(place: Place, operation: str) -> RPCTransportError:
    """A stream of events that ended without its last event."""
    message = f"{operation}: the stream from Atoll at {place.where} ended before its last event, so its outcome is not known"
    context = {"kind": "peer_closed", "originalMessage": "end of stream", "errorName": "EOF"}
    hint = "Look at what the sandbox has, then decide whether to repeat the call."
    return RPCTransportError(message, http_status=503, context=context, suggestion=hint)
