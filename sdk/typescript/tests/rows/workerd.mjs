// The same rows inside real workerd. Takes what main.mjs takes.
import { readFile } from 'node:fs/promises';
import { createRequire } from 'node:module';
import { table } from './table.mjs';

// miniflare is a package of tests/compat, whose rows these are.
const require = createRequire(new URL('../../../../tests/compat/package.json', import.meta.url));
const { Log, LogLevel, Miniflare } = require('miniflare');

const { ATOLL_URL = '', ATOLL_TOKEN = '' } = process.env;
const miniflare = new Miniflare({
  modules: true,
  script: await readFile(new URL('../../node_modules/.rows/worker.mjs', import.meta.url), 'utf8'),
  compatibilityDate: '2026-04-20',
  compatibilityFlags: ['nodejs_compat'],
  bindings: { ATOLL_URL, ATOLL_TOKEN },
  log: new Log(LogLevel.NONE),
  handleRuntimeStdio(stdout, stderr) {
    stdout.resume();
    stderr.pipe(process.stderr);
  },
});
try {
  await table(process.argv.slice(2), async (name) => {
    const response = await miniflare.dispatchFetch(`http://rows.test/${encodeURIComponent(name)}`);
    return response.json();
  });
} finally {
  await miniflare.dispose();
}
