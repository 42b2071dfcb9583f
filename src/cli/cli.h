/*
 * cli.h - shared by all verbs of the command line: the verb table, the context of a call, errors for people.
 *
 * One file per verb, named after it; the table is in verbs.c. A verb parses its own words with args_parse (args.h) and
 * returns the exit code of the program. Results go to stdout, everything else to stderr. A verb that fails prints one
 * error with cli_fail and returns its result.
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

/* The kind of a verb's words, for the completion of shells. */
enum verb_words {
	WORDS_NONE,
	WORDS_BOX,	 /* a box, then words that only the box knows */
	WORDS_BOXES,	 /* any number of boxes */
	WORDS_BOX_FILES, /* a box, then files of this machine */
	WORDS_PROCESS,	 /* a box, then background processes of it */
	WORDS_COPY,	 /* files of this machine and BOX: */
	WORDS_SHELLS,	 /* bash, zsh, fish */
};

struct verb {
	const char *name;
	const char *summary; /* one line, for the list of verbs */
	const char *usage;   /* the words after the name */
	const char *help;    /* paragraphs below the options, or "" */
	int (*run)(struct cli *c, int argc, char **argv);
	int exit_failed, exit_usage;
	enum verb_words words;
	const char *examples; /* lines, or NULL */
	const char *section;  /* heading in the list of verbs: set on the first verb of a section */
};

extern const struct verb cli_verbs[];
extern const size_t cli_verbs_count;

struct cli {
	const char *self; /* the program as the user called it, for commands to copy */
	const struct verb *verb;
	bool json;
	char hint[240];		/* advice for the next error, or "" */
	struct str tls_program; /* what client_tls.c executes for https; empty in a program without it */
	/* When set, args_parse passes the verb's options to it and the verb does nothing else. So completions and the
	 * manual come from the tables that the verbs parse with. */
	void (*on_table)(struct cli *c, const struct arg *table);
	void *table_arg;
};

/* Prints the error and its hint, and returns the verb's exit code for failures. With --json it prints an object with
 * code, message and suggestion on stderr. Without cli_hint, the hint comes from the error's code. */
int cli_fail(struct cli *c, const struct err *e);
/* The same for a wrong command line. */
int cli_usage(struct cli *c, const char *fmt, ...) PRINTF_LIKE(2, 3);
void cli_hint(struct cli *c, const char *fmt, ...) PRINTF_LIKE(2, 3);

/* Writes a result to stdout and ends it with a newline. A broken pipe ends the program quietly. Other failures are
 * remembered for cli_end. */
void cli_print(struct buf *b);
/* The exit code of a verb that ended with `code`: results that could not be written, here or by printf, are an error.
 */
int cli_end(struct cli *c, int code);

/* Writes bytes unchanged to stdout or stderr. A broken pipe ends the program quietly too. */
int cli_write(int fd, struct str bytes, struct err *e);

/* Replaces control characters by '?', in place: a text from a box or a daemon may have escape sequences for the
 * terminal. For errors; listings use text.h. */
void cli_clean(char *text);

/* True when this descriptor can show colours: a terminal, NO_COLOR unset, TERM not dumb. */
bool cli_colour(int fd);
enum cli_style { STYLE_PLAIN, STYLE_BOLD, STYLE_DIM, STYLE_RED, STYLE_GREEN, STYLE_YELLOW, STYLE_BLUE, STYLE_CYAN };
/* The sequence that starts a style, or "" without colours. STYLE_PLAIN ends any. */
const char *cli_style(int fd, enum cli_style style);

/* The verb of that name, or NULL. */
const struct verb *cli_verb(const char *name);
/* The candidate with the most similar spelling, or NULL when none is similar. `next` returns candidate i, NULL at the
 * end. */
const char *cli_nearest(const char *word, const char *(*next)(void *arg, size_t i), void *arg);

/* Directories and settings, with the environment's values over the defaults. Never NULL. */
const char *cli_run_dir(void);
const char *cli_data_dir(void);
const char *cli_images_dir(void);
/* The directory of this executable, without a slash at the end. */
const char *cli_bin_dir(void);
