"""Sandboxes of Atoll: named, isolated Linux boxes on your own machine.

    from atoll_sandbox import Sandbox

    with Sandbox("user-123") as sandbox:
        print(sandbox.exec("echo hello").stdout)

`AsyncSandbox` is the same with `await`.
"""

from ._async.atoll import AsyncAtoll
from ._async.files import AsyncFileStream
from ._async.processes import AsyncProcess
from ._async.sandbox import AsyncSandbox
from ._async.secrets import AsyncSecrets
from ._async.session import AsyncSession
from ._async.streams import AsyncEventStream
from ._async.terminal import AsyncTerminal
from ._async.websocket import AsyncWebSocket
from ._sync.atoll import Atoll
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
    BackupCreateError,
    BackupExpiredError,
    BackupNotFoundError,
    BackupRestoreError,
    BucketMountError,
    BucketUnmountError,
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
    InvalidBackupConfigError,
    InvalidGitUrlError,
    InvalidMountConfigError,
    InvalidPortError,
    MissingCredentialsError,
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
    S3FSMountError,
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
    FileInfo,
    FileStat,
    GitCheckoutResult,
    Limits,
    LogEvent,
    LogMatch,
    ProcessLogs,
    SandboxInfo,
    Usage,
    WatchEvent,
)
from .models_daemon import DaemonEvent, Image, ImageEvent, Ticket, UsageSample
from .models_network import Approval, ExposedPort, NetworkRecord, Secret, Tunnel
from .models_storage import BackupUsage, BoxBackup, DirectoryBackup, Mount, Snapshot, SnapshotDiff, Volume
from .results import CodeContext, CodeEvent, Execution, ExecutionError, Logs, OutputMessage, Result

__all__ = [
    "Approval", "AsyncAtoll", "AsyncEventStream", "AsyncFileStream", "AsyncProcess", "AsyncSandbox", "AsyncSecrets",
    "AsyncSession", "AsyncTerminal", "AsyncWebSocket", "Atoll", "BackupCreateError", "BackupExpiredError",
    "BackupNotFoundError", "BackupRestoreError", "BackupUsage", "BoxBackup", "BucketMountError", "BucketUnmountError", "Changes",
    "CodeContext", "CodeEvent", "CodeExecutionError", "CommandError", "CommandNotFoundError",
    "ContainerUnavailableError", "ContextNotFoundError", "CustomDomainRequiredError", "DaemonEvent", "DirectoryBackup",
    "Disk", "EventStream", "ExecEvent", "ExecResult", "Execution", "ExecutionError", "ExposedPort", "FileExistsError",
    "FileInfo", "FileNotFoundError", "FileStat", "FileStream", "FileSystemError", "FileTooLargeError",
    "GitAuthenticationError", "GitBranchNotFoundError", "GitCheckoutError", "GitCheckoutResult", "GitCloneError",
    "GitError", "GitNetworkError", "GitRepositoryNotFoundError", "Image", "ImageEvent", "InterpreterNotReadyError",
    "InvalidBackupConfigError", "InvalidGitUrlError", "InvalidMountConfigError", "InvalidPortError", "Limits",
    "LogEvent", "LogMatch", "Logs", "MissingCredentialsError", "Mount", "NetworkRecord", "OperationInterruptedError",
    "OutputMessage", "PermissionDeniedError", "PortAlreadyExposedError", "PortError", "PortInUseError",
    "PortNotExposedError", "Process", "ProcessError", "ProcessExitedBeforeReadyError", "ProcessLogs",
    "ProcessNotFoundError", "ProcessReadyTimeoutError", "RPCTransportError", "Result", "S3FSMountError", "Sandbox",
    "SandboxError", "SandboxInfo", "SandboxSecurityError", "Secret", "Secrets", "ServiceNotRespondingError", "Session",
    "SessionAlreadyExistsError", "SessionDestroyedError", "SessionTerminatedError", "Snapshot", "SnapshotDiff",
    "Terminal", "Ticket", "Tunnel", "Usage", "UsageSample", "ValidationFailedError", "Volume", "WatchEvent",
    "WebSocket", "__version__", "error_from_response",
]
