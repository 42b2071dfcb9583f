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

static int print_list(struct cli *c, struct buf *body)
{
	struct err e;
	struct json_doc *d = json_parse(buf_str(body), &e);
	if (!d) {
		err_wrap(&e, "list of boxes");
		return cli_fail(c, &e);
	}
	const struct json *list = json_get(json_root(d), "sandboxes");
	if (isatty(STDOUT_FILENO) || (list && list->first))
		printf("%s%-24s %-9s %-17s %9s %5s %6s %7s%s\n", cli_style(1, STYLE_BOLD), "ID", "STATE", "IMAGE",
			"MEMORY", "CPUS", "PIDS", "AGE", cli_style(1, STYLE_PLAIN));
	for (const struct json *j = list ? list->first : NULL; j; j = j->next)
		print_box(j);
	json_free(d);
	return 0;
}

/* GET, then the body as it is or through `print`. */
static int show(struct cli *c, const char *path, int (*print)(struct cli *, struct buf *))
{
	struct client cl;
	struct err e;
	auto_buf struct buf body = {0};
	if (client_open(c, &cl, &e) < 0 || client_call(&cl, "GET", path, STR(""), &body, &e) < 0)
		return cli_fail(c, &e);
	client_close(&cl);
	if (!c->json)
		return print(c, &body);
	cli_print(&body);
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
	return show(c, "/v1/sandboxes", print_list);
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

static int print_inspect(struct cli *c, struct buf *body)
{
	struct err e;
	struct json_doc *d = json_parse(buf_str(body), &e);
	if (!d) {
		err_wrap(&e, "description of the box");
		return cli_fail(c, &e);
	}
	print_members(json_root(d), 0);
	json_free(d);
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
	auto_buf struct buf path = {0};
	client_box_path(&path, a.words[0], "");
	return show(c, buf_cstr(&path), print_inspect);
}
