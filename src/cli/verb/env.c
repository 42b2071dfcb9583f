/*
 * env.c - `atoll env`: the variables with which programs in a box start, and those that lead other programs here.
 */
#include <stdio.h>
#include <stdlib.h>
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

/* ---- --export ---- */

static void put_export(struct buf *out, const char *name, const char *value)
{
	buf_printf(out, " %s='", name);
	for (; *value; value++)
		if (*value == '\'')
			buf_add_c(out, "'\\''");
		else
			buf_add_byte(out, *value);
	buf_add_byte(out, '\'');
}

static void print_export(struct cli *c, const char *url, const char *token)
{
	auto_buf struct buf out = {0};
	if (c->json) {
		struct json_writer w = json_writer(&out);
		json_object_begin(&w);
		json_member_cstr(&w, "url", url);
		json_member_cstr(&w, "token", *token ? token : NULL);
		json_object_end(&w);
	} else {
		buf_add_c(&out, "export");
		put_export(&out, "ATOLL_URL", url);
		if (*token)
			put_export(&out, "ATOLL_TOKEN", token);
	}
	cli_print(&out);
}

/* curl needs TCP and a token where this program uses the socket, so the daemon's address is looked up. What is printed
 * has been tried: a token that the daemon refuses is an error here. */
static int print_exports(struct cli *c, struct err *e)
{
	auto_client struct client cl = {0};
	auto_buf struct buf answer = {0};
	char address[CLIENT_ADDRESS_MAX], url[CLIENT_ADDRESS_MAX + 8];
	const char *set = getenv("ATOLL_URL");
	if (!set || !*set) {
		client_listed_address(address);
		snprintf(url, sizeof url, "http://%s", address);
		setenv("ATOLL_URL", url, 1);
		set = url;
	}
	if (client_open(c, &cl, e) < 0 || client_call(&cl, "GET", "/v1/sandboxes?limit=1", STR(""), &answer, e) < 0)
		return -1;
	const char *space = strchr(cl.authorization, ' ');
	print_export(c, set, space ? space + 1 : "");
	return 0;
}

/* ---- the verb ---- */

int verb_env(struct cli *c, int argc, char **argv)
{
	bool exports = false;
	const char *id;
	const struct arg table[] = {
		{"export", NULL, "print ATOLL_URL and ATOLL_TOKEN for a shell", ARG_FLAG, &exports}, ARG_TABLE_END};
	struct args a = {.command_after = ARGS_NO_COMMAND};
	struct err e;
	int code;
	if (!args_parse(c, table, argc, argv, &a, &code))
		return code;
	if (exports && a.n)
		return cli_usage(c, "'%s' is one word too many: --export is about the daemon", a.words[0]);
	if (exports)
		return print_exports(c, &e) < 0 ? cli_fail(c, &e) : 0;
	if (!args_box(c, &a, argc + 1, &id, &code))
		return code;
	const char *what = a.n > 1 ? a.words[1] : "list";
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
	if (client_open(c, &cl, &e) < 0 || (!sets && api_need_box(&cl, id, &e) < 0) ||
		(lists ? list(&cl, id, &e) : change(&cl, id, &a, sets, &e)) < 0)
		return cli_fail(c, &e);
	return 0;
}
