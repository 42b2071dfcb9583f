/*
 * backup.h - restoring a backup, for `atoll restore`.
 */
#pragma once

#include "cli/cli.h"

enum { BACKUP_RESTORE_MS = 24 * 3600 * 1000 }; /* the daemon answers when the files are there */

/* The exit code. */
int backup_restore(struct cli *c, const char *id, const char *backup);
