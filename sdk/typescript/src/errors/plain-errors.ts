/* Errors that upstream derives from Error alone. */
import { ErrorCode } from './codes.js';

class CodedError<TCode> extends Error {
  constructor(
    message: string,
    readonly code: TCode,
  ) {
    super(message);
  }
}

/** An id, port or token that cannot be used. */
export class SandboxSecurityError extends CodedError<string | undefined> {
  override name = 'SandboxSecurityError';
  constructor(message: string, code?: string) {
    super(message, code);
  }
}

/** A bucket could not be mounted. */
export class BucketMountError extends CodedError<ErrorCode> {
  override name = 'BucketMountError';
  constructor(message: string, code: ErrorCode = ErrorCode.BUCKET_MOUNT_ERROR) {
    super(message, code);
  }
}
// Declared by hand: the type that is inferred names Node's own types.
const mountError = (
  code: ErrorCode,
): Omit<typeof BucketMountError, 'prototype'> & (new (message: string) => BucketMountError) =>
  class extends BucketMountError {
    constructor(message: string) {
      super(message, code);
    }
  };
export class S3FSMountError extends mountError(ErrorCode.S3FS_MOUNT_ERROR) {
  override name = 'S3FSMountError';
}
export class BucketUnmountError extends mountError(ErrorCode.BUCKET_UNMOUNT_ERROR) {
  override name = 'BucketUnmountError';
}
export class MissingCredentialsError extends mountError(ErrorCode.MISSING_CREDENTIALS) {
  override name = 'MissingCredentialsError';
}
export class InvalidMountConfigError extends mountError(ErrorCode.INVALID_MOUNT_CONFIG) {
  override name = 'InvalidMountConfigError';
}

/** The caller's AbortSignal ended the wait. */
export class AbortError extends Error {
  override name = 'AbortError';
  constructor(cause?: unknown) {
    super('Operation was aborted', { cause });
  }
}
