/*
 * snapshot.c - `atoll snapshot`, `snapshots`, `restore`, `fork`, `replace` and `diff`: the files of boxes at moments.
 */
#include <stdio.h>
#include <string.h>

#include "cli/api.h"
#include "cli/args.h"
#include "cli/text.h"
#include "cli/verb/backup.h"
#include "cli/verb/box.h"
#include "cli/verb/listing.h"
#include "cli/verbs.h"

/* One call of these verbs: the box is the first word; a body or a path is made; the answer is printed as JSON when it
 * was asked for. */
struct snapshot_call {
	struct cli *c;
	struct args a;
	const char *id;
	struct err e;
	struct json_doc *answer;
};

#define auto_call __attribute__((cleanup(call_close)))

static void call_close(struct snapshot_call *k)
{
	json_free(k->answer);
}

/* False: *code is the exit code of the program. */
static bool call_parse(struct snapshot_call *k, const struct arg *table, int argc, char **argv, int *code)
{
	static const struct arg no_options[] = {ARG_TABLE_END};
	k->a = (struct args){.command_after = ARGS_NO_COMMAND};
	return args_parse(k->c, table ? table : no_options, argc, argv, &k->a, code) &&
	       args_box(k->c, &k->a, k->a.n, &k->id, code);
}

/* Returns the exit code; 0 with the answer. */
static int call_ask(struct snapshot_call *k, const char *method, const char *rest, struct str body)
{
	auto_client struct client cl = {0};
	if (api_open_box(k->c, &cl, k->id, &k->e) == 0)
		k->answer = api_ask(&cl, k->id, method, rest, body, &k->e);
	return k->answer ? 0 : cli_fail(k->c, &k->e);
}

static void one_member(struct buf *body, const char *key, const char *value)
{
	struct json_writer w = json_writer(body);
	json_object_begin(&w);
	if (value)
		json_member_cstr(&w, key, value);
	json_object_end(&w);
}

static void print_text(const struct json *j, const char *key)
{
	auto_buf struct buf out = {0};
	text_put_safe(&out, api_text(j, key));
	buf_add_byte(&out, '\n');
	cli_print(&out);
}

/* ---- snapshots ---- */

int verb_snapshot(struct cli *c, int argc, char **argv)
{
	auto_call struct snapshot_call k = {.c = c};
	auto_buf struct buf body = {0};
	int code;
	if (!call_parse(&k, NULL, argc, argv, &code))
		return code;
	if (k.a.n > 2)
		return cli_usage(c, "'%s' is too much: a snapshot has one name", k.a.words[2]);
	one_member(&body, "name", k.a.n > 1 ? k.a.words[1] : NULL);
	code = call_ask(&k, "POST", "/snapshots", buf_str(&body));
	if (!code && !c->json)
		print_text(json_root(k.answer), "id");
	return code;
}

static void add_row(struct table *t, const struct json *it)
{
	uint64_t size = 0;
	char text[24];
	json_read_u64(it, "size", 0, UINT64_MAX, &size, NULL);
	table_add(t, api_text(it, "id"));
	table_add(t, api_text(it, "name"));
	table_printf(t, "%s", box_size_text(size, text));
	table_printf(t, "%s", box_age_text(api_text(it, "createdAt"), text));
}

static const char *const heads[] = {"ID", "NAME", ">SIZE", ">AGE"};
static const struct listing listing = {"snapshots", heads, ARRAY_LEN(heads), add_row, "there are no snapshots"};

static int delete_snapshots(struct snapshot_call *k)
{
	for (int i = 2; i < k->a.n; i++) {
		auto_buf struct buf rest = {0}, path = {0}, body = {0};
		buf_add_c(&rest, "/snapshots/");
		client_percent_encode(&rest, k->a.words[i]);
		client_box_path(&path, k->id, buf_cstr(&rest));
		if (client_once(k->c, "DELETE", buf_cstr(&path), STR(""), &body, &k->e) < 0)
			return cli_fail(k->c, &k->e);
		if (!k->c->json)
			printf("%s\n", k->a.words[i]);
	}
	return 0;
}

int verb_snapshots(struct cli *c, int argc, char **argv)
{
	auto_call struct snapshot_call k = {.c = c};
	int code;
	if (!call_parse(&k, NULL, argc, argv, &code))
		return code;
	if (k.a.n > 1 && strcmp(k.a.words[1], "rm") != 0)
		return cli_usage(c, "rm, not '%s'", k.a.words[1]);
	if (k.a.n == 2)
		return cli_usage(c, "which snapshots? Write their ids");
	if (k.a.n > 2)
		return delete_snapshots(&k);
	code = call_ask(&k, "GET", "/snapshots", STR(""));
	if (!c->json && !code)
		listing_print(&listing, json_root(k.answer));
	return code;
}

int verb_restore(struct cli *c, int argc, char **argv)
{
	const char *backup = NULL;
	const struct arg table[] = {
		{"backup", "BACKUP", "from this backup instead of a snapshot", ARG_TEXT, &backup, 0}, ARG_TABLE_END};
	auto_call struct snapshot_call k = {.c = c};
	auto_buf struct buf body = {0};
	int code;
	if (!call_parse(&k, table, argc, argv, &code))
		return code;
	if (backup && k.a.n == 1)
		return backup_restore(c, k.id, backup);
	if (backup)
		return cli_usage(c, "a snapshot or --backup, not both");
	if (k.a.n != 2)
		return cli_usage(c, "which snapshot? 'atoll snapshots %s' lists them", k.id);
	one_member(&body, "snapshot", k.a.words[1]);
	return call_ask(&k, "POST", "/restore", buf_str(&body));
}

/* ---- forks ---- */

static void write_fork(struct buf *body, const struct args *a, uint64_t count)
{
	struct json_writer w = json_writer(body);
	json_object_begin(&w);
	if (a->n > 1) {
		json_key(&w, "ids");
		json_array_begin(&w);
		for (int i = 1; i < a->n; i++)
			json_cstr(&w, a->words[i]);
		json_array_end(&w);
	} else {
		json_member_u64(&w, "count", count ? count : 1);
	}
	json_object_end(&w);
}

int verb_fork(struct cli *c, int argc, char **argv)
{
	uint64_t count = 0;
	const struct arg table[] = {
		{"count", "N", "make so many, named ID-1, ID-2 … (default: 1)", ARG_COUNT, &count, 'n'}, ARG_TABLE_END};
	auto_call struct snapshot_call k = {.c = c};
	auto_buf struct buf body = {0};
	int code;
	if (!call_parse(&k, table, argc, argv, &code))
		return code;
	if (count && k.a.n > 1)
		return cli_usage(c, "names or --count, not both");
	write_fork(&body, &k.a, count);
	code = call_ask(&k, "POST", "/fork", buf_str(&body));
	if (!code && !c->json)
		json_each(it, json_get(json_root(k.answer), "sandboxes")) print_text(it, "id");
	return code;
}

int verb_replace(struct cli *c, int argc, char **argv)
{
	auto_call struct snapshot_call k = {.c = c};
	auto_buf struct buf from = {0}, body = {0};
	int code;
	if (!call_parse(&k, NULL, argc, argv, &code))
		return code;
	if (k.a.n != 2)
		return cli_usage(c, "whose files? Write the name of another box");
	one_member(&from, "sandbox", k.a.words[1]);
	buf_printf(&body, "{\"from\":%s}", buf_cstr(&from));
	return call_ask(&k, "POST", "/replace", buf_str(&body));
}

/* ---- differences ---- */

static void print_paths(struct buf *out, const struct json *list, char mark, enum cli_style style)
{
	json_each(it, list)
	{
		buf_printf(
			out, "%s%c%s ", cli_style(STDOUT_FILENO, style), mark, cli_style(STDOUT_FILENO, STYLE_PLAIN));
		text_put_safe(out, it->text);
		buf_add_byte(out, '\n');
	}
}

static void print_diff(const struct json *root)
{
	auto_buf struct buf out = {.max = SIZE_MAX / 2};
	print_paths(&out, json_get(root, "added"), 'A', STYLE_GREEN);
	print_paths(&out, json_get(root, "changed"), 'C', STYLE_BOLD);
	print_paths(&out, json_get(root, "deleted"), 'D', STYLE_RED);
	if (buf_size(&out))
		cli_print(&out);
	else
		fputs("nothing has changed since the snapshot\n", stderr);
}

int verb_diff(struct cli *c, int argc, char **argv)
{
	auto_call struct snapshot_call k = {.c = c};
	auto_buf struct buf rest = {0};
	bool cut = false;
	int code;
	if (!call_parse(&k, NULL, argc, argv, &code))
		return code;
	if (k.a.n != 2)
		return cli_usage(c, "since which snapshot? 'atoll snapshots %s' lists them", k.id);
	buf_add_c(&rest, "/diff?from=");
	client_percent_encode(&rest, k.a.words[1]);
	code = call_ask(&k, "GET", buf_cstr(&rest), STR(""));
	if (code)
		return code;
	json_read_bool(json_root(k.answer), "truncated", &cut, NULL);
	if (!c->json)
		print_diff(json_root(k.answer));
	if (cut)
		fprintf(stderr, "atoll diff: there are more changes than can be listed\n");
	return 0;
}
