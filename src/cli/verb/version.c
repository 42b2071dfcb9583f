/*
 * version.c - `atoll version`.
 */
#include <stdio.h>

#include "cli/args.h"
#include "cli/verbs.h"

int verb_version(struct cli *c, int argc, char **argv)
{
	int code;
	if (!args_parse_none(c, argc, argv, &code))
		return code;
	if (c->json)
		printf("{\"version\":\"%s\"}\n", ATOLL_VERSION);
	else
		printf("atoll %s\n", ATOLL_VERSION);
	return 0;
}
