import githttp from '../../../lib/githttp.py';
import { assert, rejects } from './util.mjs';

/** A repository behind HTTP inside the box itself: boxes reach nothing else. */
async function repository(t) {
  const { sandbox } = t.box();
  await sandbox.writeFile('/srv/githttp.py', githttp);
  const made = await sandbox.exec(
    `set -e; git init -q -b main /srv/work; cd /srv/work; git config user.email a@b; git config user.name n
     echo one > f; git add .; git commit -qm one; git checkout -qb side; echo two > f; git commit -qam two; git checkout -q main
     git clone -q --bare /srv/work /srv/git/repo.git; cd /workspace; set +e`);
  assert.equal(made.exitCode, 0, made.stderr);
  const server = await sandbox.startProcess('python3 /srv/githttp.py 9000 /srv/git');
  await server.waitForPort(9000, { mode: 'tcp' });
  return sandbox;
}

export default {
  async gitCheckout(t) {
    const sandbox = await repository(t);
    const r = await sandbox.gitCheckout('http://127.0.0.1:9000/open/repo.git');
    assert.deepEqual([r.success, r.branch, r.targetDir], [true, 'main', '/workspace/repo']);
    assert.equal((await sandbox.readFile('/workspace/repo/f')).content, 'one\n');
    const side = { branch: 'side', targetDir: '/workspace/elsewhere', depth: 1 };
    assert.equal((await sandbox.gitCheckout('http://127.0.0.1:9000/open/repo.git', side)).branch, 'side');
    assert.equal((await sandbox.exec('git -C elsewhere log --oneline | wc -l')).stdout.trim(), '1');
    await rejects(sandbox.gitCheckout('http://127.0.0.1:9000/open/none.git'), /GitRepositoryNotFoundError|GitError/);
    await rejects(sandbox.gitCheckout('not a url'), /InvalidGitUrlError|ValidationFailedError|GitError/);
  },

  async 'session.gitCheckout'(t) {
    const sandbox = await repository(t);
    const session = await sandbox.createSession({ id: 's' });
    const r = await session.gitCheckout('http://127.0.0.1:9000/open/repo.git', { targetDir: '/workspace/mine' });
    assert.equal(r.targetDir, '/workspace/mine');
    await rejects(
      session.gitCheckout('http://127.0.0.1:9000/private/repo.git', { targetDir: '/workspace/p' }), /GitCloneError|GitError/);
  },
};
