#include "cli/verb/delete.h"

#include <stdio.h>

#include "cli/text.h"

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

struct named_things {
	struct client cl;
	const char *path;
};

/* With a token go those that were made with it. */
static void print_others(struct str answer, const char *name)
{
	auto_json struct json_doc *d = json_parse(answer, NULL);
	json_each(it, json_get(d ? json_root(d) : NULL, "revoked"))
	{
		if (!str_eq_c(it->text, name))
			text_print(it->text);
	}
}

static int delete_in(void *arg, const char *name, struct err *e)
{
	struct named_things *in = arg;
	auto_buf struct buf path = {0}, answer = {0};
	buf_add_c(&path, in->path);
	client_percent_encode(&path, name);
	if (client_call(&in->cl, "DELETE", buf_cstr(&path), STR(""), &answer, e) < 0)
		return -1;
	if (!in->cl.cli->json)
		print_others(buf_str(&answer), name);
	return 0;
}

int delete_from(struct cli *c, const char *collection, char **names, int n)
{
	struct named_things in = {.path = collection};
	struct err e;
	if (client_open(c, &in.cl, &e) < 0)
		return cli_fail(c, &e);
	int code = delete_each(c, names, n, delete_in, &in);
	client_close(&in.cl);
	return code;
}
