// The S3 server of the rows about buckets. It runs inside a box, so it is bundled into one file.
import S3rver from 's3rver';

new S3rver({ address: '127.0.0.1', port: 4568, silent: true, directory: '/srv/buckets', configureBuckets: [{ name: 'data', configs: [] }] }).run();
