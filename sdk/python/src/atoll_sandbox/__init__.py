"""Sandboxes of Atoll: named, isolated Linux boxes on your own machine.

    from atoll_sandbox import Sandbox

    with Sandbox("user-123") as sandbox:
        print(sandbox.exec("echo hello").stdout)

`AsyncSandbox` is the same with `await`.
"""

from ._async.files import AsyncFileStream
from ._async.processes import AsyncProcess
from ._async.sandbox import AsyncSandbox
from ._async.secrets import AsyncSecrets
from ._async.session import AsyncSession
from ._async.streams import AsyncEventStream
from ._async.terminal import AsyncTerminal
from ._async.websocket import AsyncWebSocket
from ._sync.files import FileStream
from ._sync.processes import Process
from ._sync.sandbox import Sandbox
from ._sync.secrets import Secrets
from ._sync.session import Session
from ._sync.streams import EventStream
from ._sync.terminal import Terminal
from ._sync.websocket import WebSocket
from ._version import __version__
from .errors import (
    CodeExecutionError,
    CommandError,
    CommandNotFoundError,
    ContainerUnavailableError,
    ContextNotFoundError,
    CustomDomainRequiredError,
    FileExistsError,
    FileNotFoundError,
    FileSystemError,
    FileTooLargeError,
    GitAuthenticationError,
    GitBranchNotFoundError,
    GitCheckoutError,
    GitCloneError,
    GitError,
    GitNetworkError,
    GitRepositoryNotFoundError,
    InterpreterNotReadyError,
    InvalidGitUrlError,
    InvalidPortError,
    OperationInterruptedError,
    PermissionDeniedError,
    PortAlreadyExposedError,
    PortError,
    PortInUseError,
    PortNotExposedError,
    ProcessError,
    ProcessExitedBeforeReadyError,
    ProcessNotFoundError,
    ProcessReadyTimeoutError,
    RPCTransportError,
    SandboxError,
    SandboxSecurityError,
    ServiceNotRespondingError,
    SessionAlreadyExistsError,
    SessionDestroyedError,
    SessionTerminatedError,
    ValidationFailedError,
    error_from_response,
)
from .models import (
    Changes,
    Disk,
    ExecEvent,
    ExecResult,
    ExposedPort,
    FileInfo,
    GitCheckoutResult,
    Limits,
    LogEvent,
    LogMatch,
    ProcessLogs,
    SandboxInfo,
    Secret,
    Snapshot,
    SnapshotDiff,
    Usage,
    WatchEvent,
)
from .results import CodeContext, CodeEvent, Execution, ExecutionError, Logs, OutputMessage, Result

__all__ = [
    "AsyncEventStream", "AsyncFileStream", "AsyncProcess", "AsyncSandbox", "AsyncSecrets", "AsyncSession",
    "AsyncTerminal", "AsyncWebSocket", "Changes", "CodeContext", "CodeEvent", "CodeExecutionError", "CommandError",
    "CommandNotFoundError", "ContainerUnavailableError", "ContextNotFoundError", "CustomDomainRequiredError", "Disk",
    "EventStream", "ExecEvent", "ExecResult", "Execution", "ExecutionError", "ExposedPort", "FileExistsError",
    "FileInfo", "FileNotFoundError", "FileStream", "FileSystemError", "FileTooLargeError", "GitAuthenticationError",
    "GitBranchNotFoundError", "GitCheckoutError", "GitCheckoutResult", "GitCloneError", "GitError", "GitNetworkError",
    "GitRepositoryNotFoundError", "InterpreterNotReadyError", "InvalidGitUrlError", "InvalidPortError", "Limits",
    "LogEvent", "LogMatch", "Logs", "OperationInterruptedError", "OutputMessage", "PermissionDeniedError",
    "PortAlreadyExposedError", "PortError", "PortInUseError", "PortNotExposedError", "Process", "ProcessError",
    "ProcessExitedBeforeReadyError", "ProcessLogs", "ProcessNotFoundError", "ProcessReadyTimeoutError",
    "RPCTransportError", "Result", "Sandbox", "SandboxError", "SandboxInfo", "SandboxSecurityError", "Secret",
    "Secrets", "ServiceNotRespondingError", "Session", "SessionAlreadyExistsError", "SessionDestroyedError",
    "SessionTerminatedError", "Snapshot", "SnapshotDiff", "Terminal", "Usage", "ValidationFailedError", "WatchEvent",
    "WebSocket", "__version__", "error_from_response",
]
