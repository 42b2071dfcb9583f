/**
 * Sandboxes of Atoll: the API of `@cloudflare/sandbox`, on your own machine.
 *
 *     import { getSandbox } from 'atoll-sandbox';
 *     const sandbox = getSandbox(undefined, 'user-123');
 *     const { stdout } = await sandbox.exec('echo hello');
 */
export { Execution } from './api/execution.js';
export { CodeInterpreter } from './api/interpreter.js';
export type { SandboxInfo } from './api/lifecycle.js';
export * from './errors/index.js';
export { collectFile, streamFile } from './file-stream.js';
export { getSandbox, getSecrets } from './get-sandbox.js';
export { isExecResult, isProcess, isProcessStatus } from './guards.js';
export { forwardWebSocket, type OutboundHandler } from './outbound.js';
export { type PreviewRoute, proxyToSandbox } from './preview.js';
export { Sandbox } from './sandbox.js';
export { asyncIterableToSSEStream, parseSSEStream, responseToAsyncIterable } from './sse/streams.js';
export { proxyTerminal, type Terminal } from './terminal.js';
export type * from './types/commands.js';
export type * from './types/files.js';
export type * from './types/interpreter.js';
export type * from './types/network.js';
export type * from './types/processes.js';
export type * from './types/sandbox.js';
export type * from './types/secrets.js';
export type * from './types/snapshots.js';
export type * from './types/storage.js';
