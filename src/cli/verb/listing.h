/*
 * listing.h - an array of the API as a table, a row for each item: `list` of the verbs that keep named things.
 */
#pragma once

#include "base/json.h"
#include "cli/cli.h"
#include "cli/text.h"

struct listing {
	const char *key; /* of the array in the answer */
	const char *const *heads;
	size_t columns;
	void (*add_row)(struct table *t, const struct json *item);
	const char *empty;			 /* said when there is none */
	void (*foot)(const struct json *answer); /* prints what follows the table; may be NULL */
};

/* Prints an answer. */
void listing_print(const struct listing *l, const struct json *answer);
/* Asks for `path` and prints the items of the answer; with --json, the answer itself. */
int listing_ask(struct cli *c, const char *path, const struct listing *l, struct err *e);
