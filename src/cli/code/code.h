/*
 * code.h - `atoll code`: Python, JavaScript and TypeScript in a code context of a box.
 *
 *	code.c       the verb: which code, which language, the context's life
 *	code_run.c   one run: what it prints and returns, files for what a terminal cannot show
 *	code_repl.c  line after line at a terminal
 *	edit.h       a line that is typed
 *
 * A call has a context of its own, which keeps variables from one piece of code to the next and ends with it, unless
 * one is named. Ctrl-C interrupts what runs; the context and its variables stay.
 */
#pragma once

#include "cli/api.h"
#include "cli/args.h"

enum code_language { CODE_PYTHON, CODE_JAVASCRIPT, CODE_TYPESCRIPT };

struct code {
	struct client cl;
	const char *id;
	char *context;
	enum code_language language;
	uint64_t timeout_ms;
	const char *dir; /* where files go; NULL: here */
	bool no_files;
	struct api_follow *running; /* what Ctrl-C interrupts */
	bool cancelled;
};

enum code_end {
	CODE_DONE,
	CODE_RAISED,	  /* the code's own error: told */
	CODE_INTERRUPTED, /* by Ctrl-C */
	CODE_LOST,	  /* the interpreter ended: told */
	CODE_FAILED,	  /* *e says why */
};

enum code_end code_run(struct code *c, struct str text, struct err *e);

/* Until Ctrl-D. Returns the exit code of the program. */
int code_repl(struct code *c);
/* Whether the text so far is a whole piece of code; otherwise another line is asked for. */
bool code_is_whole(enum code_language l, struct str text);
