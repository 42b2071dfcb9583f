/*
 * proctree.h - everything that a command has started, found through /proc.
 *
 * A command runs in a session of its own (setsid), so what it starts carries its session id, however often it is
 * orphaned; what has left with setsid is still found as long as it is a descendant. The tree of a leader is the union
 * of both. A process that did both (a daemon that detached in the classic way) has left on purpose and is not found.
 */
#pragma once

#include <sys/types.h>

#include "base/base.h"

struct proc {
	pid_t pid, ppid, pgrp, sid;
	uint64_t start; /* ticks since boot: pid and start together name a process for ever */
	char state;
	bool member; /* scratch of proctree */
};

struct proclist {
	struct proc *v;
	size_t n, cap;
};
void proclist_free(struct proclist *l);
#define auto_procs __attribute__((cleanup(proclist_free)))

/* All processes that /proc shows, zombies included. Returns 0 or -errno. */
int proclist_read(struct proclist *ret);
/* Reads one; false when it is gone. */
bool proc_read(pid_t pid, struct proc *ret);

/* Keeps only the tree of `leader` (with the leader itself when it is still there), without zombies. */
void proclist_keep_tree(struct proclist *l, pid_t leader);
/* The same for what a session's shell runs: its process group and its descendants, without itself. What it has put into
 * the background for good (its own process group, no descendant) is not among it. */
void proclist_keep_below(struct proclist *l, pid_t shell);
/* Everything in the session that `shell` leads and all its descendants, without itself. */
void proclist_keep_session(struct proclist *l, pid_t shell);
/* Keeps only what is not in `old` (same pid and start). */
void proclist_drop(struct proclist *l, const struct proclist *old);
/* The same, and also without what those in `old` have started since: their descendants, and members of their process
 * groups other than the leader's own. */
void proclist_spare(struct proclist *l, const struct proclist *old, pid_t leader);

/* Sends `sig` to the tree of `leader`, once to each, and looks again until no new member turns up: a tree that forks
 * meanwhile does not get away. Returns how many processes got the signal. */
int proctree_kill(pid_t leader, int sig);
/* One look of the same, for who has to do it for many leaders at once: in `all`, a fresh list, finds the tree of
 * `leader` and of everything in `known`, adds it to `known`, and sends `sig` to those that are not in `done`, adding
 * them. `known` holds together what the signal takes apart: a child that has left with setsid is orphaned when its
 * parent dies of it. Returns how many were signalled: 0 means that another look is not needed. */
int proctree_signal(const struct proclist *all, pid_t leader, int sig, struct proclist *known, struct proclist *done);
/* Is anything left of such a tree? */
bool proctree_is_gone(const struct proclist *all, pid_t leader, const struct proclist *known);
/* Again to those that had been there for less than `age_ms` at most when looked at: a shell's child that has not
 * executed its program yet can lose a signal (it still has the shell's handler). */
int proctree_kill_young(pid_t leader, int sig, uint64_t age_ms);
/* The same for proclist_keep_below, without what is in `spare` (may be NULL): the jobs that were there before. */
int proctree_kill_below(pid_t shell, int sig, const struct proclist *spare);
/* The same for proclist_keep_session. */
int proctree_kill_session(pid_t shell, int sig, const struct proclist *spare);
