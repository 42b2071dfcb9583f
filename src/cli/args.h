/*
 * args.h - the words after a verb: options from a table, positional words, then a command that is not parsed.
 *
 *	const char *cwd = NULL;
 *	const struct arg table[] = {{"cwd", "DIR", "working directory", ARG_TEXT, &cwd}, ARG_TABLE_END};
 *	struct args a = {.command_after = 1};
 *	int code;
 *	if (!args_parse(c, table, argc, argv, &a, &code))
 *		return code;
 *
 * Options are `--name value`, `--name=value`, `--flag`, and, for options with a letter, `-n value`, `-nvalue` and
 * `-abc` (three flags). They come before or between positional words. `--` ends them. With command_after = n, the first
 * word after n positional words also ends them and begins the command: `atoll exec box ls -l` and `atoll exec box -- ls
 * -l` are the same. Every verb has --json and --help.
 */
#pragma once

#include "cli/cli.h"

enum arg_kind {
	ARG_END,
	ARG_FLAG,    /* bool */
	ARG_TEXT,    /* const char * */
	ARG_LIST,    /* struct arg_list: may be repeated */
	ARG_BYTES,   /* uint64_t, not 0: 512m, 2g, 1048576 */
	ARG_CPUS,    /* uint64_t, thousandths, not 0: 1, 0.5, 1.25 */
	ARG_COUNT,   /* uint64_t, not 0 */
	ARG_SECONDS, /* uint64_t, milliseconds: 30, 0.5, 2m, 1h */
};

struct arg_list {
	const char **items;
	size_t n;
};

struct arg {
	const char *name;
	const char *value; /* name of the value in the help; NULL for a flag */
	const char *help;
	enum arg_kind kind;
	void *to;
	long letter; /* 'l' for -l; 0: none. Last and wide, so that rows without a letter can end before it */
};
#define ARG_TABLE_END                                                                                                  \
	{                                                                                                              \
		NULL, NULL, NULL, ARG_END, NULL                                                                        \
	}

enum { ARGS_NO_COMMAND = -1 };

struct args {
	int command_after; /* in: positional words before the command, or ARGS_NO_COMMAND */
	char **words;	   /* out: positional words */
	int n;
	char **command; /* out: NULL-terminated, never NULL; empty without a command */
};

/* True: go on. False: help or an error was printed, return *ret_code. */
bool args_parse(struct cli *c, const struct arg *table, int argc, char **argv, struct args *a, int *ret_code);

/* For verbs without their own options and words. */
bool args_parse_none(struct cli *c, int argc, char **argv, int *ret_code);
/* The first word as the id of a box. False: there is no word, or there are more than `max`; *ret_code is set. */
bool args_box(struct cli *c, const struct args *a, int max, const char **ret_id, int *ret_code);
/* Both for verbs without their own options: words[0] is a box, and there are at most `max` words. */
bool args_parse_box(struct cli *c, int argc, char **argv, int max, struct args *ret, int *ret_code);

/* The readers of the kinds; false when the text has another form. */
bool args_read_bytes(const char *text, uint64_t *ret);
bool args_read_thousandths(const char *text, uint64_t *ret);
bool args_read_seconds(const char *text, uint64_t *ret_ms);
