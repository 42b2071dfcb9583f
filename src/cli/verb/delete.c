#include "cli/verb/delete.h"

#include <stdio.h>

int delete_each(struct cli *c, char **names, int n, delete_one one, void *arg)
{
	int code = 0;
	for (int i = 0; i < n; i++) {
		struct err e;
		cli_hint(c, "%s", "");
		if (one(arg, names[i], &e) < 0)
			code = cli_fail(c, &e);
		else if (!c->json)
			printf("%s\n", names[i]);
	}
	if (c->json && code == 0)
		puts("{\"success\":true}");
	return code;
}

struct collection {
	struct client cl;
	const char *path;
};

static int delete_in(void *arg, const char *name, struct err *e)
{
	struct collection *in = arg;
	auto_buf struct buf path = {0}, answer = {0};
	buf_add_c(&path, in->path);
	client_percent_encode(&path, name);
	return client_call(&in->cl, "DELETE", buf_cstr(&path), STR(""), &answer, e) < 0 ? -1 : 0;
}

int delete_from(struct cli *c, const char *collection, char **names, int n)
{
	struct collection in = {.path = collection};
	struct err e;
	if (client_open(c, &in.cl, &e) < 0)
		return cli_fail(c, &e);
	int code = delete_each(c, names, n, delete_in, &in);
	client_close(&in.cl);
	return code;
}
