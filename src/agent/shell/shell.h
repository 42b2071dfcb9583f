/*
 * shell.h - one bash that stays: it runs commands in its own process, one after the other, and keeps their changes.
 *
 * docs/design/003-sessions.md explains the mechanism: how a command is fed, how its end is known, the answer to each
 * hard case. shell_text.h makes the texts.
 *
 * A shell is idle or has one command. shell_run gives it a foreground command: output comes through on_output, then
 * on_end once. shell_spawn makes it start a process with the shell's state (variables, functions, directory) that
 * becomes the agent's child: on_spawned comes once. Then on_idle says that the next command may be given. When bash
 * ends, a running command gets its on_end first; on_gone comes last, and the shell frees itself after it. on_gone has
 * a result if bash ended between two commands, so that no command was told.
 *
 * Ownership: the session owns its shell. shell_close gives it up: bash is hung up as if its terminal were closed, and
 * no callback follows.
 */
#pragma once

#include "agent/env.h"
#include "agent/proc/cmd.h"
#include "base/loop.h"

struct shell;

struct shell_owner_ops {
	void (*on_idle)(void *owner);
	void (*on_gone)(void *owner, const struct cmd_result *untold);
};

struct shell_cmd {
	struct str command;
	const struct env *env; /* changes; NULL: none */
	const char *cwd;       /* absolute; NULL: the shell's directory */
	bool has_input;
	struct str input;
	uint64_t timeout_ms;
	int last_status; /* $? at its start */
};

struct shell_run_ops {
	void (*on_output)(void *arg, int stream, struct str bytes);
	/* Outcomes: EXITED, NO_DIRECTORY, TIMEOUT; also KILLED and LOST with session_ended. The shell does not know
	 * whether the kernel killed for memory. */
	void (*on_end)(void *arg, const struct cmd_result *r);
};

/* pid -1: the process could not be started, *e says why. Else the receiver owns the pipes. */
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
/* Another owner: a shell that has no command. */
void shell_give(struct shell *s, const struct shell_owner_ops *ops, void *owner);
/* Only while idle. On failure nothing was given to the shell. */
int shell_run(struct shell *s, const struct shell_cmd *c, const struct shell_run_ops *ops, void *arg, struct err *e);
int shell_spawn(struct shell *s, const struct shell_cmd *c, shell_on_spawned on_spawned, void *arg, struct err *e);
bool shell_is_idle(const struct shell *s);

/* The current directory as the kernel sees it; NULL when it cannot be read. The caller frees it. */
char *shell_cwd(const struct shell *s);
pid_t shell_pid(const struct shell *s);

void shell_close(struct shell *s);

/* Reads the unread reports of all shells; for children_on_stranger. */
void shells_listen(void);
