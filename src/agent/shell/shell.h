/*
 * shell.h - one bash that stays: runs commands in its own process, one after the other, and keeps what they change.
 *
 * The mechanism (how a command is fed, how its end is known, what happens in each hard case) is told in
 * docs/design/003-sessions.md; the texts are made by shell_text.h.
 *
 * A shell is idle or has one command. shell_run gives it a foreground command: output through on_output, then on_end
 * once. shell_spawn makes it start a process of its own with the shell's state (variables, functions, directory) that
 * becomes the agent's child: on_spawned once. Then on_idle: the next one may be given. When the process ends for
 * whatever reason, a running command gets its on_end first, then on_gone comes, last; the shell frees itself after it.
 * on_gone has a result when no command could be told: the shell ended between two.
 *
 * Ownership: the session's. shell_close lets go of it: it is hung up like a closed terminal, nothing is called back.
 */
#pragma once

#include "agent/proc/cmd.h"
#include "agent/proc/env.h"
#include "base/loop.h"

struct shell;

struct shell_owner_ops {
	void (*on_idle)(void *owner);
	void (*on_gone)(void *owner, const struct cmd_result *untold);
};

struct shell_cmd {
	struct str command;
	const struct env *env; /* changes; NULL: none */
	const char *cwd;       /* absolute; NULL: where the shell is */
	bool has_input;
	struct str input;
	uint64_t timeout_ms;
	int last_status; /* what $? is at its start */
};

struct shell_run_ops {
	void (*on_output)(void *arg, int stream, struct str bytes);
	/* Outcomes: EXITED, NO_DIRECTORY, TIMEOUT; also KILLED and LOST with session_ended. The shell does not know
	 * whether the kernel killed for memory. */
	void (*on_end)(void *arg, const struct cmd_result *r);
};

/* pid -1: could not be started, *e says why. Else the pipes are the receiver's. */
typedef void (*shell_on_spawned)(void *arg, pid_t pid, int out_fd, int err_fd, const struct err *e);

struct shell_spec {
	const char *bash; /* its path */
	const struct env *env;
	const char *cwd; /* when it cannot be entered: $HOME, then / */
	const struct shell_owner_ops *ops;
	void *owner;
};

/* Starts bash. NULL on failure. */
struct shell *shell_start(struct loop *l, const struct shell_spec *spec, struct err *e);
/* Only while idle. On failure nothing was given to the shell. */
int shell_run(struct shell *s, const struct shell_cmd *c, const struct shell_run_ops *ops, void *arg, struct err *e);
int shell_spawn(struct shell *s, const struct shell_cmd *c, shell_on_spawned on_spawned, void *arg, struct err *e);
bool shell_is_idle(const struct shell *s);

/* Its current directory, as the kernel sees it; NULL when it cannot be read. The caller frees. */
char *shell_cwd(const struct shell *s);
pid_t shell_pid(const struct shell *s);

void shell_close(struct shell *s);

/* Reads what every shell has reported and nobody has looked at: for children_on_stranger. */
void shells_listen(void);
