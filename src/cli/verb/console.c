/*
 * console.c - `atoll console`: a one-time link that signs a browser in to the web console.
 */
#include "cli/api.h"
#include "cli/args.h"
#include "cli/verb/browser.h"
#include "cli/verbs.h"

int verb_console(struct cli *c, int argc, char **argv)
{
	bool print = false;
	const struct arg table[] = {
		{"print", NULL, "only print the link", ARG_FLAG, &print},
		ARG_TABLE_END,
	};
	struct args a = {.command_after = ARGS_NO_COMMAND};
	auto_buf struct buf url = {0};
	struct err e;
	int code;
	if (!args_parse(c, table, argc, argv, &a, &code))
		return code;
	if (a.n)
		return cli_usage(c, "'%s' is one word too many", a.words[0]);
	auto_json struct json_doc *doc = api_once(c, "POST", "/v1/console/links", STR(""), &e);
	if (!doc)
		return cli_fail(c, &e);
	if (c->json)
		return 0;
	buf_add_str(&url, api_text(json_root(doc), "url"));
	if (!print)
		browser_open(buf_cstr(&url));
	cli_print(&url);
	return 0;
}
