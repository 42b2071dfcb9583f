/*
 * token.c - `atoll token`: named tokens for programs and people, which can be revoked one by one.
 */
#include <stdio.h>
#include <string.h>

#include "cli/api.h"
#include "cli/args.h"
#include "cli/verb/box.h"
#include "cli/verb/delete.h"
#include "cli/verb/listing.h"
#include "cli/verbs.h"

/* The value alone: `export ATOLL_TOKEN=$(atoll token create ci)`. */
static int make(struct cli *c, const char *name, const char *ttl, struct err *e)
{
	auto_buf struct buf body = {0};
	struct json_writer w = json_writer(&body);
	json_object_begin(&w);
	json_member_cstr(&w, "name", name);
	if (ttl)
		json_member_cstr(&w, "ttl", ttl);
	json_object_end(&w);
	auto_json struct json_doc *d = api_once(c, "POST", "/v1/tokens", buf_str(&body), e);
	if (!d)
		return -1;
	if (!c->json)
		printf("%.*s\n", STR_ARG(api_text(json_root(d), "token")));
	json_wipe(d);
	return 0;
}

static void add_row(struct table *t, const struct json *it)
{
	char text[24];
	table_add(t, api_text(it, "name"));
	table_printf(t, "%s", box_age_text(api_text(it, "createdAt"), text));
	table_add(t, json_is_null(json_get(it, "lastUsedAt")) ? STR("never") : api_text(it, "lastUsedAt"));
	table_add(t, json_is_null(json_get(it, "expiresAt")) ? STR("never") : api_text(it, "expiresAt"));
	table_add(t, json_is_null(json_get(it, "madeBy")) ? STR("-") : api_text(it, "madeBy"));
}

static const char *const heads[] = {"NAME", ">AGE", "LAST USED", "EXPIRES", "MADE BY"};
static const struct listing listing = {"tokens", heads, ARRAY_LEN(heads), add_row, "there are no named tokens"};

static bool check(struct cli *c, const struct args *a, const char *ttl, int *code)
{
	const char *what = a->n ? a->words[0] : "list";
	bool makes = strcmp(what, "create") == 0, lists = strcmp(what, "list") == 0, removes = strcmp(what, "rm") == 0;
	if (!makes && !lists && !removes)
		*code = cli_usage(c, "create, list or rm, not '%s'", what);
	else if (lists && a->n > 1)
		*code = cli_usage(c, "'%s' is one word too many", a->words[1]);
	else if (!lists && (a->n < 2 || !*a->words[1]))
		*code = cli_usage(c, "which token? Write its name");
	else if (makes && a->n > 2)
		*code = cli_usage(c, "create makes one token at a time");
	else if (ttl && !makes)
		*code = cli_usage(c, "--ttl goes with create");
	else
		return true;
	return false;
}

int verb_token(struct cli *c, int argc, char **argv)
{
	const char *ttl = NULL;
	const struct arg table[] = {
		{"ttl", "TIME", "with create: how long it is valid, as in 12h or 30d (default: until rm)", ARG_TEXT,
			&ttl},
		ARG_TABLE_END};
	struct args a = {.command_after = ARGS_NO_COMMAND};
	struct err e;
	int code;
	if (!args_parse(c, table, argc, argv, &a, &code) || !check(c, &a, ttl, &code))
		return code;
	const char *what = a.n ? a.words[0] : "list";
	if (strcmp(what, "rm") == 0)
		return delete_from(c, "/v1/tokens/", a.words + 1, a.n - 1);
	int r = strcmp(what, "create") == 0 ? make(c, a.words[1], ttl, &e) : listing_ask(c, "/v1/tokens", &listing, &e);
	return r < 0 ? cli_fail(c, &e) : 0;
}
