/*
 * cli.h - what every verb of the command line shares: the verb table, the call's context, errors as people read them.
 *
 * One file per verb, named after it; the table is in verbs.c. A verb parses its own words with args_parse (args.h) and
 * returns the exit code of the program. Results go to stdout, everything else to stderr. A verb that fails prints one
 * error with cli_fail and returns what that returns.
 *
 * Exit codes: 0 done, 1 failed, 2 called wrongly. `exec` and `run` pass on the code of their command and use 125 for
 * failures of their own, 126 and 127 as shells do.
 *
 * Thread: one. Everything here lives for the length of the process; nothing is freed.
 */
#pragma once

#include "base/buf.h"
#include "base/json.h"
#include "proto/errc.h"

struct cli;
struct arg;

/* What the words of a verb are, for the completion of shells. */
enum verb_words {
	WORDS_NONE,
	WORDS_BOX,	 /* a box, then what only the box knows */
	WORDS_BOXES,	 /* any number of boxes */
	WORDS_BOX_FILES, /* a box, then files of this machine */
	WORDS_PROCESS,	 /* a box, then background processes of it */
	WORDS_COPY,	 /* files of this machine and BOX: */
	WORDS_SHELLS,	 /* bash, zsh, fish */
};

struct verb {
	const char *name;
	const char *summary; /* one line, for the list of verbs */
	const char *usage;   /* what follows the name */
	const char *help;    /* paragraphs below the options, or "" */
	int (*run)(struct cli *c, int argc, char **argv);
	int exit_failed, exit_usage;
	enum verb_words words;
	const char *examples; /* lines, or NULL */
	const char *section;  /* of the list of verbs: set on the first of each */
};

extern const struct verb cli_verbs[];
extern const size_t cli_verbs_count;

struct cli {
	const char *self; /* the program as it was called, for commands that the user can copy */
	const struct verb *verb;
	bool json;
	char hint[240]; /* what to do about the error that comes next, or "" */
	/* Set: the verb only shows its options (args_parse calls this) and does nothing. So completions and the manual
	 * are made from the very tables that are parsed with. */
	void (*on_table)(struct cli *c, const struct arg *table);
	void *table_arg;
};

/* Prints the error, what to do about it, and returns the verb's exit code for failures. With --json an object with
 * code, message and suggestion on stderr. Without a hint of its own the error's code decides. */
int cli_fail(struct cli *c, const struct err *e);
/* The same for a command line that makes no sense. */
int cli_usage(struct cli *c, const char *fmt, ...) PRINTF_LIKE(2, 3);
void cli_hint(struct cli *c, const char *fmt, ...) PRINTF_LIKE(2, 3);

/* Writes a result to stdout and ends it with a newline. A broken pipe ends the program quietly. */
void cli_print(struct buf *b);

/* Bytes as they are, to stdout or stderr. A broken pipe ends the program quietly too. */
int cli_write(int fd, struct str bytes, struct err *e);

/* Texts that come from a box or a daemon may carry escape sequences for the terminal: control characters become '?'.
 * In place and of the same length, for errors; listings use text.h. */
void cli_clean(char *text);

/* True when escape sequences make sense on this descriptor: a terminal, NO_COLOR unset, TERM not dumb. */
bool cli_colour(int fd);
enum cli_style { STYLE_PLAIN, STYLE_BOLD, STYLE_DIM, STYLE_RED, STYLE_GREEN, STYLE_YELLOW, STYLE_BLUE, STYLE_CYAN };
/* The sequence that starts a style, or "" without colours. STYLE_PLAIN ends any. */
const char *cli_style(int fd, enum cli_style style);

/* The verb of that name, or NULL. */
const struct verb *cli_verb(const char *name);
/* The candidate that is closest in spelling, or NULL when none is close. `next` yields them, NULL at the end. */
const char *cli_nearest(const char *word, const char *(*next)(void *arg, size_t i), void *arg);

/* Directories and settings, with the environment's values over the defaults. Never NULL. */
const char *cli_run_dir(void);
const char *cli_data_dir(void);
const char *cli_images_dir(void);
/* Where this executable lies, without a slash at the end. */
const char *cli_bin_dir(void);
