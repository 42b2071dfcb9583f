// What the rows about S3 of the class (workers/) share.
import { assert } from './rowtools.mjs';

export const keys = (t) => ({ accessKeyId: t.env.R2_ACCESS_KEY_ID, secretAccessKey: t.env.R2_SECRET_ACCESS_KEY });
export const wrong = { accessKeyId: 'NOBODY', secretAccessKey: 'wrong' };

/** `exec(sandbox, command)` runs a line of shell to its end. */
export function s3Tools(exec) {
  const sh = async (sandbox, command) => {
    const { exitCode, stdout, stderr } = await exec(sandbox, command);
    assert.equal(exitCode, 0, `${command}: ${stdout}${stderr}`);
    return stdout;
  };
  return {
    sh,
    /** The box trusts the server's certificate, as an image for such a server would. */
    async trusting(t, namespace) {
      const { id, sandbox } = t.box(undefined, namespace);
      await sandbox.writeFile('/tmp/ca.pem', t.env.S3_CA);
      await sh(sandbox, 'cat /tmp/ca.pem >>/etc/ssl/certs/ca-certificates.crt');
      return { id, sandbox };
    },
    /** Files with random bytes, some megabytes in all. */
    files: (sandbox, megabytes) =>
      sh(sandbox, `mkdir -p '/workspace/a b/src'; cd '/workspace/a b'; head -c ${megabytes}M /dev/urandom >big; echo one >'src/it is'; ln -s big link; chmod 640 big`),
    sum: (sandbox, dir) => sh(sandbox, `cd '${dir}' && find . -type f -print0 | sort -z | xargs -0 sha256sum; readlink link; stat -c %a big`),
    /** In how many lines the secret key stands, of all that a program in the box can read. */
    keysIn(t, sandbox) {
      const [a, ...rest] = t.env.R2_SECRET_ACCESS_KEY;
      return sh(sandbox, `(cat /proc/*/environ /proc/*/cmdline /tmp/.passwd* /tmp/.s3fs*) 2>/dev/null | grep -ac '[${a}]${rest.join('')}' || true`);
    },
  };
}
