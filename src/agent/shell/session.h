/*
 * session.h - sessions: a name for a shell that keeps its directory, variables, functions, options and $?. Commands of
 * a session run in order; sessions run in parallel.
 *
 * A session is created explicitly or by the first use of its name. The first command that needs a shell starts it
 * (shell.h); until then plain commands are executed directly (plain.h). Commands wait for each other in the order in
 * which they came. When the shell ends (exit, set -e, kill), the result of the running command says so. If no command
 * runs, the next command fails with that news and is not run, because the directory and variables that it counts on are
 * gone. With that news the session is gone, also its own environment, directory and time limit: the next use of the
 * name makes a new session.
 *
 * A task is one command in a session. It waits, then runs. Exactly one of on_end and on_started comes, once, unless the
 * task is cancelled before it began. Thread: the loop's.
 */
#pragma once

#include "agent/proc/run.h"
#include "base/list.h"

struct session;
struct task;

/* NULL when there is no such session. */
struct session *session_find(struct str id);
/* Finds the session, or creates it. */
struct session *session_need(struct str id, struct err *e);

struct session_spec {
	struct str id;
	struct env env; /* changes to the box's environment; taken */
	const char *cwd;
	uint64_t timeout_ms; /* for commands without a limit of their own; 0: none */
};
/* SESSION_ALREADY_EXISTS when the name is in use. */
struct session *session_create(struct session_spec *spec, struct err *e);
/* Ends the shell and the command that runs, and fails it and waiting commands with SESSION_DESTROYED. Background
 * processes and streams live on: the caller ends them (process_kill_all, stream_end_session). */
void session_delete(struct session *s);
void sessions_delete_all(void);
/* The box's environment or work directory has changed: shells that wait for a first command were started without it.
 */
void sessions_env_changed(void);
/* A client has created it and been answered: its first command follows. */
void session_expect_command(struct session *s);
/* Calls fn for each session, in no order. */
void session_each(void (*fn)(const struct session *s, void *arg), void *arg);

const char *session_id(const struct session *s);
/* The current directory. The caller frees it. */
char *session_cwd(const struct session *s);
/* The environment of a new program, as far as it is known without asking the shell: box and session. */
void session_env(const struct session *s, struct env *ret);
/* Makes `path` absolute, relative to the session's directory. `s` NULL: to the box's work directory. The caller frees.
 */
char *session_path(const struct session *s, const char *path);

/* The time limit of a command: its own, else the session's, else the box's (COMMAND_TIMEOUT_MS); 0: none. Without a
 * session only its own counts. */
uint64_t session_limit(const struct session *s, uint64_t own);

struct task_ops {
	void (*on_output)(void *arg, int stream, struct str bytes);
	void (*on_end)(void *arg, const struct cmd_result *r);
};

/* Runs a command in the session itself, in its turn. Its time limit begins now; when it ends before the turn has come,
 * the command is not run: OUTCOME_TIMEOUT, skipped. Takes the spec. Never calls back from inside. */
struct task *session_run(struct session *s, struct run_spec *spec, const struct task_ops *ops, void *arg);

/* Starts a process with the session's state, in its turn; holds the session only until it has started. `s` NULL:
 * without a session. Exactly one of cmd and failure is not NULL (its outcome: OUTCOME_NO_DIRECTORY,
 * OUTCOME_NOT_STARTED, or OUTCOME_TIMEOUT as above). */
typedef void (*session_on_started)(void *arg, struct cmd *cmd, const struct cmd_result *failure);
struct task *session_start(struct session *s, struct run_spec *spec, const struct cmd_ops *ops, void *cmd_arg,
	session_on_started on_started, void *arg);

/* Commands that run or wait for their turn, also those whose client is gone. Started processes do not count. */
size_t tasks_running(void);

/* The owner wants no result any more. A waiting task is dropped; a running task goes on without callbacks. */
void task_cancel(struct task *t);
