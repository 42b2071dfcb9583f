/* Ports and git. Each class has the members of its context as properties. */
import { SandboxError } from './base.js';
import type { ValidationError } from './other-errors.js';

export interface PortAlreadyExposedContext {
  port: number;
  portName?: string;
}
/** The port is exposed already. */
export class PortAlreadyExposedError extends SandboxError<PortAlreadyExposedContext> {
  override name = 'PortAlreadyExposedError';
  get port(): number {
    return this.context.port;
  }
  get portName(): string | undefined {
    return this.context.portName;
  }
}

export interface PortNotExposedContext {
  port: number;
  portName?: string;
}
/** The port is not exposed. */
export class PortNotExposedError extends SandboxError<PortNotExposedContext> {
  override name = 'PortNotExposedError';
  get port(): number {
    return this.context.port;
  }
}

export interface InvalidPortContext {
  port: number;
  reason: string;
}
/** Not a port that can be exposed. */
export class InvalidPortError extends SandboxError<InvalidPortContext> {
  override name = 'InvalidPortError';
  get port(): number {
    return this.context.port;
  }
  get reason(): string {
    return this.context.reason;
  }
}

export interface ServiceNotRespondingContext {
  port: number;
  portName?: string;
}
/** Nothing answers on the port. */
export class ServiceNotRespondingError extends SandboxError<ServiceNotRespondingContext> {
  override name = 'ServiceNotRespondingError';
  get port(): number {
    return this.context.port;
  }
  get portName(): string | undefined {
    return this.context.portName;
  }
}

export interface PortInUseContext {
  port: number;
  portName?: string;
}
/** Something else uses the port. */
export class PortInUseError extends SandboxError<PortInUseContext> {
  override name = 'PortInUseError';
  get port(): number {
    return this.context.port;
  }
}

export interface PortContext {
  port: number;
  portName?: string;
  stderr?: string;
}
/** A port could not be exposed or hidden. */
export class PortError extends SandboxError<PortContext> {
  override name = 'PortError';
  get port(): number {
    return this.context.port;
  }
  get portName(): string | undefined {
    return this.context.portName;
  }
  get stderr(): string | undefined {
    return this.context.stderr;
  }
}

export interface CustomDomainRequiredContext {
  originalError?: string;
}
/** The host name has no wildcard subdomains, which preview URLs need. */
export class CustomDomainRequiredError extends SandboxError<CustomDomainRequiredContext> {
  override name = 'CustomDomainRequiredError';
}

export interface GitRepositoryNotFoundContext {
  repository: string;
  branch?: string;
  targetDir?: string;
  stderr?: string;
  exitCode?: number;
}
/** There is no such repository. */
export class GitRepositoryNotFoundError extends SandboxError<GitRepositoryNotFoundContext> {
  override name = 'GitRepositoryNotFoundError';
  get repository(): string {
    return this.context.repository;
  }
}

export interface GitAuthenticationContext {
  repository: string;
  branch?: string;
  targetDir?: string;
  stderr?: string;
  exitCode?: number;
}
/** The repository wants other credentials. */
export class GitAuthenticationError extends SandboxError<GitAuthenticationContext> {
  override name = 'GitAuthenticationError';
  get repository(): string {
    return this.context.repository;
  }
}

export interface GitBranchNotFoundContext {
  branch: string;
  repository?: string;
  targetDir?: string;
  stderr?: string;
  exitCode?: number;
}
/** The repository has no such branch. */
export class GitBranchNotFoundError extends SandboxError<GitBranchNotFoundContext> {
  override name = 'GitBranchNotFoundError';
  get branch(): string {
    return this.context.branch;
  }
  get repository(): string | undefined {
    return this.context.repository;
  }
}

export interface GitNetworkContext {
  repository: string;
  branch?: string;
  targetDir?: string;
  stderr?: string;
  exitCode?: number;
}
/** The repository cannot be reached. */
export class GitNetworkError extends SandboxError<GitNetworkContext> {
  override name = 'GitNetworkError';
  get repository(): string {
    return this.context.repository;
  }
  get branch(): string | undefined {
    return this.context.branch;
  }
  get targetDir(): string | undefined {
    return this.context.targetDir;
  }
}

export interface GitCloneContext {
  repository: string;
  branch?: string;
  targetDir?: string;
  stderr?: string;
  exitCode?: number;
}
/** The clone failed. */
export class GitCloneError extends SandboxError<GitCloneContext> {
  override name = 'GitCloneError';
  get repository(): string {
    return this.context.repository;
  }
  get targetDir(): string | undefined {
    return this.context.targetDir;
  }
  get stderr(): string | undefined {
    return this.context.stderr;
  }
  get exitCode(): number | undefined {
    return this.context.exitCode;
  }
}

export interface GitCheckoutContext {
  branch: string;
  repository?: string;
  targetDir?: string;
  stderr?: string;
  exitCode?: number;
}
/** The checkout failed. */
export class GitCheckoutError extends SandboxError<GitCheckoutContext> {
  override name = 'GitCheckoutError';
  get branch(): string {
    return this.context.branch;
  }
  get repository(): string | undefined {
    return this.context.repository;
  }
  get stderr(): string | undefined {
    return this.context.stderr;
  }
}

export interface InvalidGitUrlContext {
  validationErrors: ValidationError[];
}
/** Not the URL of a repository. */
export class InvalidGitUrlError extends SandboxError<InvalidGitUrlContext> {
  override name = 'InvalidGitUrlError';
  get validationErrors(): ValidationError[] {
    return this.context.validationErrors;
  }
}

export interface GitContext {
  repository?: string;
  branch?: string;
  targetDir?: string;
  stderr?: string;
  exitCode?: number;
}
/** git failed. */
export class GitError extends SandboxError<GitContext> {
  override name = 'GitError';
  get repository(): string | undefined {
    return this.context.repository;
  }
  get branch(): string | undefined {
    return this.context.branch;
  }
  get targetDir(): string | undefined {
    return this.context.targetDir;
  }
  get stderr(): string | undefined {
    return this.context.stderr;
  }
  get exitCode(): number | undefined {
    return this.context.exitCode;
  }
}
