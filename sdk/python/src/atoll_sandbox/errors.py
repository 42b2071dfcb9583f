"""Errors. Every class and code is that of the TypeScript SDK; classes that mean the same as a builtin one derive from it too.

Each error has `code`, `message`, `context`, `http_status`, `operation`, `timestamp` and a `suggestion`: what to do next.
`str(error)` is the message with the suggestion. Members of the context are attributes of a class: `FileNotFoundError.path`.
"""

from __future__ import annotations

import builtins
import json
from typing import Any, ClassVar, Generic, Mapping, TypeVar, overload

T = TypeVar("T")

#: How much of an answer that is no JSON is quoted in a message.
QUOTED_CHARACTERS = 300


class SandboxError(Exception):
    """The root of all errors that come from a sandbox, from Atoll, or from the way to them."""

    codes: ClassVar[tuple[str, ...]] = ()

    def __init__(
        self,
        message: str,
        *,
        code: str | None = None,
        context: Mapping[str, Any] | None = None,
        http_status: int = 0,
        suggestion: str | None = None,
        operation: str | None = None,
        timestamp: str | None = None,
    ) -> None:
        super().__init__(message)
        self.message = message
        self.code = code or (self.codes[0] if self.codes else "UNKNOWN_ERROR")
        self.context: dict[str, Any] = dict(context or {})
        self.http_status = http_status
        self.suggestion = suggestion
        self.operation = operation
        self.timestamp = timestamp

    def __str__(self) -> str:
        if not self.suggestion:
            return self.message
        end = "" if self.message.endswith((".", "!", "?")) else "."
        return f"{self.message}{end} {self.suggestion}"

    def __reduce__(self) -> tuple[Any, ...]:
        return _remade, (type(self), self.message, self.to_dict())

    def to_dict(self) -> dict[str, Any]:
        """The error as JSON may hold it."""
        return {
            "code": self.code,
            "context": self.context,
            "http_status": self.http_status,
            "suggestion": self.suggestion,
            "operation": self.operation,
            "timestamp": self.timestamp,
        }

    @property
    def retryable(self) -> bool:
        """Whether nothing was done and the same call may succeed a moment later."""
        return self.code in ("CONTAINER_UNAVAILABLE", "INTERPRETER_NOT_READY")


def _remade(kind: type[SandboxError], message: str, fields: dict[str, Any]) -> SandboxError:
    return kind(message, **fields)


class _Member(Generic[T]):
    """An attribute that is a member of the error's context, or None."""

    def __init__(self, key: str) -> None:
        self.key = key

    @overload
    def __get__(self, error: None, owner: type) -> _Member[T]: ...

    @overload
    def __get__(self, error: SandboxError, owner: type) -> T | None: ...

    def __get__(self, error: SandboxError | None, owner: type) -> _Member[T] | T | None:
        return self if error is None else error.context.get(self.key)


class SandboxSecurityError(SandboxError, ValueError):
    """An id, port, token or language that cannot be used."""

    codes = (
        "INVALID_SANDBOX_ID", "INVALID_SANDBOX_ID_LENGTH", "INVALID_SANDBOX_ID_HYPHENS", "INVALID_SANDBOX_ID_CHARACTERS",
        "RESERVED_SANDBOX_ID", "INVALID_LANGUAGE",
    )


class ValidationFailedError(SandboxError, ValueError):
    """A field of the request is wrong."""

    codes = ("VALIDATION_FAILED",)
    validation_errors = _Member["list[dict[str, Any]]"]("validationErrors")


# ---- Files and commands


class FileNotFoundError(SandboxError, builtins.FileNotFoundError):
    """There is no such file."""

    codes = ("FILE_NOT_FOUND",)
    path = _Member[str]("path")


class FileExistsError(SandboxError, builtins.FileExistsError):
    """The file exists already."""

    codes = ("FILE_EXISTS",)
    path = _Member[str]("path")


class FileTooLargeError(SandboxError):
    """The file is larger than one answer may be."""

    codes = ("FILE_TOO_LARGE",)
    path = _Member[str]("path")


class PermissionDeniedError(SandboxError, PermissionError):
    """The path may not be used so."""

    codes = ("PERMISSION_DENIED",)
    path = _Member[str]("path")


class FileSystemError(SandboxError):
    """The file system refused: a directory where a file should be, no space, too many links …"""

    codes = (
        "FILESYSTEM_ERROR", "NOT_REGULAR_FILE", "IS_DIRECTORY", "NOT_DIRECTORY", "NAME_TOO_LONG", "READ_ONLY", "RESOURCE_BUSY",
        "NO_SPACE", "TOO_MANY_FILES", "TOO_MANY_LINKS",
    )
    path = _Member[str]("path")
    stderr = _Member[str]("stderr")
    exit_code = _Member[int]("exitCode")


class CommandNotFoundError(SandboxError):
    """There is no such command, or the process has ended."""

    codes = ("COMMAND_NOT_FOUND",)
    command = _Member[str]("command")


class CommandError(SandboxError):
    """A command could not be run to its end. `stdout` and `stderr` hold what it had printed."""

    codes = ("COMMAND_EXECUTION_ERROR", "INVALID_COMMAND", "COMMAND_PERMISSION_DENIED", "STREAM_START_ERROR")
    command = _Member[str]("command")
    exit_code = _Member[int]("exitCode")
    stdout = _Member[str]("stdout")
    stderr = _Member[str]("stderr")
    #: `timeout` when it took too long.
    outcome = _Member[str]("outcome")


# ---- Processes and sessions


class ProcessNotFoundError(SandboxError, ProcessLookupError):
    """No process has this id."""

    codes = ("PROCESS_NOT_FOUND",)
    process_id = _Member[str]("processId")


class ProcessError(SandboxError):
    """A process could not be started or ended."""

    codes = ("PROCESS_ERROR", "PROCESS_PERMISSION_DENIED")
    process_id = _Member[str]("processId")
    pid = _Member[int]("pid")
    exit_code = _Member[int]("exitCode")
    stderr = _Member[str]("stderr")


class ProcessReadyTimeoutError(SandboxError, TimeoutError):
    """The condition that a call waited for did not come in time."""

    codes = ("PROCESS_READY_TIMEOUT",)
    process_id = _Member[str]("processId")
    command = _Member[str]("command")
    condition = _Member[str]("condition")
    timeout = _Member[float]("timeout")


class ProcessExitedBeforeReadyError(SandboxError):
    """The process ended before the condition that a call waited for came."""

    codes = ("PROCESS_EXITED_BEFORE_READY",)
    process_id = _Member[str]("processId")
    command = _Member[str]("command")
    condition = _Member[str]("condition")
    exit_code = _Member[int]("exitCode")


class SessionAlreadyExistsError(SandboxError):
    """A session of this id exists already."""

    codes = ("SESSION_ALREADY_EXISTS",)
    session_id = _Member[str]("sessionId")


class SessionDestroyedError(SandboxError):
    """The session was deleted while the command waited or ran."""

    codes = ("SESSION_DESTROYED",)
    session_id = _Member[str]("sessionId")


class SessionTerminatedError(SandboxError):
    """The shell of the session ended (`exit`, `exec`, a crash). The next call starts a fresh one."""

    codes = ("SESSION_TERMINATED",)
    session_id = _Member[str]("sessionId")
    exit_code = _Member[int]("exitCode")


# ---- Ports


class InvalidPortError(SandboxError, ValueError):
    """The number is not that of a port that can be exposed."""

    codes = ("INVALID_PORT", "INVALID_PORT_NUMBER")
    port = _Member[int]("port")
    reason = _Member[str]("reason")


class PortAlreadyExposedError(SandboxError):
    """The token serves another port of the sandbox already."""

    codes = ("PORT_ALREADY_EXPOSED",)
    port = _Member[int]("port")
    port_name = _Member[str]("portName")


class PortNotExposedError(SandboxError):
    """The port is not exposed."""

    codes = ("PORT_NOT_EXPOSED",)
    port = _Member[int]("port")


class PortInUseError(SandboxError):
    """Another program uses the port."""

    codes = ("PORT_IN_USE",)
    port = _Member[int]("port")


class ServiceNotRespondingError(SandboxError):
    """Nothing answers on the port."""

    codes = ("SERVICE_NOT_RESPONDING",)
    port = _Member[int]("port")
    port_name = _Member[str]("portName")


class PortError(SandboxError):
    """A port could not be exposed or hidden."""

    codes = ("PORT_OPERATION_ERROR",)
    port = _Member[int]("port")
    port_name = _Member[str]("portName")
    stderr = _Member[str]("stderr")


class CustomDomainRequiredError(SandboxError):
    """The host name has no wildcard subdomains, which preview URLs need."""

    codes = ("CUSTOM_DOMAIN_REQUIRED",)


# ---- git


class GitError(SandboxError):
    """git failed."""

    codes = ("GIT_OPERATION_FAILED",)
    repository = _Member[str]("repository")
    branch = _Member[str]("branch")
    target_dir = _Member[str]("targetDir")
    stderr = _Member[str]("stderr")
    exit_code = _Member[int]("exitCode")


class GitRepositoryNotFoundError(GitError):
    """There is no such repository."""

    codes = ("GIT_REPOSITORY_NOT_FOUND",)


class GitAuthenticationError(GitError):
    """The repository wants other credentials."""

    codes = ("GIT_AUTH_FAILED",)


class GitBranchNotFoundError(GitError):
    """The repository has no such branch."""

    codes = ("GIT_BRANCH_NOT_FOUND",)


class GitNetworkError(GitError):
    """The repository cannot be reached."""

    codes = ("GIT_NETWORK_ERROR",)


class GitCloneError(GitError):
    """The clone failed."""

    codes = ("GIT_CLONE_FAILED",)


class GitCheckoutError(GitError):
    """The checkout failed."""

    codes = ("GIT_CHECKOUT_FAILED",)


class InvalidGitUrlError(GitError, ValueError):
    """The text is not the URL of a repository."""

    codes = ("INVALID_GIT_URL",)
    validation_errors = _Member["list[dict[str, Any]]"]("validationErrors")


# ---- Backups and buckets


class BackupNotFoundError(SandboxError):
    """There is no such backup."""

    codes = ("BACKUP_NOT_FOUND",)
    backup_id = _Member[str]("backupId")


class BackupExpiredError(SandboxError):
    """The backup is too old."""

    codes = ("BACKUP_EXPIRED",)
    backup_id = _Member[str]("backupId")
    expired_at = _Member[str]("expiredAt")


class InvalidBackupConfigError(SandboxError, ValueError):
    """A backup cannot be made so."""

    codes = ("INVALID_BACKUP_CONFIG",)
    reason = _Member[str]("reason")


class BackupCreateError(SandboxError):
    """The backup could not be made."""

    codes = ("BACKUP_CREATE_FAILED",)
    dir = _Member[str]("dir")
    backup_id = _Member[str]("backupId")
    stderr = _Member[str]("stderr")
    exit_code = _Member[int]("exitCode")


class BackupRestoreError(SandboxError):
    """The backup could not be restored."""

    codes = ("BACKUP_RESTORE_FAILED",)
    dir = _Member[str]("dir")
    backup_id = _Member[str]("backupId")
    stderr = _Member[str]("stderr")
    exit_code = _Member[int]("exitCode")


class BucketMountError(SandboxError):
    """The bucket could not be mounted; the message has the words of s3fs."""

    codes: ClassVar[tuple[str, ...]] = ("BUCKET_MOUNT_ERROR", "BUCKET_MOUNT_FAILED")


class S3FSMountError(BucketMountError):
    """s3fs could not mount the bucket."""

    codes = ("S3FS_MOUNT_ERROR",)


class BucketUnmountError(BucketMountError):
    """The bucket could not be unmounted."""

    codes = ("BUCKET_UNMOUNT_ERROR",)


class MissingCredentialsError(BucketMountError):
    """There are no keys for the bucket."""

    codes = ("MISSING_CREDENTIALS",)


class InvalidMountConfigError(BucketMountError, ValueError):
    """A bucket cannot be mounted so."""

    codes = ("INVALID_MOUNT_CONFIG",)


# ---- Interpreters, and the way to the sandbox


class InterpreterNotReadyError(SandboxError):
    """The interpreter is still starting: try again."""

    codes = ("INTERPRETER_NOT_READY",)
    retry_after = _Member[float]("retryAfter")
    progress = _Member[float]("progress")


class ContextNotFoundError(SandboxError):
    """No code context has this id."""

    codes = ("CONTEXT_NOT_FOUND",)
    context_id = _Member[str]("contextId")


class CodeExecutionError(SandboxError):
    """The code could not be run to its end."""

    codes = ("CODE_EXECUTION_ERROR",)
    context_id = _Member[str]("contextId")
    ename = _Member[str]("ename")
    evalue = _Member[str]("evalue")
    traceback = _Member["list[str]"]("traceback")


class ContainerUnavailableError(SandboxError, ConnectionError):
    """Atoll or the sandbox cannot be reached and nothing was done: asking again is right."""

    codes = ("CONTAINER_UNAVAILABLE",)
    reason = _Member[str]("reason")


class RPCTransportError(SandboxError, ConnectionError):
    """The connection broke, or no answer came, after the request was sent: whether it was carried out is not known."""

    codes = ("RPC_TRANSPORT_ERROR",)
    kind = _Member[str]("kind")
    original_message = _Member[str]("originalMessage")


class OperationInterruptedError(SandboxError):
    """The sandbox went away while it worked on the request."""

    codes = ("OPERATION_INTERRUPTED",)
    reason = _Member[str]("reason")


def _subclasses(kind: type[SandboxError]) -> list[type[SandboxError]]:
    return [found for direct in kind.__subclasses__() for found in (direct, *_subclasses(direct))]


_CLASSES = {code: kind for kind in _subclasses(SandboxError) for code in kind.codes}

#: Suggestions for codes whose answer has none, or none that helps in Python.
_HINTS = {
    "UNAUTHORIZED": "Give the content of the daemon's token file as token=… or ATOLL_TOKEN, or use its unix socket.",
    "SANDBOX_NOT_FOUND": "Check the id, or leave out create=False: then the first call makes the sandbox.",
    "NOT_FOUND": "Check the name.",
    "APPROVAL_NOT_FOUND": "approvals() lists what waits now.",
    "BACKUP_NOT_FOUND": "backups() lists the backups.",
    "SNAPSHOT_NOT_FOUND": "snapshots() lists the snapshots.",
    "PORT_NOT_EXPOSED": "get_exposed_ports() lists those that are.",
    "FILE_TOO_LARGE": "Read it with read_file_stream().",
    "CONTAINER_LOST": "Whether the request was carried out is not known. The next call starts the sandbox on its files.",
}


_LATE = "Give a longer timeout=…, or start it with start_process() and wait for its end."


def _hint(code: str, context: Mapping[str, Any], told: str | None) -> str | None:
    late = code == "COMMAND_EXECUTION_ERROR" and context.get("outcome") == "timeout"
    return _LATE if late else _HINTS.get(code) or told


def error_from_response(wire: Mapping[str, Any], status: int = 0) -> SandboxError:
    """The error of the class that belongs to the code of an error answer."""
    code = str(wire.get("code") or "UNKNOWN_ERROR")
    # /api/execute/code answers {error, code, details}.
    given = wire.get("context") or wire.get("details")
    context = given if isinstance(given, dict) else {}
    message = wire.get("message") or wire.get("error") or f"HTTP {status}"
    return _CLASSES.get(code, SandboxError)(
        str(message),
        code=code,
        context=context,
        http_status=int(wire.get("httpStatus") or status),
        suggestion=_hint(code, context, wire.get("suggestion")),
        operation=wire.get("operation"),
        timestamp=wire.get("timestamp"),
    )


def error_of_answer(status: int, reason: str, body: bytes) -> SandboxError:
    """The error that an answer other than 2xx means, whatever its body holds."""
    text = body.decode("utf-8", "replace").strip()
    try:
        wire = json.loads(text)
    except ValueError:
        wire = None
    if isinstance(wire, dict) and isinstance(wire.get("code"), str):
        return error_from_response(wire, status)
    said = text if text and len(text) < QUOTED_CHARACTERS and not text.startswith("<") else reason
    hint = "Check that the URL is that of an Atoll: no other server is expected there."
    return SandboxError(f"HTTP {status}: {said}", code="UNKNOWN_ERROR", http_status=status, suggestion=hint)
