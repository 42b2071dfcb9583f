// Every row of the table: a public method of @cloudflare/sandbox and what proves it, by area.
import code from './code.mjs';
import commands from './commands.mjs';
import errors from './errors.mjs';
import files from './files.mjs';
import git from './git.mjs';
import lifecycle from './lifecycle.mjs';
import outbound from './outbound.mjs';
import ports from './ports.mjs';
import processes from './processes.mjs';
import s3 from './s3.mjs';
import sessions from './sessions.mjs';
import storage from './storage.mjs';
import terminals from './terminals.mjs';

export const areas = {
  Commands: commands,
  Sessions: sessions,
  Processes: processes,
  Files: files,
  Git: git,
  'Code interpreter': code,
  'Ports and previews': ports,
  'Outgoing requests': outbound,
  Terminals: terminals,
  Lifecycle: lifecycle,
  'Backups and buckets': { ...storage, ...s3 },
  Errors: errors,
};

/** Public methods that Atoll does not serve yet, and why. They are listed in the table, and nothing claims that they work. */
export const later = {};

/** name → {area, run} */
export const rows = new Map(
  Object.entries(areas)
    .flatMap(([area, all]) => Object.entries(all).map(([name, run]) => [name, { area, run }]))
    .filter(([name]) => !(name in later)),
);
