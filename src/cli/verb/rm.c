/*
 * rm.c - `atoll rm`: destroys boxes with their processes and files.
 */
#include <stdio.h>
#include <string.h>

#include "cli/verb/box.h"
#include "cli/verbs.h"

struct removal {
	struct client cl;
	struct json_writer w;
	int failed, removed;
};

static void remove_one(struct removal *r, const char *id)
{
	struct err e;
	if (box_delete(&r->cl, id, &e) < 0) {
		r->failed++;
		cli_fail(r->cl.cli, &e);
		r->cl.cli->hint[0] = 0;
		return;
	}
	r->removed++;
	if (r->cl.cli->json)
		json_cstr(&r->w, id);
	else
		printf("%s\n", id);
}

static int remove_each(void *arg, const struct json *box, struct err *e)
{
	const char *id = NULL;
	if (json_read_cstr(box, "id", &id, e) < 0)
		return -1;
	if (id)
		remove_one(arg, id);
	return 0;
}

int verb_rm(struct cli *c, int argc, char **argv)
{
	bool all = false;
	const struct arg table[] = {{"all", NULL, "destroy every box of this daemon", ARG_FLAG, &all}, ARG_TABLE_END};
	struct args a = {.command_after = ARGS_NO_COMMAND};
	int code;
	if (!args_parse(c, table, argc, argv, &a, &code))
		return code;
	if (all == (a.n > 0))
		return cli_usage(c, all ? "use --all or names, not both" : "which box? Write its name, or --all");
	for (int i = 0; i < a.n; i++)
		if (!*a.words[i])
			return cli_usage(c, "the name of a box is empty");
	auto_buf struct buf out = {0};
	struct removal r = {.w = json_writer(&out)};
	struct err e;
	if (client_open(c, &r.cl, &e) < 0)
		return cli_fail(c, &e);
	json_object_begin(&r.w);
	json_key(&r.w, "removed");
	json_array_begin(&r.w);
	for (int i = 0; i < a.n; i++)
		remove_one(&r, a.words[i]);
	if (all && box_each(&r.cl, remove_each, &r, &e) < 0)
		return cli_fail(c, &e);
	json_array_end(&r.w);
	json_object_end(&r.w);
	if (c->json)
		cli_print(&out);
	client_close(&r.cl);
	return r.failed ? c->verb->exit_failed : 0;
}
