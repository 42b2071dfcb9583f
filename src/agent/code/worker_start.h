/*
 * worker_start.h - how the process behind a worker comes to be, for worker.c, spare.c and zygote_client.c.
 */
#pragma once

#include "agent/code/worker.h"

/* The agent's ends of the descriptors that connect it with a worker's process. */
struct worker_fds {
	int socket, out, err; /* non-blocking */
	int interrupt;	      /* takes the number of the run to interrupt; -1: SIGINT is enough for this runtime */
};
void worker_fds_close(struct worker_fds *f);

/* Whether a worker from the zygote would be the same as a plainly started worker: the language is Python, the box's
 * user is root, the PATH finds the image's interpreter, no variable changes how it starts. */
bool worker_may_join(const struct worker_spec *s);
/* "NAME=value" that an interpreter, its loader or its C library reads once, when it starts. */
bool worker_env_counts(const char *entry);

/* Starts a nursery (nursery.h): python3 with the worker's text. */
struct worker_zygote {
	const char *path;
	const struct env *env;
	int reply, ask; /* its ends */
};
int worker_start_zygote(const struct worker_zygote *z, pid_t *ret, struct err *e);

/* Starts the runtime's program. Returns 0 and the pid of a process that waits for its first frame. */
int worker_start_plain(const struct worker_spec *s, struct worker_fds *ret, pid_t *ret_pid, struct err *e);
