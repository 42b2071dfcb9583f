/*
 * mount.c - `atoll mount`, `unmount` and `mounts`: buckets of a box, with keys that the box never sees.
 */
#include <stdio.h>
#include <string.h>

#include "cli/api.h"
#include "cli/args.h"
#include "cli/verb/listing.h"
#include "cli/verbs.h"

struct mount_options {
	const char *endpoint, *secret, *prefix;
	bool read_only;
};

static bool check(struct cli *c, const struct args *a, const struct mount_options *o, int *code)
{
	if (a->n != 3)
		*code = cli_usage(c, "write the box, the bucket and the place: dev my-bucket /mnt/data");
	else if (!o->endpoint)
		*code = cli_usage(c, "where is the bucket? Write --endpoint https://…");
	else if (!o->secret)
		*code = cli_usage(c, "which keys? Write --secret NAME; 'atoll secret set NAME --aws KEYID' makes one");
	else
		return true;
	return false;
}

int verb_mount(struct cli *c, int argc, char **argv)
{
	struct mount_options o = {0};
	const struct arg table[] = {{"endpoint", "URL", "of the S3 server, https", ARG_TEXT, &o.endpoint},
		{"secret", "NAME", "secret with the keys (atoll secret set --aws)", ARG_TEXT, &o.secret},
		{"prefix", "/PATH", "mount only what lies below it", ARG_TEXT, &o.prefix},
		{"read-only", NULL, "nothing can be written", ARG_FLAG, &o.read_only}, ARG_TABLE_END};
	struct args a = {.command_after = ARGS_NO_COMMAND};
	auto_buf struct buf path = {0}, body = {0}, answer = {0};
	struct json_writer w = json_writer(&body);
	struct err e;
	int code;
	if (!args_parse(c, table, argc, argv, &a, &code) || !check(c, &a, &o, &code))
		return code;
	json_object_begin(&w);
	json_member_cstr(&w, "bucket", a.words[1]);
	json_member_cstr(&w, "path", a.words[2]);
	json_member_cstr(&w, "endpoint", o.endpoint);
	json_member_cstr(&w, "secret", o.secret);
	if (o.prefix)
		json_member_cstr(&w, "prefix", o.prefix);
	json_member_bool(&w, "readOnly", o.read_only);
	json_object_end(&w);
	client_box_path(&path, a.words[0], "/mounts");
	if (client_once(c, "POST", buf_cstr(&path), buf_str(&body), &answer, &e) < 0)
		return cli_fail(c, &e);
	if (c->json)
		cli_print(&answer);
	return 0;
}

int verb_unmount(struct cli *c, int argc, char **argv)
{
	const struct arg table[] = {ARG_TABLE_END};
	struct args a = {.command_after = ARGS_NO_COMMAND};
	auto_buf struct buf rest = {0}, path = {0}, answer = {0};
	struct err e;
	int code;
	if (!args_parse(c, table, argc, argv, &a, &code))
		return code;
	if (a.n != 2)
		return cli_usage(c, "write the box and the place: dev /mnt/data");
	buf_add_c(&rest, "/mounts?path=");
	client_percent_encode(&rest, a.words[1]);
	client_box_path(&path, a.words[0], buf_cstr(&rest));
	if (client_once(c, "DELETE", buf_cstr(&path), STR(""), &answer, &e) < 0)
		return cli_fail(c, &e);
	if (c->json)
		cli_print(&answer);
	return 0;
}

static void add_row(struct table *t, const struct json *it)
{
	bool read_only = false;
	json_read_bool(it, "readOnly", &read_only, NULL);
	table_add(t, api_text(it, "path"));
	table_printf(t, "%.*s%.*s", STR_ARG(api_text(it, "bucket")), STR_ARG(api_text(it, "prefix")));
	table_add(t, api_text(it, "endpoint"));
	table_add(t, api_text(it, "secret"));
	table_add(t, read_only ? STR("ro") : STR("rw"));
}

int verb_mounts(struct cli *c, int argc, char **argv)
{
	static const char *const heads[] = {"PATH", "BUCKET", "ENDPOINT", "SECRET", "MODE"};
	static const struct listing listing = {"mounts", heads, ARRAY_LEN(heads), add_row, "no buckets are mounted"};
	const struct arg table[] = {ARG_TABLE_END};
	struct args a = {.command_after = ARGS_NO_COMMAND};
	auto_buf struct buf path = {0};
	struct err e;
	int code;
	if (!args_parse(c, table, argc, argv, &a, &code))
		return code;
	if (a.n != 1)
		return cli_usage(c, "which box? Write its name");
	client_box_path(&path, a.words[0], "/mounts");
	return listing_ask(c, buf_cstr(&path), &listing, &e) < 0 ? cli_fail(c, &e) : 0;
}
