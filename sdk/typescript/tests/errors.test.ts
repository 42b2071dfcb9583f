import * as sdk from 'atoll-sandbox';
import { createErrorFromResponse, type ErrorCode, SandboxError, type SandboxSecurityError } from 'atoll-sandbox';
import { expect, test } from 'vitest';
import { previewRoute } from '../src/preview.js';
import { box, failure } from './support/boxes.js';

const classOf: Partial<Record<ErrorCode, string>> = {
  FILE_NOT_FOUND: 'FileNotFoundError',
  FILE_EXISTS: 'FileExistsError',
  FILE_TOO_LARGE: 'FileTooLargeError',
  PERMISSION_DENIED: 'PermissionDeniedError',
  IS_DIRECTORY: 'FileSystemError',
  COMMAND_NOT_FOUND: 'CommandNotFoundError',
  COMMAND_EXECUTION_ERROR: 'CommandError',
  INVALID_COMMAND: 'CommandError',
  PROCESS_NOT_FOUND: 'ProcessNotFoundError',
  PROCESS_READY_TIMEOUT: 'ProcessReadyTimeoutError',
  SESSION_ALREADY_EXISTS: 'SessionAlreadyExistsError',
  SESSION_DESTROYED: 'SessionDestroyedError',
  SESSION_TERMINATED: 'SessionTerminatedError',
  INVALID_PORT: 'InvalidPortError',
  PORT_ALREADY_EXPOSED: 'PortAlreadyExposedError',
  PORT_NOT_EXPOSED: 'PortNotExposedError',
  SERVICE_NOT_RESPONDING: 'ServiceNotRespondingError',
  GIT_REPOSITORY_NOT_FOUND: 'GitRepositoryNotFoundError',
  GIT_AUTH_FAILED: 'GitAuthenticationError',
  GIT_BRANCH_NOT_FOUND: 'GitBranchNotFoundError',
  GIT_NETWORK_ERROR: 'GitNetworkError',
  INVALID_GIT_URL: 'InvalidGitUrlError',
  GIT_OPERATION_FAILED: 'GitError',
  INTERPRETER_NOT_READY: 'InterpreterNotReadyError',
  CONTEXT_NOT_FOUND: 'ContextNotFoundError',
  CODE_EXECUTION_ERROR: 'CodeExecutionError',
  VALIDATION_FAILED: 'ValidationFailedError',
  BACKUP_NOT_FOUND: 'BackupNotFoundError',
  CONTAINER_UNAVAILABLE: 'ContainerUnavailableError',
  OPERATION_INTERRUPTED: 'OperationInterruptedError',
  UNKNOWN_ERROR: 'SandboxError',
};

const response = (code: ErrorCode) => ({
  code,
  message: 'm',
  context: { path: '/x' },
  httpStatus: 400,
  timestamp: 't',
  suggestion: 's',
});

test.each(Object.entries(classOf))('%s is a %s', (code, name) => {
  const error = createErrorFromResponse(response(code as ErrorCode)) as SandboxError;
  expect(error).toBeInstanceOf((sdk as any)[name]);
  expect(error).toBeInstanceOf(SandboxError);
  expect(error).toMatchObject({ name, code, message: 'm', httpStatus: 400, suggestion: 's' });
  expect(error.toJSON()).toMatchObject({ name, code, context: { path: '/x' }, timestamp: 't' });
});

test('ids that cannot be', () => {
  const refused = (id: string) => {
    try {
      sdk.getSandbox(undefined, id);
    } catch (error) {
      return (error as SandboxSecurityError).code;
    }
  };
  expect(refused('')).toBe('INVALID_SANDBOX_ID_LENGTH');
  expect(refused('x'.repeat(64))).toBe('INVALID_SANDBOX_ID_LENGTH');
  expect(refused('x'.repeat(63))).toBeUndefined();
  expect(refused('a-')).toBe('INVALID_SANDBOX_ID_HYPHENS');
  for (const dots of ['.', '..', '...']) expect(refused(dots)).toBe('INVALID_SANDBOX_ID_CHARACTERS');
  expect(refused('API')).toBe('RESERVED_SANDBOX_ID');
});

test('a port that is no number is told with the right one', async () => {
  const sandbox = box();
  const wrong = '3000' as unknown as number;
  const calls: (() => Promise<unknown>)[] = [
    () => sandbox.exposePort(wrong),
    () => sandbox.unexposePort(wrong),
    () => sandbox.isPortExposed(wrong),
    () => sandbox.tunnels.get(wrong),
    () => sandbox.wsConnect(new Request('http://x/'), wrong),
  ];
  for (const call of calls) {
    const error = await failure(call());
    expect(error).toBeInstanceOf(TypeError);
    expect(error.message).toBe("a port is a number: write 3000, not '3000'");
  }
  expect((await failure(sandbox.exposePort(undefined as any))).message).toMatch(/a port is a number/);
  expect(await failure(sandbox.exposePort(80))).toMatchObject({ code: 'INVALID_PORT_NUMBER' });
  expect(await sandbox.info()).toBeNull();
});

test('a limit that is reached and a full disk say what to do', async () => {
  const sandbox = box({ limits: { disk: 32 << 20 } });
  const ports = async () => {
    for (let port = 2000; port < 2100; port++) await sandbox.exposePort(port);
  };
  const many = await failure(ports());
  expect(many).toMatchObject({ code: 'LIMIT_REACHED', httpStatus: 429 });
  expect(many.suggestion).toMatch(/free what/);
  const much = new Blob(Array.from({ length: 1024 }, () => crypto.getRandomValues(new Uint8Array(65_536))));
  const full = await failure(sandbox.writeFile('/workspace/big', much.stream()));
  expect(full).toMatchObject({ code: 'NO_SPACE' });
  expect(full.suggestion).toMatch(/delete files/);
  expect((await sandbox.exists('/workspace/big')).exists).toBe(false);
});

test('host names of previews', () => {
  const route = (host: string) => previewRoute(new URL(`http://${host}/`));
  expect(route('8080-user-123-tok_1.example.com')).toEqual({ port: 8080, sandboxId: 'user-123', token: 'tok_1' });
  expect(route('8080-a-b.localhost:8700')).toEqual({ port: 8080, sandboxId: 'a', token: 'b' });
  expect(route('3000-a-b.x')).toEqual({ port: 3000, sandboxId: 'a', token: 'b' });
  for (const host of ['example.com', '8080-a.example.com', '80-a-b.x', '99999-a-b.x', '8080-www-b.x', '8080--b.x'])
    expect(route(host), host).toBeNull();
});
