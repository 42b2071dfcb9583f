/*
 * children.h - reaping. As PID 1 (or subreaper) the agent inherits every orphan of the box; all are waited for.
 *
 * A process whose end matters has a `struct child` here; its on_exit is called once, from the loop, with the status
 * that waitpid gave. Orphans that nobody watches are reaped and counted. A child that was not started by the agent but
 * will become its child (a process that a session's shell put into the background) can be watched before it is
 * orphaned: the pid is what counts.
 *
 * Ownership: the watcher's. on_exit may free it.
 */
#pragma once

#include <sys/types.h>

#include "base/list.h"

struct child {
	struct list node;
	pid_t pid; /* 0 while not watched */
	void (*on_exit)(struct child *c, int wstatus);
};

void child_watch(struct child *c, pid_t pid, void (*on_exit)(struct child *c, int wstatus));
/* Stops watching; the process will still be reaped. Safe when not watched. */
void child_forget(struct child *c);
/* Whoever this pid belongs to, or NULL. */
struct child *child_find(pid_t pid);
/* Calls fn for each watched child. fn may forget the child it is given. */
void child_each(void (*fn)(struct child *c, void *arg), void *arg);

/* Reaps all that have ended: on SIGCHLD. Returns false when there is no child left at all. */
bool children_reap(void);
/* What to do before an unwatched pid is reaped: somebody may know it by a message that has not been read yet. Until
 * then it is a child like others, and can be watched. */
void children_on_stranger(void (*fn)(void));

struct children_stats {
	uint64_t reaped, strangers;
};
struct children_stats children_stats(void);
