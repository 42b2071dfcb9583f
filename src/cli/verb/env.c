/*
 * env.c - `atoll env`: the variables with which programs in a box start.
 */
#include <stdio.h>
#include <string.h>

#include "cli/api.h"
#include "cli/args.h"
#include "cli/text.h"
#include "cli/verb/exec.h"
#include "cli/verbs.h"

/* Prints only the names: values may be secrets. */
static int list(struct client *cl, const char *id, struct err *e)
{
	auto_json struct json_doc *d = api_ask(cl, id, "GET", "", STR(""), e);
	if (!d || cl->cli->json)
		return d ? 0 : -1;
	struct table t = {.columns = 1};
	json_each(name, json_get(json_root(d), "envNames")) table_add(&t, name->text);
	table_print(&t, "the box has no variables");
	table_free(&t);
	return 0;
}

static int change(struct client *cl, const char *id, const struct args *a, bool set, struct err *e)
{
	auto_buf struct buf body = {0};
	struct json_writer w = json_writer(&body);
	json_object_begin(&w);
	json_key(&w, "envChanges");
	json_object_begin(&w);
	for (int i = 2; i < a->n; i++) {
		struct str value, name = str_split(str_of(a->words[i]), '=', &value);
		auto_free char *key = str_dup(name);
		if (set)
			json_member_str(&w, key, value);
		else
			json_member_cstr(&w, key, NULL);
	}
	json_object_end(&w);
	json_object_end(&w);
	auto_json struct json_doc *d = api_ask(cl, id, "PUT", "", buf_str(&body), e);
	return d ? 0 : -1;
}

int verb_env(struct cli *c, int argc, char **argv)
{
	struct args a;
	int code;
	if (!args_parse_box(c, argc, argv, argc + 1, &a, &code))
		return code;
	const char *id = a.words[0], *what = a.n > 1 ? a.words[1] : "list";
	bool lists = strcmp(what, "list") == 0, sets = strcmp(what, "set") == 0, unsets = strcmp(what, "unset") == 0;
	struct arg_list words = {.items = (const char **)a.words + 2, .n = a.n > 2 ? (size_t)a.n - 2 : 0};
	if (!lists && !sets && !unsets)
		return cli_usage(c, "unknown word '%s': write list, set or unset", what);
	if (lists && words.n)
		return cli_usage(c, "'%s' is one word too many", words.items[0]);
	if (!lists && !words.n)
		return cli_usage(c, sets ? "set which variable? Write NAME=VALUE" : "unset which variable?");
	if (sets && !exec_check_env(c, &words, &code))
		return code;
	for (size_t i = 0; unsets && i < words.n; i++)
		if (!*words.items[i] || strchr(words.items[i], '='))
			return cli_usage(c, "'%s' is not the name of a variable", words.items[i]);
	auto_client struct client cl = {0};
	struct err e;
	if (client_open(c, &cl, &e) < 0 || (!sets && api_need_box(&cl, id, &e) < 0) ||
		(lists ? list(&cl, id, &e) : change(&cl, id, &a, sets, &e)) < 0)
		return cli_fail(c, &e);
	return 0;
}
