/*
 * session.h - named shell contexts: directory, variables, functions, options, $?; ordered within, parallel with others.
 *
 * A session is made by name, explicitly or by its first use. Its shell (shell.h) is started by the first command that
 * needs one; until then plain commands are executed directly (plain.h). Commands wait for each other in the order they
 * came. When the shell ends (exit, set -e, kill) the command that it ran is told, or else the next one that comes,
 * which is not run: what it counts on (directory, variables) is gone. The one after that gets a fresh shell.
 *
 * A task is one command in a session. It waits, then runs; on_end or on_started comes exactly once unless it is
 * cancelled before it began. Thread: the loop's.
 */
#pragma once

#include "agent/command/run.h"
#include "base/list.h"

struct session;
struct task;

/* NULL when there is none. */
struct session *session_find(struct str id);
/* Found, or made as by its first use. */
struct session *session_need(struct str id, struct err *e);

struct session_spec {
	struct str id;
	struct env env; /* changes over the box's; taken */
	const char *cwd;
	uint64_t timeout_ms; /* for commands without one of their own; 0: none */
};
/* SESSION_ALREADY_EXISTS when there is one. */
struct session *session_create(struct session_spec *spec, struct err *e);
/* Ends its shell and fails what waits with SESSION_DESTROYED. What was started as a process lives on. */
void session_delete(struct session *s);
void sessions_delete_all(void);
/* Calls fn for each, in no order. */
void session_each(void (*fn)(const struct session *s, void *arg), void *arg);

const char *session_id(const struct session *s);
/* Where it is now. The caller frees. */
char *session_cwd(const struct session *s);
/* What a program that it starts would get, as far as it is known without asking the shell: box and session. */
void session_env(const struct session *s, struct env *ret);
/* `path` as seen from the session: absolute ones stay. The caller frees. `s` may be NULL: the box's work directory. */
char *session_path(const struct session *s, const char *path);

/* The time limit of a command: its own, the session's, the box's (COMMAND_TIMEOUT_MS); 0: none. Without a session its
 * own only. */
uint64_t session_limit(const struct session *s, uint64_t own);

struct task_ops {
	void (*on_output)(void *arg, int stream, struct str bytes);
	void (*on_end)(void *arg, const struct cmd_result *r);
};

/* Runs in the session itself, in its turn. The spec is taken. Never calls back from inside. */
struct task *session_run(struct session *s, struct run_spec *spec, const struct task_ops *ops, void *arg);

/* Starts a process with the session's state, in its turn; holds the session only until it has started. `s` NULL:
 * without a session. Exactly one of cmd and failure is not NULL (its outcome: OUTCOME_NO_DIRECTORY or OUTCOME_NOT_STARTED). */
typedef void (*session_on_started)(void *arg, struct cmd *cmd, const struct cmd_result *failure);
struct task *session_start(struct session *s, struct run_spec *spec, const struct cmd_ops *ops, void *cmd_arg,
	session_on_started on_started, void *arg);

/* Nobody wants it any more. One that waits is dropped; one that runs goes on and is not heard of again. */
void task_cancel(struct task *t);
