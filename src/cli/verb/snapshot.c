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
#include "cli/verbs.h"

/* Parses a command line without options but those of `table`, with the box as its first word. */
static bool parse(
	struct cli *c, const struct arg *table, int argc, char **argv, struct args *a, const char **ret_id, int *code)
{
	*a = (struct args){.command_after = ARGS_NO_COMMAND};
	return args_parse(c, table, argc, argv, a, code) && args_box(c, a, a->n, ret_id, code);
}

/* Asks, and prints the answer when --json was given. */
static struct json_doc *ask(
	struct cli *c, const char *id, const char *method, const char *rest, struct str body, struct err *e)
{
	auto_client struct client cl = {0};
	return api_open_box(c, &cl, id, e) < 0 ? NULL : api_ask(&cl, id, method, rest, body, e);
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
	const struct arg table[] = {ARG_TABLE_END};
	struct args a;
	const char *id;
	struct err e;
	int code;
	auto_buf struct buf body = {0};
	if (!parse(c, table, argc, argv, &a, &id, &code))
		return code;
	if (a.n > 2)
		return cli_usage(c, "'%s' is too much: a snapshot has one name", a.words[2]);
	one_member(&body, "name", a.n > 1 ? a.words[1] : NULL);
	auto_json struct json_doc *d = ask(c, id, "POST", "/snapshots", buf_str(&body), &e);
	if (!d)
		return cli_fail(c, &e);
	if (!c->json)
		print_text(json_root(d), "id");
	return 0;
}

static void print_snapshots(const struct json *list)
{
	static const char *const heads[] = {"ID", "NAME", ">SIZE", ">AGE"};
	struct table t = {.columns = ARRAY_LEN(heads), .heads = heads};
	auto_buf struct buf out = {.max = SIZE_MAX / 2};
	char text[24];
	json_each(it, list)
	{
		uint64_t size = 0;
		json_read_u64(it, "size", 0, UINT64_MAX, &size, NULL);
		table_add(&t, api_text(it, "id"));
		table_add(&t, api_text(it, "name"));
		table_printf(&t, "%s", box_size_text(size, text));
		table_printf(&t, "%s", box_age_text(api_text(it, "createdAt"), text));
	}
	table_put(&t, &out);
	table_free(&t);
	cli_print(&out);
}

static int delete_snapshots(struct cli *c, const char *id, const struct args *a, struct err *e)
{
	for (int i = 2; i < a->n; i++) {
		auto_buf struct buf rest = {0}, path = {0}, body = {0};
		buf_add_c(&rest, "/snapshots/");
		client_percent_encode(&rest, a->words[i]);
		client_box_path(&path, id, buf_cstr(&rest));
		if (client_once(c, "DELETE", buf_cstr(&path), STR(""), &body, e) < 0)
			return cli_fail(c, e);
		if (!c->json)
			printf("%s\n", a->words[i]);
	}
	return 0;
}

int verb_snapshots(struct cli *c, int argc, char **argv)
{
	const struct arg table[] = {ARG_TABLE_END};
	struct args a;
	const char *id;
	struct err e;
	int code;
	if (!parse(c, table, argc, argv, &a, &id, &code))
		return code;
	if (a.n > 1 && strcmp(a.words[1], "rm") != 0)
		return cli_usage(c, "rm, not '%s'", a.words[1]);
	if (a.n == 2)
		return cli_usage(c, "which snapshots? Write their ids");
	if (a.n > 2)
		return delete_snapshots(c, id, &a, &e);
	auto_json struct json_doc *d = ask(c, id, "GET", "/snapshots", STR(""), &e);
	if (!d)
		return cli_fail(c, &e);
	const struct json *list = json_get(json_root(d), "snapshots");
	if (!c->json && list && list->first)
		print_snapshots(list);
	return 0;
}

int verb_restore(struct cli *c, int argc, char **argv)
{
	const char *backup = NULL;
	const struct arg table[] = {
		{"backup", "BACKUP", "from this backup instead of a snapshot", ARG_TEXT, &backup, 0}, ARG_TABLE_END};
	struct args a;
	const char *id;
	struct err e;
	int code;
	auto_buf struct buf body = {0};
	if (!parse(c, table, argc, argv, &a, &id, &code))
		return code;
	if (backup && a.n == 1)
		return backup_restore(c, id, backup);
	if (backup || a.n != 2)
		return cli_usage(c,
			backup ? "a snapshot or --backup, not both" : "which snapshot? 'atoll snapshots %s' lists them",
			id);
	one_member(&body, "snapshot", a.words[1]);
	auto_json struct json_doc *d = ask(c, id, "POST", "/restore", buf_str(&body), &e);
	return d ? 0 : cli_fail(c, &e);
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
	struct args a;
	const char *id;
	struct err e;
	int code;
	auto_buf struct buf body = {0};
	if (!parse(c, table, argc, argv, &a, &id, &code))
		return code;
	if (count && a.n > 1)
		return cli_usage(c, "names or --count, not both");
	write_fork(&body, &a, count);
	auto_json struct json_doc *d = ask(c, id, "POST", "/fork", buf_str(&body), &e);
	if (!d)
		return cli_fail(c, &e);
	if (!c->json)
		json_each(it, json_get(json_root(d), "sandboxes")) print_text(it, "id");
	return 0;
}

int verb_replace(struct cli *c, int argc, char **argv)
{
	const struct arg table[] = {ARG_TABLE_END};
	struct args a;
	const char *id;
	struct err e;
	int code;
	auto_buf struct buf body = {0};
	if (!parse(c, table, argc, argv, &a, &id, &code))
		return code;
	if (a.n != 2)
		return cli_usage(c, "whose files? Write the name of another box");
	struct json_writer w = json_writer(&body);
	json_object_begin(&w);
	json_key(&w, "from");
	json_object_begin(&w);
	json_member_cstr(&w, "sandbox", a.words[1]);
	json_object_end(&w);
	json_object_end(&w);
	auto_json struct json_doc *d = ask(c, id, "POST", "/replace", buf_str(&body), &e);
	return d ? 0 : cli_fail(c, &e);
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

int verb_diff(struct cli *c, int argc, char **argv)
{
	const struct arg table[] = {ARG_TABLE_END};
	struct args a;
	const char *id;
	struct err e;
	int code;
	auto_buf struct buf rest = {0}, out = {.max = SIZE_MAX / 2};
	if (!parse(c, table, argc, argv, &a, &id, &code))
		return code;
	if (a.n != 2)
		return cli_usage(c, "since which snapshot? 'atoll snapshots %s' lists them", id);
	buf_add_c(&rest, "/diff?from=");
	client_percent_encode(&rest, a.words[1]);
	auto_json struct json_doc *d = ask(c, id, "GET", buf_cstr(&rest), STR(""), &e);
	if (!d)
		return cli_fail(c, &e);
	bool cut = false;
	json_read_bool(json_root(d), "truncated", &cut, NULL);
	if (!c->json) {
		print_paths(&out, json_get(json_root(d), "added"), 'A', STYLE_GREEN);
		print_paths(&out, json_get(json_root(d), "changed"), 'C', STYLE_BOLD);
		print_paths(&out, json_get(json_root(d), "deleted"), 'D', STYLE_RED);
		cli_print(&out);
	}
	if (cut)
		fprintf(stderr, "atoll diff: there are more changes than can be listed\n");
	return 0;
}
