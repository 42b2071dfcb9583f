// Every row of the table: a public method of the preview and what proves it, by area.
import code from './code.mjs';
import files from './files.mjs';
import git from './git.mjs';
import lifecycle from './lifecycle.mjs';
import ports from './ports.mjs';
import processes from './processes.mjs';
import s3 from './s3.mjs';
import storage from './storage.mjs';
import terminals from './terminals.mjs';

const areas = {
  Processes: processes,
  Terminals: terminals,
  Files: files,
  Git: git,
  'Code interpreter': code,
  'Ports and previews': ports,
  Lifecycle: lifecycle,
  'Backups and buckets': storage,
  'Backups and buckets on S3': s3,
};

/** name → {area, run} */
export const rows = new Map(
  Object.entries(areas).flatMap(([area, all]) => Object.entries(all).map(([name, run]) => [name, { area, run }])),
);
