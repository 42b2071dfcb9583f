import { errorResponse } from '../errors/base.js';
import { GitCheckoutError } from '../errors/port-errors.js';
import type { ExecResult, GitCheckoutOptions, GitCheckoutResult } from '../types/commands.js';
import type { Box } from './box.js';
import { noSession } from './commands.js';

const quoted = (text: string) => `'${text.replaceAll("'", "'\\''")}'`;

/** Clones of repositories in one sandbox. */
export class Git {
  readonly #box: Box;

  constructor(box: Box) {
    this.#box = box;
  }

  async checkout(repoUrl: string, sessionId: string, options: GitCheckoutOptions = {}): Promise<GitCheckoutResult> {
    const { branch, ref, targetDir, depth, cloneTimeoutMs } = options;
    if (branch !== undefined && ref !== undefined)
      throw new TypeError('gitCheckout takes a branch or a ref, not both: a ref may be a branch, a tag or a commit');
    const clone = { repoUrl, targetDir, timeoutMs: cloneTimeoutMs, sessionId };
    try {
      return await this.#clone({ ...clone, branch: branch ?? ref, depth });
    } catch (error) {
      // No branch and no tag: a commit has no name that a clone can ask for.
      const unknown = (error as { code?: string }).code === 'GIT_BRANCH_NOT_FOUND';
      if (!unknown || ref === undefined || !/^[0-9a-f]{7,64}$/i.test(ref)) throw error;
    }
    const done = await this.#clone(clone);
    await this.#detach(done, ref!, sessionId);
    return { ...done, branch: ref! };
  }

  #clone(body: object): Promise<GitCheckoutResult> {
    return this.#box.json('POST', '/api/git/checkout', body);
  }

  /** Goes to a commit of a clone. A clone without that commit is removed, as git itself removes one that failed. */
  async #detach({ targetDir, repoUrl }: GitCheckoutResult, commit: string, sessionId: string): Promise<void> {
    const at = quoted(targetDir);
    const command = `git -C ${at} checkout --quiet --detach ${commit} -- || { rm -rf -- ${at}; false; }`;
    // The session's shell may end at the first error (`set -e`): use it only where a path is relative to its directory.
    const where = targetDir.startsWith('/') ? noSession : sessionId;
    const result = await this.#box.json<ExecResult>('POST', '/api/execute', {
      command,
      sessionId: where,
      origin: 'internal',
    });
    if (result.exitCode === 0) return;
    const message = `There is no branch, tag or commit '${commit}' in ${repoUrl}`;
    const context = {
      branch: commit,
      repository: repoUrl,
      targetDir,
      stderr: result.stderr,
      exitCode: result.exitCode,
    };
    throw new GitCheckoutError(errorResponse('GIT_CHECKOUT_FAILED', message, context, 404));
  }
}
