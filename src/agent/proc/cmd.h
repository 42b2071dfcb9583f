/*
 * cmd.h - one running program with its pipes: output, input, time limit, end.
 *
 * cmd_start starts a program in a session of its own. Its output comes through on_output in pieces, in order within a
 * stream. on_end comes exactly once, last, after the last byte that was written before the program ended. Output that
 * its children write later goes to drain.h: a background job neither delays the end nor dies of SIGPIPE.
 *
 * Backpressure: cmd_pause stops reading, so the pipe fills and the program blocks; cmd_resume goes on. Input:
 * cmd_input takes all bytes and returns false when more than CMD_STDIN_HIGH bytes wait; on_input_low says when to go
 * on.
 *
 * result.h says how a command ended. A time limit kills the whole tree with SIGKILL.
 *
 * Ownership: a cmd frees itself after on_end. An owner that loses interest calls cmd_abandon: the program runs on, its
 * output is dropped, no callback follows. Thread: the loop's.
 */
#pragma once

#include "agent/limits.h"
#include "agent/proc/output.h"
#include "agent/proc/result.h"
#include "agent/proc/spawn.h"
#include "base/loop.h"
#include "base/str.h"

struct cmd;

struct cmd_ops {
	void (*on_output)(struct cmd *c, int stream, struct str bytes); /* borrowed for the call */
	void (*on_input_low)(struct cmd *c);				/* may be NULL */
	void (*on_held)(struct cmd *c);					/* it has ended while it is held; may be NULL */
	void (*on_end)(struct cmd *c, const struct cmd_result *r);
};

struct cmd_spec {
	const char *path;
	const char *const *argv;
	const char *const *envp;
	const char *cwd;
	bool input;	     /* stdin is a pipe fed by cmd_input, else /dev/null */
	uint64_t timeout_ms; /* 0: none */
	const struct cmd_ops *ops;
	void *arg; /* for cmd_arg */
};

/* On failure nothing runs and *ret_step says where it failed. */
int cmd_start(struct loop *l, const struct cmd_spec *s, struct cmd **ret, enum spawn_step *ret_step, struct err *e);

/* A process that a session's shell has started, and that is or becomes a child of the agent. */
struct cmd_adoption {
	pid_t pid;	    /* also its process group */
	int out_fd, err_fd; /* read ends; cmd_adopt takes them */
	uint64_t timeout_ms;
	const struct cmd_ops *ops;
	void *arg;
};
struct cmd *cmd_adopt(struct loop *l, const struct cmd_adoption *a);
void *cmd_arg(const struct cmd *c);
pid_t cmd_pid(const struct cmd *c);

void cmd_pause(struct cmd *c);
void cmd_resume(struct cmd *c);

bool cmd_input(struct cmd *c, struct str bytes);
void cmd_input_end(struct cmd *c);

/* Signals the process group. */
void cmd_signal(struct cmd *c, int sig);
/* Sends SIGKILL to the program and to everything that it started. */
void cmd_kill(struct cmd *c);
/* Sends SIGHUP to the tree, and SIGKILL after CMD_HANGUP_GRACE to those of it that are left, also when the program
 * itself has ended before. */
void cmd_hangup(struct cmd *c);
/* From now on its end is told by on_held alone, and its children's output still counts, until cmd_release: on_end comes
 * after that. For an owner that waits for the whole tree to end. */
void cmd_hold(struct cmd *c);
bool cmd_has_ended(const struct cmd *c);
/* Only when it has ended. */
const struct cmd_result *cmd_result(const struct cmd *c);
/* Only when it has ended. on_end comes from inside, or later if the output is paused. */
void cmd_release(struct cmd *c);
void cmd_abandon(struct cmd *c);
