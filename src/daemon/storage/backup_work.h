/*
 * backup_work.h - one process of atoll-backup (backup/backup.h): start it, hear its lines, learn how it ended.
 *
 * It ends with the daemon. `on_end` comes once, never from inside backup_work_start; afterwards the work is gone.
 */
#pragma once

#include "base/json.h"
#include "daemon/daemon.h"

struct backup_work;

struct backup_task {
	const char *verb;
	const char *const *args;
	size_t args_n;
	int in, stream;	 /* its stdin and its fd 4, or -1; closed here in any case */
	struct str text; /* on its fd 3 */
	void (*on_line)(void *arg, const struct json *line); /* may be NULL */
	void (*on_end)(void *arg, const struct err *e);	     /* e is NULL on success */
	void *arg;
};

/* NULL: it could not be started; on_end will not come. */
struct backup_work *backup_work_start(struct daemon *d, const struct backup_task *t, struct err *e);
/* on_end follows. */
void backup_work_kill(struct backup_work *w);
