import { assert, rejects, run, sh } from './util.mjs';

export default {
  async 'git.checkout, git.checkoutBranch, git.getCurrentBranch, git.listBranches'(t) {
    const { sandbox } = t.box();
    const made = await sh(sandbox, `set -e; git init -q -b main /srv/r.git; cd /srv/r.git; git config user.email a@b; git config user.name n
      echo 1 > f; git add f; git commit -qm one; git branch other`);
    assert.equal(made.exitCode, 0, made.stderr);
    const done = await sandbox.git.checkout('file:///srv/r.git', { targetDir: '/workspace/r', depth: 1 });
    assert.deepEqual([done.success, done.branch, done.targetDir], [true, 'main', '/workspace/r']);
    const all = await sandbox.git.checkout('file:///srv/r.git', { targetDir: '/workspace/s' });
    assert.equal(all.branch, 'main');
    await sandbox.git.checkoutBranch('/workspace/s', 'other');
    assert.equal(await sandbox.git.getCurrentBranch('/workspace/s'), 'other');
    assert.ok((await sandbox.git.listBranches('/workspace/s')).includes('main'));
    assert.equal((await run(sandbox, 'cat', '/workspace/s/f')).stdout, '1\n');
    await rejects(sandbox.git.checkout('file:///srv/none.git', { targetDir: '/workspace/x' }), /Git|repository/i);
    await rejects(sandbox.git.checkoutBranch('/workspace/s', 'nowhere'), /branch|Git/i);
  },
};
