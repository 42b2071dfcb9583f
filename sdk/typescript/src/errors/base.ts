import type { ErrorCode, OperationType } from './codes.js';

/** An error as the wire has it. */
export interface ErrorResponse<TContext = Record<string, unknown>> {
  code: ErrorCode;
  /** A sentence for people. */
  message: string;
  operation?: OperationType;
  /** The subject of the error: path, command, port … */
  context: TContext;
  httpStatus: number;
  timestamp: string;
  /** The next step. */
  suggestion?: string;
  documentation?: string;
}

/** The root of all errors that come from a sandbox. */
export class SandboxError<TContext = Record<string, unknown>> extends Error {
  readonly errorResponse: ErrorResponse<TContext>;
  constructor(errorResponse: ErrorResponse<TContext>, options?: { cause?: unknown }) {
    super(errorResponse.message, options);
    this.errorResponse = errorResponse;
    this.name = new.target.name;
  }
  get code(): ErrorCode {
    return this.errorResponse.code;
  }
  get context(): TContext {
    return this.errorResponse.context;
  }
  get httpStatus(): number {
    return this.errorResponse.httpStatus;
  }
  get operation(): OperationType | undefined {
    return this.errorResponse.operation;
  }
  get suggestion(): string | undefined {
    return this.errorResponse.suggestion;
  }
  get timestamp(): string {
    return this.errorResponse.timestamp;
  }
  get documentation(): string | undefined {
    return this.errorResponse.documentation;
  }
  toJSON() {
    return {
      name: this.name,
      message: this.message,
      code: this.code,
      context: this.context,
      httpStatus: this.httpStatus,
      operation: this.operation,
      suggestion: this.suggestion,
      timestamp: this.timestamp,
      documentation: this.documentation,
      stack: this.stack,
    };
  }
}

/** A class of errors with members of their context as properties, all of them there, if only as undefined. */
export type ErrorClass<TContext, TKey extends keyof TContext> = Omit<typeof SandboxError, 'prototype'> &
  (new (
    ...args: ConstructorParameters<typeof SandboxError<TContext>>
  ) => SandboxError<TContext> & { readonly [K in keyof Record<TKey, never>]: TContext[K] });

/** The base of such a class: `errorWith<{ port: number }>()('port')`. Two calls, since types are given or inferred. */
export function errorWith<TContext>() {
  return <TKey extends keyof TContext & string>(...keys: TKey[]): ErrorClass<TContext, TKey> => {
    class ContextError extends SandboxError<TContext> {}
    for (const key of keys)
      Object.defineProperty(ContextError.prototype, key, {
        configurable: true,
        get(this: ContextError) {
          return this.context[key];
        },
      });
    return ContextError as unknown as ErrorClass<TContext, TKey>;
  };
}

/** The wire form of an error that this client makes itself. */
export function errorResponse<TContext>(
  code: string,
  message: string,
  context: TContext,
  httpStatus: number,
  suggestion?: string,
): ErrorResponse<TContext> {
  return { code: code as ErrorCode, message, context, httpStatus, timestamp: new Date().toISOString(), suggestion };
}
