// A real S3 server (s3rver) on loopback, for one key id. It checks no signature of version 4: tests/lib/s3verify.py stands before it.
// node s3.mjs DIRECTORY; the key pair is in the variables KEY_ID and KEY_SECRET. Prints its port when it listens.
import S3rver from 's3rver';
import Account from 's3rver/lib/models/account.js';

Account.DUMMY_ACCOUNT.revokeAccessKey('S3RVER');
Account.DUMMY_ACCOUNT.createKeyPair(process.env.KEY_ID, process.env.KEY_SECRET);
const server = new S3rver({
  address: '127.0.0.1',
  port: 0,
  directory: process.argv[2],
  silent: true,
  vhostBuckets: false,
  configureBuckets: [{ name: 'data', configs: [] }],
});
console.log((await server.run()).port);
