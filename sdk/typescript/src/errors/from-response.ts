import { type ErrorResponse, errorResponse, SandboxError } from './base.js';
import { type AtollErrorCode, ErrorCode as codes, type ErrorCode } from './codes.js';
import * as file from './file-errors.js';
import * as other from './other-errors.js';
import { SandboxSecurityError } from './plain-errors.js';
import * as port from './port-errors.js';
import * as process from './process-errors.js';

type ErrorClass = new (response: ErrorResponse<any>) => SandboxError<any>;

const classes: Partial<Record<ErrorCode | AtollErrorCode, ErrorClass>> = {
  FILE_NOT_FOUND: file.FileNotFoundError,
  FILE_EXISTS: file.FileExistsError,
  FILE_TOO_LARGE: file.FileTooLargeError,
  PERMISSION_DENIED: file.PermissionDeniedError,
  IS_DIRECTORY: file.FileSystemError,
  NOT_DIRECTORY: file.FileSystemError,
  NAME_TOO_LONG: file.FileSystemError,
  READ_ONLY: file.FileSystemError,
  RESOURCE_BUSY: file.FileSystemError,
  NO_SPACE: file.FileSystemError,
  TOO_MANY_FILES: file.FileSystemError,
  TOO_MANY_LINKS: file.FileSystemError,
  FILESYSTEM_ERROR: file.FileSystemError,
  NOT_REGULAR_FILE: file.FileSystemError,
  COMMAND_NOT_FOUND: file.CommandNotFoundError,
  INVALID_COMMAND: file.CommandError,
  COMMAND_PERMISSION_DENIED: file.CommandError,
  COMMAND_EXECUTION_ERROR: file.CommandError,
  STREAM_START_ERROR: file.CommandError,
  PROCESS_NOT_FOUND: process.ProcessNotFoundError,
  PROCESS_PERMISSION_DENIED: process.ProcessError,
  PROCESS_ERROR: process.ProcessError,
  PROCESS_READY_TIMEOUT: process.ProcessReadyTimeoutError,
  PROCESS_EXITED_BEFORE_READY: process.ProcessExitedBeforeReadyError,
  SESSION_ALREADY_EXISTS: process.SessionAlreadyExistsError,
  SESSION_DESTROYED: process.SessionDestroyedError,
  SESSION_TERMINATED: process.SessionTerminatedError,
  INVALID_PORT: port.InvalidPortError,
  INVALID_PORT_NUMBER: port.InvalidPortError,
  PORT_ALREADY_EXPOSED: port.PortAlreadyExposedError,
  PORT_NOT_EXPOSED: port.PortNotExposedError,
  PORT_IN_USE: port.PortInUseError,
  SERVICE_NOT_RESPONDING: port.ServiceNotRespondingError,
  PORT_OPERATION_ERROR: port.PortError,
  CUSTOM_DOMAIN_REQUIRED: port.CustomDomainRequiredError,
  GIT_REPOSITORY_NOT_FOUND: port.GitRepositoryNotFoundError,
  GIT_AUTH_FAILED: port.GitAuthenticationError,
  GIT_BRANCH_NOT_FOUND: port.GitBranchNotFoundError,
  GIT_NETWORK_ERROR: port.GitNetworkError,
  GIT_CLONE_FAILED: port.GitCloneError,
  GIT_CHECKOUT_FAILED: port.GitCheckoutError,
  INVALID_GIT_URL: port.InvalidGitUrlError,
  GIT_OPERATION_FAILED: port.GitError,
  INTERPRETER_NOT_READY: other.InterpreterNotReadyError,
  CONTEXT_NOT_FOUND: other.ContextNotFoundError,
  CODE_EXECUTION_ERROR: other.CodeExecutionError,
  VALIDATION_FAILED: other.ValidationFailedError,
  BACKUP_NOT_FOUND: other.BackupNotFoundError,
  BACKUP_EXPIRED: other.BackupExpiredError,
  INVALID_BACKUP_CONFIG: other.InvalidBackupConfigError,
  BACKUP_CREATE_FAILED: other.BackupCreateError,
  BACKUP_RESTORE_FAILED: other.BackupRestoreError,
  CONTAINER_UNAVAILABLE: other.ContainerUnavailableError,
  RPC_TRANSPORT_ERROR: other.RPCTransportError,
  OPERATION_INTERRUPTED: other.OperationInterruptedError,
};
const idCodes = /^(INVALID_SANDBOX_ID_.*|RESERVED_SANDBOX_ID)$/;

/** The error of the class that belongs to the code of an error response. */
export function createErrorFromResponse(response: ErrorResponse<any>): SandboxError<any> | SandboxSecurityError {
  if (idCodes.test(response.code)) return new SandboxSecurityError(response.message, response.code);
  return new (classes[response.code] ?? SandboxError)(response);
}

/** Some other server, or a proxy in front of Atoll, has answered. */
export function notAtoll(where: string, status: number, text: string): SandboxError {
  const message = `${where} answered HTTP ${status}, and not as Atoll does`;
  const hint =
    'Another program listens there, or a proxy answers in its place: check {url} or ATOLL_URL. `atoll env --export` prints the right one.';
  return new SandboxError(errorResponse(codes.UNKNOWN_ERROR, message, { body: text.slice(0, 200) }, status, hint));
}

const tokenHint =
  'Give the token as { url, token } or as ATOLL_TOKEN: it is in /var/lib/atoll/token on the machine of Atoll, and `atoll env --export` prints it there.';

/** Reads the answer of a request that failed, whatever it holds. */
export async function errorOf(response: Response, where: string): Promise<Error> {
  const text = await response.text().catch(() => '');
  let body: any;
  try {
    body = JSON.parse(text);
  } catch {}
  if (typeof body?.code !== 'string') return notAtoll(where, response.status, text);
  const fallback = errorResponse(body.code, `HTTP ${response.status}`, {}, response.status);
  // Of /api/execute/code an error has another shape: {error, code, details}.
  const named = {
    message: body.message ?? body.error ?? fallback.message,
    context: body.context ?? body.details ?? {},
  };
  const hint = response.status === 401 ? { suggestion: tokenHint } : {};
  return createErrorFromResponse({ ...fallback, ...body, ...named, ...hint });
}
