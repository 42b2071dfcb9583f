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
	const char *empty; /* said when there is none */
};

/* Prints the items. */
void listing_print(const struct listing *l, const struct json *items);
/* Asks for `path` and prints the items of the answer; with --json, the answer itself. */
int listing_ask(struct cli *c, const char *path, const struct listing *l, struct err *e);
