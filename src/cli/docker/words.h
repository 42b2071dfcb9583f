/*
 * words.h - the words of a command line: arguments, switches, and options with a value ("--name value",
 * "--name=value"). Nothing is copied. Of an option that comes more than once words_value() gives the last.
 */
#pragma once

#include <stdbool.h>
#include <stddef.h>

enum { WORDS_MAX = 256 };

struct option {
	const char *name; /* up to '=' */
	const char *value;
};

struct command_words {
	const char *v[WORDS_MAX]; /* arguments */
	size_t n;
	struct option options[WORDS_MAX];
	size_t options_n;
};

enum words_result { WORDS_OK, WORDS_HELP, WORDS_WRONG };

/* `switches` and `valued` have a blank before and behind each name. A switch may have a value behind '='. Switches of
 * one letter can be one word. WORDS_WRONG: `why` says which word. */
enum words_result words_read(struct command_words *w, int argc, char **argv, const char *switches, const char *valued,
	char *why, size_t why_size);
bool option_is(const struct option *o, const char *name);
/* NULL: it is not there. */
const char *words_value(const struct command_words *w, const char *name);
bool words_have(const struct command_words *w, const char *name, const char *longer);
/* Whether such a list of names has a word, up to its '='. */
bool words_list_has(const char *names, const char *word);
