/*
 * ending.h - ends a tree of processes for certain: a signal now, SIGKILL after a grace.
 *
 * The tree is remembered when the first signal goes out. The signal may end the leader at once, and then only this
 * memory ties a child to it that ignores the signal or has a session of its own. The ending looks at /proc every
 * ENDING_POLL until no process of the tree is left. Processes that the tree starts meanwhile belong to it: they do not
 * get the first signal, because they may be its clean-up, but SIGKILL as all others.
 *
 * Ownership: an ending frees itself after on_gone. Thread: the loop's.
 */
#pragma once

#include "agent/proc/proctree.h"
#include "base/loop.h"

struct ending;

struct ending_spec {
	pid_t leader;	      /* 0: only `tree` */
	struct proclist tree; /* further processes; taken */
	int sig;
	uint64_t grace_ms;
	void (*on_gone)(void *arg); /* from the loop, once no process is left; may be NULL */
	void *arg;
};

struct ending *ending_begin(struct loop *l, const struct ending_spec *spec);
/* The ending goes on; on_gone does not come any more. */
void ending_forget(struct ending *e);
