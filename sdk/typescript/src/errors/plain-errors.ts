/* Errors that upstream derives from Error alone, and the one for what is still to come. */
import { errorResponse, SandboxError } from './base.js';
import { AtollErrorCode, ErrorCode } from './codes.js';

/** An id, port or token that cannot be used. */
export class SandboxSecurityError extends Error {
  override name = 'SandboxSecurityError';
  readonly code: string | undefined;
  constructor(message: string, code?: string) {
    super(message);
    this.code = code;
  }
}

/** A bucket could not be mounted. */
export class BucketMountError extends Error {
  override name = 'BucketMountError';
  readonly code: ErrorCode;
  constructor(message: string, code: ErrorCode = ErrorCode.BUCKET_MOUNT_ERROR) {
    super(message);
    this.code = code;
  }
}
export class S3FSMountError extends BucketMountError {
  override name = 'S3FSMountError';
  constructor(message: string) {
    super(message, ErrorCode.S3FS_MOUNT_ERROR);
  }
}
export class BucketUnmountError extends BucketMountError {
  override name = 'BucketUnmountError';
  constructor(message: string) {
    super(message, ErrorCode.BUCKET_UNMOUNT_ERROR);
  }
}
export class MissingCredentialsError extends BucketMountError {
  override name = 'MissingCredentialsError';
  constructor(message: string) {
    super(message, ErrorCode.MISSING_CREDENTIALS);
  }
}
export class InvalidMountConfigError extends BucketMountError {
  override name = 'InvalidMountConfigError';
  constructor(message: string) {
    super(message, ErrorCode.INVALID_MOUNT_CONFIG);
  }
}

/** The method belongs to the API but Atoll does not serve it yet. Nothing was done. */
export class NotImplementedError extends SandboxError<{ feature: string }> {
  override name = 'NotImplementedError';
  constructor(feature: string, instead?: string) {
    const message = `${feature} is not implemented by Atoll yet: nothing was done.`;
    super(errorResponse(AtollErrorCode.NOT_IMPLEMENTED, message, { feature }, 501, instead));
  }
  get feature(): string {
    return this.context.feature;
  }
}

/** The caller's AbortSignal ended the wait. */
export class AbortError extends Error {
  override name = 'AbortError';
  constructor(cause?: unknown) {
    super('Operation was aborted', { cause });
  }
}
