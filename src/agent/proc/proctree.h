/*
 * proctree.h - finds all processes that a command has started, through /proc.
 *
 * A command runs in a session of its own (setsid). Its processes carry its session id, however often they are orphaned.
 * A process that has left the session with setsid is still found while it is a descendant, and with it its own session.
 * The tree of a leader is the union of all. A process that is orphaned in a session whose leader is gone (a daemon that
 * detached in the classic way) has left on purpose and is not found.
 */
#pragma once

#include <sys/types.h>

#include "base/base.h"

struct proc {
	pid_t pid, ppid, pgrp, sid;
	uint64_t start; /* ticks since boot: pid and start together name a process for ever */
	char state;
	bool takes;  /* proctree_signal: had a way to survive the first signal that it got */
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
/* A look at /proc that is younger than `since` (clock_ms). All trees that are being ended share it: a look for each of
 * many would take seconds. A tree that was gone at that time stays gone. */
const struct proclist *proclist_look_after(uint64_t since);
/* Reads one process; false when it is gone. */
bool proc_read(pid_t pid, struct proc *ret);
/* Whether the process catches, ignores or blocks the signal: otherwise it cannot end with a code because of it. */
bool proc_takes_signal(pid_t pid, int sig);

/* Keeps only the tree of `leader` (with the leader itself when it is still there), without zombies. */
void proclist_keep_tree(struct proclist *l, pid_t leader);
/* Keeps only the processes that a session's shell runs: its process group and its descendants, without the shell. A
 * process that was put into the background for good (own process group, no descendant) is not kept. */
void proclist_keep_below(struct proclist *l, pid_t shell);
/* Keeps only the session that `shell` leads and all descendants of the shell, without the shell. */
void proclist_keep_session(struct proclist *l, pid_t shell);
/* Keeps only the processes that `shell` has started at `start` (proc_ticks) or later, and their descendants. */
void proclist_keep_since(struct proclist *l, pid_t shell, uint64_t start);
/* The time now, in the unit of proc.start. */
uint64_t proc_ticks(void);
/* Drops the processes that are in `old` (same pid and start). */
void proclist_drop(struct proclist *l, const struct proclist *old);
/* Drops the processes that are in `old`, and those that they have started since: their descendants, and the members of
 * their process groups other than the leader's group. */
void proclist_spare(struct proclist *l, const struct proclist *old, pid_t leader);

/* Sends `sig` once to each process of the tree of `leader`, and looks again until no new process turns up: a tree that
 * forks meanwhile does not escape. Returns how many processes got the signal. */
int proctree_kill(pid_t leader, int sig);
/* One round of proctree_kill, for callers that signal many leaders at once. `all` is a fresh list. Finds the tree of
 * `leader` (0: none) and of every process in `known`, and adds it to `known`, which forgets those that are gone. Sends
 * `sig` to the processes of the tree that are not in `done`, and adds them to `done`. `known` is needed because a
 * signal takes a tree apart: a child that has left with setsid is orphaned when its parent dies. Returns how many
 * processes got the signal; 0: no other round is needed. */
int proctree_signal(const struct proclist *all, pid_t leader, int sig, struct proclist *known, struct proclist *done);
/* Whether no process of such a tree is left. */
bool proctree_is_gone(const struct proclist *all, pid_t leader, const struct proclist *known);
/* Sends `sig` again to the processes of the tree that are younger than `age_ms`: a shell's child that has not executed
 * its program yet can lose a signal, because it still has the shell's handler. */
int proctree_kill_young(pid_t leader, int sig, uint64_t age_ms);
/* proctree_kill for the processes of proclist_keep_below, except those in `spare` (may be NULL): older jobs. */
int proctree_kill_below(pid_t shell, int sig, const struct proclist *spare);
/* proctree_kill for the processes of proclist_keep_session, except those in `spare`. */
int proctree_kill_session(pid_t shell, int sig, const struct proclist *spare);
