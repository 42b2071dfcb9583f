// A real S3 server (s3rver) with TLS. It knows one key id, and checks no signature of version 4: node s3tls.mjs ADDRESS PORT DIRECTORY CERT KEY. The key pair
// is in the variables KEY_ID and KEY_SECRET. Prints "up" when it listens.
import { readFileSync } from 'node:fs';
import S3rver from 's3rver';
import Account from 's3rver/lib/models/account.js';

const [address, port, directory, cert, key] = process.argv.slice(2);
Account.DUMMY_ACCOUNT.revokeAccessKey('S3RVER');
Account.DUMMY_ACCOUNT.createKeyPair(process.env.KEY_ID, process.env.KEY_SECRET);
const server = new S3rver({
  address,
  port: Number(port),
  directory,
  silent: true,
  vhostBuckets: false,
  cert: readFileSync(cert),
  key: readFileSync(key),
  configureBuckets: [{ name: 'data', configs: [] }],
});
await server.run();
console.log('up');
