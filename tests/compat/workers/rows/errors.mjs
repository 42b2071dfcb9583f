// Errors of a Durable Object reach its caller as "ClassName: message".
import { assert, rejects } from './util.mjs';

export default {
  async 'FileNotFoundError, FileSystemError'(t) {
    const { sandbox } = t.box();
    await rejects(sandbox.readFile('/nope'), /FileNotFoundError: .*\/nope/);
    await rejects(sandbox.listFiles('/etc/passwd'), /FileSystemError/);
  },

  async 'SessionTerminatedError'(t) {
    const { sandbox } = t.box();
    await rejects(sandbox.exec('exit 5'), /SessionTerminatedError/);
    assert.equal((await sandbox.exec('echo next')).stdout, 'next\n');
  },

  async 'CommandError, ProcessNotFoundError, PermissionDeniedError'(t) {
    const { sandbox } = t.box();
    await rejects(sandbox.exec('true', { env: { 'A-B': '1' } }), /CommandError: .*Invalid environment variable name: A-B/);
    await rejects(sandbox.getProcessLogs('none'), /ProcessNotFoundError/);
    await rejects(sandbox.watch('/etc'), /PermissionDeniedError|403/);
  },

  async 'SandboxSecurityError'(t) {
    assert.throws(() => t.again('-bad'), /must not start or end with a hyphen|hyphen/i);
    assert.throws(() => t.again('www'), /reserved/i);
    assert.throws(() => t.again('x'.repeat(64)), /63/);
  },
};
