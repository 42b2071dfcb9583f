/*
 * commit.c - `atoll commit BOX NAME`: a box becomes an image.
 */
#include <stdio.h>

#include "cli/api.h"
#include "cli/args.h"
#include "cli/verbs.h"

int verb_commit(struct cli *c, int argc, char **argv)
{
	const struct arg table[] = {ARG_TABLE_END};
	struct args a = {.command_after = ARGS_NO_COMMAND};
	auto_client struct client cl = {0};
	auto_buf struct buf body = {0}, answer = {0};
	struct json_writer w = json_writer(&body);
	struct err e;
	int code;
	if (!args_parse(c, table, argc, argv, &a, &code))
		return code;
	if (a.n != 2)
		return cli_usage(c, "write the box, and the image's name");
	json_object_begin(&w);
	json_member_cstr(&w, "sandbox", a.words[0]);
	json_member_cstr(&w, "name", a.words[1]);
	json_object_end(&w);
	if (client_open(c, &cl, &e) < 0 ||
		client_call(&cl, "POST", "/v1/images/commit", buf_str(&body), &answer, &e) < 0)
		return cli_fail(c, &e);
	auto_json struct json_doc *doc = json_parse(buf_str(&answer), &e);
	if (!doc)
		return cli_fail(c, &e);
	if (c->json)
		cli_print(&answer);
	else
		printf("%.*s\n", STR_ARG(api_text(json_root(doc), "name")));
	return 0;
}
