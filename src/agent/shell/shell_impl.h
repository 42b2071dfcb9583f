/*
 * shell_impl.h - inside of shell.h: shell.c has its life and its reports, shell_run.c the commands it is given.
 */
#pragma once

#include "agent/limits.h"
#include "agent/proc/children.h"
#include "agent/proc/drain.h"
#include "agent/proc/handoff.h"
#include "agent/proc/output.h"
#include "agent/proc/proctree.h"
#include "agent/shell/shell.h"
#include "agent/shell/shell_text.h"
#include "base/buf.h"

enum shell_state {
	SHELL_IDLE,
	SHELL_FOREGROUND,
	SHELL_BACKGROUND,
	SHELL_SYNC, /* interrupted: must answer once before it gets the next command */
	SHELL_DEAD,
	SHELL_STATES
};

/* The last report about the foreground command. */
enum shell_fg_report {
	FG_RUNNING, /* none yet */
	FG_DONE,    /* it has ended: status */
	FG_NO_DIRECTORY
};

/* The foreground command. */
struct shell_fg {
	const struct shell_run_ops *ops;
	void *arg;
	struct output out;
	char *command, *cwd; /* kept for a second attempt as eval */
	struct env env;
	uint64_t timeout_ms;
	enum shell_fg_report report;
	bool as_eval;  /* the second attempt, after a syntax error */
	bool aborting; /* its time is up */
	int status, last_status;
	uint64_t began;		  /* proc_ticks */
	uint64_t abort_at;	  /* when the interruption began */
	struct buf late;	  /* stderr since then, without bash's report about the killed job */
	int last_line;		  /* length of the line that comes after the command */
	struct proclist spare;	  /* processes that ran before and must survive a time limit */
	struct cmd_result result; /* set by fg_finish */
};

struct shell {
	struct list node;
	struct loop *loop;
	const struct shell_owner_ops *ops; /* NULL: closed */
	void *owner;
	pid_t pid;
	struct child child;
	enum shell_state state; /* changed by shell_move alone */
	int feed_fd, script_fd;
	int path_fd[2];	       /* O_PATH: the pipes that commands write to */
	struct drain *held[2]; /* … while a background job holds one */
	struct loop_io control;
	int control_fd;
	struct buf report; /* part of a line */
	uint64_t seq;
	bool lost;	/* given up: its reports do not count any more */
	unsigned looks; /* that found it neither at work nor back (SHELL_LOOKS_MAX) */

	struct shell_fg fg;
	pid_t spawned; /* reported, has not begun */
	shell_on_spawned on_spawned;
	void *spawn_arg;
	struct handoff in, out, err; /* of the current command */
	struct handoff go;	     /* … and where a background process waits for its parent to be gone */

	struct loop_timer limit; /* time limit, then rounds of interrupting it, then the shell's answer */
	struct loop_timer watch; /* is it still on its way back to us? */
	struct loop_timer grace; /* after a hang-up */
	struct loop_task free_task;
};

/* shell_run.c: a report about the current command. */
void shell_reported(struct shell *s, char letter, uint64_t seq, int value);
/* No callback of the current command is wanted any more. */
void shell_run_silence(struct shell *s);
/* bash has ended. False: it was between two commands. */
bool shell_run_died(struct shell *s, const struct cmd_result *r);

/* shell.c */
/* Changes the state; checks that the move is in the table. */
void shell_move(struct shell *s, enum shell_state to);
void shell_went_idle(struct shell *s);
/* Gives up on a shell that does not answer. */
void shell_kill(struct shell *s);
