/*
 * create.c - `atoll create`: makes a box with its own limits.
 */
#include <stdio.h>

#include "cli/verb/box.h"
#include "cli/verbs.h"

enum { STATUS_CREATED = 201 };

int verb_create(struct cli *c, int argc, char **argv)
{
	struct box_options o = {0};
	const struct arg table[] = {BOX_OPTION_ROWS(&o), ARG_TABLE_END};
	struct args a = {.command_after = ARGS_NO_COMMAND};
	int code;
	if (!args_parse(c, table, argc, argv, &a, &code))
		return code;
	if (a.n != 1 || !*a.words[0])
		return cli_usage(
			c, a.n > 1 ? "create makes one box at a time" : "which name? Write a name for the box");
	auto_client struct client cl = {0};
	struct err e;
	auto_buf struct buf body = {0};
	int status = client_open(c, &cl, &e) < 0 ? -1 : box_put(&cl, a.words[0], &o, &body, &e);
	if (status < 0)
		return cli_fail(c, &e);
	bool wants = o.image || o.memory || o.cpu_milli || o.pids || o.disk;
	if (status != STATUS_CREATED)
		fprintf(stderr, "atoll create: box '%s' exists already%s\n", a.words[0],
			wants ? "; it has the new settings now" : "");
	if (c->json)
		cli_print(&body);
	else
		printf("%s\n", a.words[0]);
	return 0;
}
