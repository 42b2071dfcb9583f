// Runs rows of tests/compat/workers through atoll-sandbox.
//
//   --list           their names, as JSON
//   [NAME...]        runs them against ATOLL_URL with ATOLL_TOKEN; one line of JSON a row
import process from 'node:process';
import { names, run } from './rows.mjs';
import { table } from './table.mjs';

const wanted = process.argv.slice(2);
if (wanted[0] === '--list') console.log(JSON.stringify(names));
else await table(wanted.length ? wanted : names, run);
