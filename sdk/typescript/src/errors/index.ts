export { type ErrorResponse, SandboxError } from './base.js';
export { AtollErrorCode, ErrorCode, Operation, type OperationType } from './codes.js';
export * from './file-errors.js';
export { createErrorFromResponse } from './from-response.js';
export * from './other-errors.js';
export * from './plain-errors.js';
export * from './platform.js';
export * from './port-errors.js';
export * from './process-errors.js';
