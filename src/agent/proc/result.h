/*
 * result.h - how a command ended: the one vocabulary of the agent for it.
 *
 * The module that runs a command (cmd.h, a session's shell, a code worker) fills in a struct cmd_result, and the API
 * answers from it. Clients read the first five outcomes. The last two say that the command never ran.
 * The agent never guesses: a result that it cannot know is OUTCOME_LOST.
 */
#pragma once

#include "base/err.h"
#include "base/str.h"

enum outcome {
	OUTCOME_EXITED,	      /* the command ended by itself: exit_code */
	OUTCOME_KILLED,	      /* by a signal, sent neither for the time limit nor by the kernel for memory */
	OUTCOME_TIMEOUT,      /* the agent killed it when its time ran out, or never ran it (skipped) */
	OUTCOME_OOM,	      /* the kernel killed it, or its last program, for lack of memory */
	OUTCOME_LOST,	      /* unknown: the process that would tell is gone, or cannot be believed */
	OUTCOME_NO_DIRECTORY, /* not run: its working directory cannot be entered */
	OUTCOME_NOT_STARTED,  /* not run: `error` says why */
};
/* The public name, "exited" …; a missing directory counts as a command that exited with code 1. */
const char *outcome_name(enum outcome o);

struct cmd_result {
	enum outcome outcome;
	int exit_code;	    /* 128 + signal after a signal */
	int signal;	    /* 0: not killed by one */
	uint64_t duration;  /* ms */
	bool session_ended; /* the session's shell ended together with the command, or before it */
	bool skipped;	    /* not run: with session_ended the shell had ended before; with OUTCOME_TIMEOUT its turn in
			     * the session did not come in time */
	struct err error;   /* with OUTCOME_NOT_STARTED, with session_ended unless the time ran out, and for a worker
			     * with OUTCOME_LOST */
};

/* From a wait status; oom_before is oom_kills() from before the start. */
struct cmd_result cmd_result_of(int wstatus, uint64_t oom_before);
/* Makes it OUTCOME_OOM if it looks like a SIGKILL and the kernel has killed for memory since `oom_before`. */
void cmd_result_check_oom(struct cmd_result *r, uint64_t oom_before);
/* The command never ran, because of `e`. */
struct cmd_result cmd_result_not_started(const struct err *e);

/* "SIGINT" → 2; also takes "INT" and "2". 0 for an unknown name. */
int signal_number(struct str name);
const char *signal_name(int sig); /* "SIGINT"; "SIG42" for a signal without a name */
