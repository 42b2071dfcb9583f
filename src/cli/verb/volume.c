/*
 * volume.c - `atoll volume`: directories that outlive boxes and that several boxes share.
 */
#include <stdio.h>
#include <string.h>

#include "cli/api.h"
#include "cli/args.h"
#include "cli/client.h"
#include "cli/verb/box.h"
#include "cli/verb/delete.h"
#include "cli/verb/listing.h"
#include "cli/verbs.h"

static int make(struct cli *c, const char *name, uint64_t size, struct err *e)
{
	auto_buf struct buf path = {0}, body = {0}, answer = {0};
	buf_add_c(&path, "/v1/volumes/");
	client_percent_encode(&path, name);
	if (size)
		buf_printf(&body, "{\"size\":%llu}", (unsigned long long)size);
	if (client_once(c, "POST", buf_cstr(&path), buf_str(&body), &answer, e) < 0)
		return -1;
	if (c->json)
		cli_print(&answer);
	else
		printf("%s\n", name);
	return 0;
}

static void add_row(struct table *t, const struct json *it)
{
	uint64_t size = 0, users = 0;
	char text[24];
	json_read_u64(it, "size", 0, UINT64_MAX, &size, NULL);
	json_read_u64(it, "users", 0, UINT64_MAX, &users, NULL);
	table_add(t, api_text(it, "name"));
	table_printf(t, "%s", box_size_text(size, text));
	table_printf(t, "%llu", (unsigned long long)users);
	table_printf(t, "%s", box_age_text(api_text(it, "createdAt"), text));
}

static const char *const heads[] = {"NAME", ">SIZE", ">SANDBOXES", ">AGE"};
static const struct listing listing = {"volumes", heads, ARRAY_LEN(heads), add_row, "there are no volumes"};

static const char *action(const struct args *a)
{
	return !a->n || strcmp(a->words[0], "list") == 0 ? "ls" : a->words[0];
}

static bool check(struct cli *c, const struct args *a, uint64_t size, int *code)
{
	const char *what = action(a);
	bool makes = strcmp(what, "create") == 0, lists = strcmp(what, "ls") == 0, removes = strcmp(what, "rm") == 0;
	if (!makes && !lists && !removes)
		*code = cli_usage(c, "create, ls or rm, not '%s'", what);
	else if (lists && a->n > 1)
		*code = cli_usage(c, "'%s' is one word too many", a->words[1]);
	else if (!lists && (a->n < 2 || !*a->words[1]))
		*code = cli_usage(c, "which volume? Write its name");
	else if (makes && a->n > 2)
		*code = cli_usage(c, "create makes one volume at a time");
	else if (size && !makes)
		*code = cli_usage(c, "--size goes with create");
	else
		return true;
	return false;
}

int verb_volume(struct cli *c, int argc, char **argv)
{
	uint64_t size = 0;
	const struct arg table[] = {
		{"size", "SIZE", "with create: how much it may hold, as in 2g (default: 8g)", ARG_BYTES, &size},
		ARG_TABLE_END};
	struct args a = {.command_after = ARGS_NO_COMMAND};
	struct err e;
	int code;
	if (!args_parse(c, table, argc, argv, &a, &code) || !check(c, &a, size, &code))
		return code;
	const char *what = action(&a);
	if (strcmp(what, "rm") == 0)
		return delete_from(c, "/v1/volumes/", a.words + 1, a.n - 1);
	int r = strcmp(what, "create") == 0 ? make(c, a.words[1], size, &e)
					    : listing_ask(c, "/v1/volumes", &listing, &e);
	return r < 0 ? cli_fail(c, &e) : 0;
}
