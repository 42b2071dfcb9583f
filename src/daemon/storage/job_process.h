/*
 * job_process.h - one process that does one job for the daemon and ends: atoll-backup (backup/backup.h), atoll-images
 * (images/images.h). Starts it, hears its lines, kills it when it is late, learns how it ended.
 *
 * The job gets arguments and descriptors, and answers on its stdout, one JSON object a line. The last line is
 * {"done":true} or {"error":{"code","message","field"}}; "field" is there for a mistake in a field. After
 * {"bytes":N} follow N bytes that are no line. It ends with the daemon.
 *
 * `on_end` comes once, last, never from inside job_process_start; afterwards the process is gone.
 */
#pragma once

#include "base/json.h"
#include "daemon/daemon.h"

struct job_process;

struct job_task {
	const char *program, *verb; /* the program is beside this one */
	const char *const *args;
	size_t args_n;
	int in, also;	  /* its stdin and its fd 4, or -1; closed here in any case */
	struct str text;  /* on its fd 3 */
	const char *with; /* a program beside this one, open on its fd 5; NULL: none */
	bool background;  /* gets little processor time */
	uint64_t max_ms;  /* kills it then: GATEWAY_TIMEOUT; 0: no limit */
	void (*on_line)(void *arg, const struct json *line); /* may be NULL */
	void (*on_bytes)(void *arg, struct str bytes);	     /* may be NULL: then it sends none */
	void (*on_end)(void *arg, const struct err *e);	     /* e is NULL on success */
	void *arg;
};

/* NULL: it could not be started; on_end will not come. */
struct job_process *job_process_start(struct daemon *d, const struct job_task *t, struct err *e);
/* on_end follows. */
void job_process_kill(struct job_process *w);
/* Hears nothing, its end included, until job_process_resume. */
void job_process_pause(struct job_process *w);
void job_process_resume(struct job_process *w);
pid_t job_process_pid(const struct job_process *w);
/* From inside on_end: it ended without its last line. */
bool job_process_was_cut_off(const struct job_process *w);
