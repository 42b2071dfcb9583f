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

/* What is listed: boxes that have all labels, "K=V" or "K". */
struct box_listing {
	const struct arg_list *labels;
	struct table *table;
	struct json_writer *w;
	size_t n;
};

static bool has_label(const struct json *box, const char *want)
{
	struct str value, name = str_split(str_of(want), '=', &value);
	json_each(it, json_get(box, "labels"))
	{
		if (str_eq(it->key, name))
			return name.n == strlen(want) || str_eq(it->text, value);
	}
	return false;
}

static bool is_wanted(const struct box_listing *l, const struct json *box)
{
	for (size_t i = 0; i < l->labels->n; i++)
		if (!has_label(box, l->labels->items[i]))
			return false;
	return true;
}

static int add_row(void *arg, const struct json *j, struct err *e)
{
	(void)e;
	struct box_listing *l = arg;
	struct table *t = l->table;
	if (!is_wanted(l, j))
		return 0;
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

static int list_text(struct client *cl, bool quiet, const struct arg_list *labels, struct err *e)
{
	struct table t = {.columns = quiet ? 1 : ARRAY_LEN(list_heads), .heads = quiet ? NULL : list_heads};
	struct box_listing l = {.labels = labels, .table = &t};
	int r = box_each(cl, add_row, &l, e);
	if (r == 0)
		table_print(&t, quiet ? NULL : labels->n ? "no boxes with these labels" : "no boxes");
	table_free(&t);
	return r;
}

static int write_each(void *arg, const struct json *box, struct err *e)
{
	(void)e;
	struct box_listing *l = arg;
	auto_buf struct buf b = {0};
	if (!is_wanted(l, box))
		return 0;
	json_put_tree(&b, box);
	json_raw(l->w, buf_str(&b));
	return 0;
}

static int list_json(struct client *cl, const struct arg_list *labels, struct err *e)
{
	auto_buf struct buf out = {0};
	struct json_writer w = json_writer(&out);
	json_object_begin(&w);
	json_key(&w, "sandboxes");
	json_array_begin(&w);
	struct box_listing l = {.labels = labels, .w = &w};
	if (box_each(cl, write_each, &l, e) < 0)
		return -1;
	json_array_end(&w);
	json_object_end(&w);
	cli_print(&out);
	return 0;
}

int verb_list(struct cli *c, int argc, char **argv)
{
	bool quiet = false;
	struct arg_list labels = {0};
	const struct arg table[] = {{"quiet", NULL, "only the names", ARG_FLAG, &quiet, 'q'},
		{"label", "K[=V]", "only boxes with this label; may be repeated", ARG_LIST, &labels, 'l'},
		ARG_TABLE_END};
	struct args a = {.command_after = ARGS_NO_COMMAND};
	int code;
	if (!args_parse(c, table, argc, argv, &a, &code))
		return code;
	if (a.n)
		return cli_usage(c, "'%s' is one word too many: inspect shows one box", a.words[0]);
	auto_client struct client cl = {0};
	struct err e;
	if (client_open(c, &cl, &e) < 0 ||
		(c->json ? list_json(&cl, &labels, &e) : list_text(&cl, quiet, &labels, &e)) < 0)
		return cli_fail(c, &e);
	return 0;
}

/* A number that counts bytes or seconds, for people. False: as it is. */
static bool put_number(struct buf *to, const struct json *j)
{
	static const char *const sizes[] = {
		"memory", "memoryPeak", "swap", "disk", "used", "allowed", "bytesSent", "bytesReceived"};
	uint64_t n;
	char text[24];
	if (j->type != JSON_T_NUMBER || !str_to_u64(j->text, UINT64_MAX, &n))
		return false;
	for (size_t i = 0; i < ARRAY_LEN(sizes); i++)
		if (str_eq_c(j->key, sizes[i]))
			return buf_add_c(to, box_size_text(n, text));
	if (!str_eq_c(j->key, "sleepAfter"))
		return false;
	if (n && n % 3600 == 0)
		return buf_printf(to, "%llu h", (unsigned long long)n / 3600), true;
	return buf_printf(to, n && n % 60 == 0 ? "%llu min" : "%llu s",
		       (unsigned long long)(n && n % 60 == 0 ? n / 60 : n)),
	       true;
}

static void print_members(struct buf *to, const struct json *object, int depth)
{
	for (const struct json *j = object->first; j; j = j->next) {
		if (str_eq_c(j->key, "sleepAfterChosen")) /* for programs */
			continue;
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
		if (!put_number(to, j))
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
