/*
 * list.c - `atoll list` and `atoll inspect`: all boxes of a daemon, and the details of one box.
 */
#include <stdio.h>
#include <string.h>

#include "cli/api.h"
#include "cli/text.h"
#include "cli/verb/box.h"
#include "cli/verbs.h"

static const char *const list_heads[] = {"ID", "STATE", "IMAGE", ">MEMORY", ">CPUS", ">PIDS", ">AGE"};

static int add_row(void *arg, const struct json *j, struct err *e)
{
	(void)e;
	struct table *t = arg;
	char mem[24], age[24];
	uint64_t bytes = 0, pids = 0;
	double cpu = 0;
	const struct json *limits = json_get(j, "limits");
	json_read_u64(limits, "memory", 0, UINT64_MAX, &bytes, NULL);
	json_read_double(limits, "cpu", &cpu, NULL);
	json_read_u64(limits, "pids", 0, UINT64_MAX, &pids, NULL);
	table_add(t, api_text(j, "id"));
	if (t->columns == 1)
		return 0;
	table_add(t, api_text(j, "state"));
	table_add(t, api_text(j, "image"));
	table_printf(t, "%s", box_size_text(bytes, mem));
	table_printf(t, "%.3g", cpu);
	table_printf(t, "%llu", (unsigned long long)pids);
	table_printf(t, "%s", box_age_text(api_text(j, "createdAt"), age));
	return 0;
}

static int list_text(struct client *cl, bool quiet, struct err *e)
{
	struct table t = {.columns = quiet ? 1 : ARRAY_LEN(list_heads), .heads = quiet ? NULL : list_heads};
	int r = box_each(cl, add_row, &t, e);
	if (r == 0)
		table_print(&t, quiet ? NULL : "no boxes");
	table_free(&t);
	return r;
}

static int write_each(void *arg, const struct json *box, struct err *e)
{
	(void)e;
	auto_buf struct buf b = {0};
	json_put_tree(&b, box);
	json_raw(arg, buf_str(&b));
	return 0;
}

static int list_json(struct client *cl, struct err *e)
{
	auto_buf struct buf out = {0};
	struct json_writer w = json_writer(&out);
	json_object_begin(&w);
	json_key(&w, "sandboxes");
	json_array_begin(&w);
	if (box_each(cl, write_each, &w, e) < 0)
		return -1;
	json_array_end(&w);
	json_object_end(&w);
	cli_print(&out);
	return 0;
}

int verb_list(struct cli *c, int argc, char **argv)
{
	bool quiet = false;
	const struct arg table[] = {{"quiet", NULL, "only the names", ARG_FLAG, &quiet, 'q'}, ARG_TABLE_END};
	struct args a = {.command_after = ARGS_NO_COMMAND};
	int code;
	if (!args_parse(c, table, argc, argv, &a, &code))
		return code;
	if (a.n)
		return cli_usage(c, "'%s' is one word too many: inspect shows one box", a.words[0]);
	auto_client struct client cl = {0};
	struct err e;
	if (client_open(c, &cl, &e) < 0 || (c->json ? list_json(&cl, &e) : list_text(&cl, quiet, &e)) < 0)
		return cli_fail(c, &e);
	return 0;
}

static void print_members(struct buf *to, const struct json *object, int depth)
{
	for (const struct json *j = object->first; j; j = j->next) {
		bool inner = j->type == JSON_T_OBJECT || j->type == JSON_T_ARRAY;
		struct str text = j->type == JSON_T_BOOL ? (j->boolean ? STR("yes") : STR("no"))
				  : j->type == JSON_T_NULL || (inner && !j->first) ? STR("-")
				  : inner					   ? STR("")
										   : j->text;
		size_t before = buf_size(to);
		buf_printf(to, "%*s", 2 * depth, "");
		text_put_safe(to, j->key);
		size_t n = buf_size(to) - before;
		if (text.n)
			buf_printf(to, "%*s", n < 20 ? 20 - (int)n : 1, "");
		text_put_safe(to, text);
		buf_add_byte(to, '\n');
		if (inner)
			print_members(to, j, depth + 1);
	}
}

static int print_inspect(struct buf *body, struct err *e)
{
	auto_json struct json_doc *d = json_parse(buf_str(body), e);
	if (!d)
		return err_wrap(e, "description of the box");
	auto_buf struct buf out = {0};
	print_members(&out, json_root(d), 0);
	cli_print(&out);
	return 0;
}

int verb_inspect(struct cli *c, int argc, char **argv)
{
	struct args a;
	int code;
	if (!args_parse_box(c, argc, argv, 1, &a, &code))
		return code;
	struct err e;
	auto_buf struct buf path = {0}, body = {0};
	client_box_path(&path, a.words[0], "");
	if (client_once(c, "GET", buf_cstr(&path), STR(""), &body, &e) < 0)
		return cli_fail(c, &e);
	if (c->json)
		cli_print(&body);
	else if (print_inspect(&body, &e) < 0)
		return cli_fail(c, &e);
	return 0;
}
