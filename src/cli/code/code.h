/*
 * code.h - `atoll code`: Python, JavaScript and TypeScript in a code context of a box.
 *
 *	code.c       the verb: code, language, life of the context
 *	code_run.c   one run: its output and results, files for results that a terminal cannot show
 *	code_repl.c  code typed line by line at a terminal
 *	edit.h       the editor of one line
 *
 * A call makes its own context, which keeps variables from one piece of code to the next and ends with the call, unless
 * --context names one. Ctrl-C interrupts the code that runs; the context and its variables stay.
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
	const char *dir; /* directory for files; NULL: the current one */
	bool no_files;
	struct api_follow *running; /* the run that Ctrl-C interrupts */
	bool cancelled;
	int exit_code; /* after CODE_EXITED */
};

enum code_end {
	CODE_DONE,
	CODE_RAISED,	  /* the code's own error: printed */
	CODE_EXITED,	  /* it asked to leave, as with sys.exit(); c->exit_code says how */
	CODE_INTERRUPTED, /* by Ctrl-C */
	CODE_LOST,	  /* the interpreter ended: printed */
	CODE_FAILED,	  /* *e says why */
};

enum code_end code_run(struct code *c, struct str text, struct err *e);

/* Until Ctrl-D. Returns the exit code of the program. */
int code_repl(struct code *c);
/* True when the text is a whole piece of code; else the REPL asks for another line. */
bool code_is_whole(enum code_language l, struct str text);
