/*
 * session_impl.h - inside of session.h: session.c has the table, task.c the commands and their order.
 */
#pragma once

#include <sys/types.h>

#include "agent/limits.h"
#include "agent/shell/session.h"
#include "agent/shell/shell.h"

struct session {
	char *id;
	struct env env;
	char *cwd; /* its first directory; NULL: the box's work directory */
	uint64_t timeout_ms;
	struct shell *shell; /* NULL until needed */
	struct {
		struct list node;    /* among those that want one or have one */
		struct shell *shell; /* started, has no command yet (ahead.h) */
		dev_t dev;
		ino_t ino; /* of the directory that it began in */
	} ahead;
	unsigned kept;	   /* without bash: the number of its files of state (run.h), 0 before the first command */
	bool had_process;  /* a process that needed a shell was started before the session had one */
	int last_status;   /* $? */
	uint64_t oom_seen; /* oom_kills() when the last command was over */
	bool died;	   /* the shell ended between two commands: the next command is told */
	struct cmd_result death; /* how */
	struct list queue;	 /* tasks that wait: at most SESSION_QUEUE_MAX */
	size_t waiting;
	struct task *current;
	bool deleted;
	struct loop_task next_task, free_task;
};

/* session.c: the file of the session's state in an image without bash. */
enum { SESSION_STATE_PATH = 64 };
void session_state_path(const struct session *s, char ret[SESSION_STATE_PATH]);
/* session.c: its shell has ended and a client was told. The session is gone; commands that wait run in a new one. */
void session_start_over(struct session *s);
/* task.c: the session is being deleted. */
void session_fail_all(struct session *s);
