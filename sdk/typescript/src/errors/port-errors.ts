/* Ports and git. Each class has the members of its context as properties. */
import { errorWith, SandboxError } from './base.js';
import type { ValidationError } from './other-errors.js';

export interface PortAlreadyExposedContext {
  port: number;
  portName?: string;
}
/** The port is exposed already. */
export class PortAlreadyExposedError extends errorWith<PortAlreadyExposedContext>()('port', 'portName') {
  override name = 'PortAlreadyExposedError';
}

export interface PortNotExposedContext {
  port: number;
  portName?: string;
}
/** The port is not exposed. */
export class PortNotExposedError extends errorWith<PortNotExposedContext>()('port') {
  override name = 'PortNotExposedError';
}

export interface InvalidPortContext {
  port: number;
  reason: string;
}
/** Not a port that can be exposed. */
export class InvalidPortError extends errorWith<InvalidPortContext>()('port', 'reason') {
  override name = 'InvalidPortError';
}

export interface ServiceNotRespondingContext {
  port: number;
  portName?: string;
}
/** Nothing answers on the port. */
export class ServiceNotRespondingError extends errorWith<ServiceNotRespondingContext>()('port', 'portName') {
  override name = 'ServiceNotRespondingError';
}

export interface PortInUseContext {
  port: number;
  portName?: string;
}
/** Something else uses the port. */
export class PortInUseError extends errorWith<PortInUseContext>()('port') {
  override name = 'PortInUseError';
}

export interface PortContext {
  port: number;
  portName?: string;
  stderr?: string;
}
/** A port could not be exposed or hidden. */
export class PortError extends errorWith<PortContext>()('port', 'portName', 'stderr') {
  override name = 'PortError';
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
export class GitRepositoryNotFoundError extends errorWith<GitRepositoryNotFoundContext>()('repository') {
  override name = 'GitRepositoryNotFoundError';
}

export interface GitAuthenticationContext {
  repository: string;
  branch?: string;
  targetDir?: string;
  stderr?: string;
  exitCode?: number;
}
/** The repository wants other credentials. */
export class GitAuthenticationError extends errorWith<GitAuthenticationContext>()('repository') {
  override name = 'GitAuthenticationError';
}

export interface GitBranchNotFoundContext {
  branch: string;
  repository?: string;
  targetDir?: string;
  stderr?: string;
  exitCode?: number;
}
/** The repository has no such branch. */
export class GitBranchNotFoundError extends errorWith<GitBranchNotFoundContext>()('branch', 'repository') {
  override name = 'GitBranchNotFoundError';
}

export interface GitNetworkContext {
  repository: string;
  branch?: string;
  targetDir?: string;
  stderr?: string;
  exitCode?: number;
}
/** The repository cannot be reached. */
export class GitNetworkError extends errorWith<GitNetworkContext>()('repository', 'branch', 'targetDir') {
  override name = 'GitNetworkError';
}

export interface GitCloneContext {
  repository: string;
  branch?: string;
  targetDir?: string;
  stderr?: string;
  exitCode?: number;
}
/** The clone failed. */
export class GitCloneError extends errorWith<GitCloneContext>()('repository', 'targetDir', 'stderr', 'exitCode') {
  override name = 'GitCloneError';
}

export interface GitCheckoutContext {
  branch: string;
  repository?: string;
  targetDir?: string;
  stderr?: string;
  exitCode?: number;
}
/** The checkout failed. */
export class GitCheckoutError extends errorWith<GitCheckoutContext>()('branch', 'repository', 'stderr') {
  override name = 'GitCheckoutError';
}

export interface InvalidGitUrlContext {
  validationErrors: ValidationError[];
}
/** Not the URL of a repository. */
export class InvalidGitUrlError extends errorWith<InvalidGitUrlContext>()('validationErrors') {
  override name = 'InvalidGitUrlError';
}

export interface GitContext {
  repository?: string;
  branch?: string;
  targetDir?: string;
  stderr?: string;
  exitCode?: number;
}
/** git failed. */
export class GitError extends errorWith<GitContext>()('repository', 'branch', 'targetDir', 'stderr', 'exitCode') {
  override name = 'GitError';
}
