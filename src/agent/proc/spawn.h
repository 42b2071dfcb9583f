/*
 * spawn.h - starts a program in a session of its own, from the agent's address space, as cheaply as the kernel allows.
 *
 * spawn uses clone(CLONE_VM|CLONE_VFORK): no page table is copied, the parent sleeps until the child has executed the
 * program or given up, and a failure comes back through shared memory instead of a pipe. Between clone and exec the
 * child makes only system calls.
 *
 * A working directory or program that may be in a FUSE mount (fuse/mounts.h) makes the child wait for a program of the
 * box. Such a child is started apart: it has memory of its own, spawn returns at once, and a failure is the child's: a
 * line on its stderr, and exit code 1 (directory), 126 or 127 (program).
 *
 * The child gets
 *  - a new session: its pid is its process group and its session id, by which proctree.h finds its descendants;
 *  - default signal dispositions and an empty signal mask;
 *  - descriptors 0, 1, 2 and those of `extra`, no other: all of the agent's are close-on-exec;
 *  - the soft descriptor limit that the agent was started with;
 *  - the commands' place in the box's cgroups (cage/cgroup.h), and an OOM score above the agent's, so that the kernel
 *    kills a command and never the agent;
 *  - the box's user (user.h).
 */
#pragma once

#include <sys/types.h>

#include "proto/errc.h"

enum { SPAWN_EXTRA_MAX = 4, SPAWN_LEAVES_MAX = 2 };

struct spawn_extra {
	int from, to;
};

struct spawn_spec {
	const char *path; /* the program. A name without '/' is searched in PATH of envp, by a child apart */
	const char *const *argv;
	const char *const *envp;
	const char *cwd;      /* NULL: the agent's */
	const char *cwd_else; /* instead of a `cwd` that cannot be entered, when started apart; NULL: fail */
	int fd[3];	      /* become 0, 1, 2; -1 stands for /dev/null */
	struct spawn_extra extra[SPAWN_EXTRA_MAX];
	int extra_n;
	bool terminal; /* fd[0] becomes the controlling terminal */
	bool tied;     /* the kernel kills it when the agent ends, because nobody could stop it later */
};

/* Where a start failed: callers fall back or word their error by it. */
enum spawn_step { SPAWN_CLONE, SPAWN_SETUP, SPAWN_CHDIR, SPAWN_EXEC };

/* Call it once, before the first spawn. Opens /dev/null and resets the signal dispositions that the agent inherited. */
int spawn_init(struct err *e);
/* Whether a program that begins there may wait for a FUSE server. */
bool spawn_waits(const char *cwd, const char *path);
/* A /dev/null that stays open, for reading and writing. */
int spawn_null(void);
/* For a fork of the agent: closes all descriptors from 3 on but these, in ascending order, and those that spawn needs
 * itself. */
void spawn_close_others(const int *keep, size_t n);
/* Children set their OOM score through this procfs, because /proc is read-only in a box. Owns the descriptor. If it is
 * not open, children use /proc. */
void spawn_use_proc(int fd);

/* Children write "0" to it to leave the agent's cgroup for that of the commands. Owns the descriptor, which may be -1;
 * at most SPAWN_LEAVES_MAX calls. */
void spawn_use_leaf(int fd);

/* 0 and *ret_pid, or -1 with *ret_step and an error whose `os` is the errno. The caller reaps. */
int spawn(const struct spawn_spec *s, pid_t *ret_pid, enum spawn_step *ret_step, struct err *e);
