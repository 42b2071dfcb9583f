/*
 * list.c - `atoll list` and `atoll inspect`: the boxes of a daemon, and one of them in full.
 */
#include <stdio.h>
#include <string.h>

#include "cli/box.h"
#include "cli/verbs.h"

static struct str member(const struct json *j, const char *key)
{
	struct str s = STR("-");
	json_read_str(j, key, &s, NULL);
	return s;
}

static void print_box(const struct json *j)
{
	char mem[24], age[24];
	uint64_t bytes = 0, pids = 0;
	double cpu = 0;
	const struct json *limits = json_get(j, "limits");
	json_read_u64(limits, "memory", 0, UINT64_MAX, &bytes, NULL);
	json_read_double(limits, "cpu", &cpu, NULL);
	json_read_u64(limits, "pids", 0, UINT64_MAX, &pids, NULL);
	struct str id = member(j, "id"), state = member(j, "state"), image = member(j, "image");
	printf("%-24.*s %-9.*s %-17.*s %9s %5.3g %6llu %7s\n", STR_ARG(id), STR_ARG(state), STR_ARG(image),
		box_size_text(bytes, mem), cpu, (unsigned long long)pids, box_age_text(member(j, "createdAt"), age));
}

static void print_header(void)
{
	printf("%s%-24s %-9s %-17s %9s %5s %6s %7s%s\n", cli_style(1, STYLE_BOLD), "ID", "STATE", "IMAGE", "MEMORY",
		"CPUS", "PIDS", "AGE", cli_style(1, STYLE_PLAIN));
}

static int print_each(void *arg, const struct json *box, struct err *e)
{
	(void)e;
	size_t *count = arg;
	if ((*count)++ == 0)
		print_header();
	print_box(box);
	return 0;
}

static void write_node(struct json_writer *w, const struct json *j)
{
	switch (j->type) {
	case JSON_T_NULL:
		return json_null(w);
	case JSON_T_BOOL:
		return json_bool(w, j->boolean);
	case JSON_T_NUMBER:
		return json_raw(w, j->text);
	case JSON_T_STRING:
		return json_str(w, j->text);
	case JSON_T_ARRAY:
		json_array_begin(w);
		json_each(it, j) write_node(w, it);
		return json_array_end(w);
	case JSON_T_OBJECT:
		json_object_begin(w);
		json_each(it, j)
		{
			json_key(w, it->key.p);
			write_node(w, it);
		}
		return json_object_end(w);
	}
}

static int write_each(void *arg, const struct json *box, struct err *e)
{
	(void)e;
	write_node(arg, box);
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
	static const struct arg table[] = {ARG_TABLE_END};
	struct args a = {.command_after = ARGS_NO_COMMAND};
	int code;
	if (!args_parse(c, table, argc, argv, &a, &code))
		return code;
	if (a.n)
		return cli_usage(c, "'%s' is too much: 'inspect' shows one box", a.words[0]);
	struct client cl;
	struct err e;
	size_t count = 0;
	if (client_open(c, &cl, &e) < 0 || (c->json ? list_json(&cl, &e) : box_each(&cl, print_each, &count, &e)) < 0)
		return cli_fail(c, &e);
	client_close(&cl);
	return 0;
}

static void print_text(struct str s)
{
	auto_free char *text = str_dup(s);
	cli_clean(text);
	puts(text);
}

static void print_members(const struct json *object, int depth)
{
	for (const struct json *j = object->first; j; j = j->next) {
		int n = printf("%*s%.*s", 2 * depth, "", STR_ARG(j->key));
		printf("%*s", n < 20 ? 20 - n : 1, "");
		switch (j->type) {
		case JSON_T_STRING:
		case JSON_T_NUMBER:
			print_text(j->text);
			break;
		case JSON_T_BOOL:
			puts(j->boolean ? "yes" : "no");
			break;
		case JSON_T_NULL:
			puts("-");
			break;
		case JSON_T_OBJECT:
		case JSON_T_ARRAY:
			puts(j->first ? "" : "-");
			print_members(j, depth + 1);
			break;
		}
	}
}

static int print_inspect(struct buf *body, struct err *e)
{
	auto_json struct json_doc *d = json_parse(buf_str(body), e);
	if (!d)
		return err_wrap(e, "description of the box");
	print_members(json_root(d), 0);
	return 0;
}

int verb_inspect(struct cli *c, int argc, char **argv)
{
	static const struct arg table[] = {ARG_TABLE_END};
	struct args a = {.command_after = ARGS_NO_COMMAND};
	int code;
	if (!args_parse(c, table, argc, argv, &a, &code))
		return code;
	if (a.n != 1 || !*a.words[0])
		return cli_usage(c, a.n > 1 ? "one box at a time, please" : "which box?");
	struct client cl;
	struct err e;
	auto_buf struct buf path = {0}, body = {0};
	client_box_path(&path, a.words[0], "");
	if (client_open(c, &cl, &e) < 0 || client_call(&cl, "GET", buf_cstr(&path), STR(""), &body, &e) < 0)
		return cli_fail(c, &e);
	client_close(&cl);
	if (c->json)
		cli_print(&body);
	else if (print_inspect(&body, &e) < 0)
		return cli_fail(c, &e);
	return 0;
}
