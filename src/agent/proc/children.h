/*
 * children.h - reaping. As PID 1 or subreaper the agent inherits every orphan of the box and reaps all of them.
 *
 * A process whose end matters has a `struct child`. Its on_exit is called once, from the loop, with the status from
 * waitpid. Orphans without a watcher are reaped and counted. A process that will become a child of the agent (a
 * session's shell has put it into the background) can be watched before it is orphaned: its pid is enough.
 *
 * Ownership: the watcher owns its struct child; on_exit may free it.
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
/* The watched child with this pid, or NULL. */
struct child *child_find(pid_t pid);
/* Calls fn for each watched child. fn may forget the child it is given. */
void child_each(void (*fn)(struct child *c, void *arg), void *arg);

/* Reaps all children that have ended; for SIGCHLD. Returns false when no child is left at all. */
bool children_reap(void);
/* Calls fn before an unwatched process is reaped. A message that announces its pid may still be unread; fn reads such
 * messages, and may watch the process. */
void children_on_stranger(void (*fn)(void));

/* Calls fn when an unwatched process has been reaped. */
void children_on_stranger_end(void (*fn)(pid_t pid, int wstatus));

struct children_stats {
	uint64_t reaped, strangers;
};
struct children_stats children_stats(void);
