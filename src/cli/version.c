/*
 * version.c - `atoll version`.
 */
#include <stdio.h>

#include "cli/args.h"
#include "cli/verbs.h"

int verb_version(struct cli *c, int argc, char **argv)
{
	static const struct arg table[] = {ARG_TABLE_END};
	struct args a = {.command_after = ARGS_NO_COMMAND};
	int code;
	if (!args_parse(c, table, argc, argv, &a, &code))
		return code;
	if (c->json)
		printf("{\"version\":\"%s\"}\n", ATOLL_VERSION);
	else
		printf("atoll %s\n", ATOLL_VERSION);
	return 0;
}
