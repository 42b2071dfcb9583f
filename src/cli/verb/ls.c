/*
 * ls.c - `atoll ls`: lists a directory of a box, as ls(1) does.
 */
#include "cli/verb/ls.h"

#include <stdio.h>
#include <string.h>

#include "cli/args.h"
#include "cli/text.h"
#include "cli/verbs.h"

struct ls {
	struct client cl;
	const char *id;
	bool longer, hidden, recursive, terminal;
	struct buf out;
};

/* A directory's own entries come before those of its subdirectories: "b" before "a/x", as in ls -R. */
static size_t dir_len(const char *path)
{
	const char *slash = strrchr(path, '/');
	return slash ? (size_t)(slash - path) : 0;
}

static int by_place(const void *pa, const void *pb)
{
	const char *a = ((const struct ls_entry *)pa)->path, *b = ((const struct ls_entry *)pb)->path;
	size_t na = dir_len(a), nb = dir_len(b);
	int r = memcmp(a, b, na < nb ? na : nb);
	return r ? r : na != nb ? (na < nb ? -1 : 1) : strcmp(a, b);
}

static const char *base_name(const struct ls_entry *n)
{
	const char *slash = strrchr(n->path, '/');
	return slash ? slash + 1 : n->path;
}

static enum cli_style style_of(const struct ls_entry *n)
{
	return n->type == 'd'		      ? STYLE_BLUE
	       : n->type == 'l'		      ? STYLE_CYAN
	       : strchr(n->mode, 'x') != NULL ? STYLE_GREEN
					      : STYLE_PLAIN;
}

/* Prints the raw name to a program, and a name that cannot harm the terminal to a person. */
static void put_name(struct ls *l, const struct ls_entry *n)
{
	enum cli_style style = style_of(n);
	const char *on = style == STYLE_PLAIN ? "" : cli_style(STDOUT_FILENO, style);
	buf_add_c(&l->out, on);
	if (l->terminal)
		text_put_safe(&l->out, str_of(base_name(n)));
	else
		buf_add_c(&l->out, base_name(n));
	buf_add_c(&l->out, *on ? cli_style(STDOUT_FILENO, STYLE_PLAIN) : "");
}

static size_t shown_width(const struct ls_entry *n)
{
	auto_buf struct buf b = {0};
	text_put_safe(&b, str_of(base_name(n)));
	return text_width(buf_str(&b));
}

static void put_columns(struct ls *l, const struct ls_entry *v, size_t n)
{
	size_t widest = 0, width = text_terminal_width(STDOUT_FILENO, 80);
	for (size_t i = 0; i < n; i++) {
		size_t w = shown_width(&v[i]);
		widest = w > widest ? w : widest;
	}
	size_t columns = width / (widest + 2) ? width / (widest + 2) : 1;
	size_t rows = (n + columns - 1) / columns;
	for (size_t r = 0; r < rows; r++) {
		for (size_t i = r; i < n; i += rows) {
			put_name(l, &v[i]);
			if (i + rows < n)
				buf_printf(&l->out, "%*s", (int)(widest + 2 - shown_width(&v[i])), "");
		}
		buf_add_byte(&l->out, '\n');
	}
}

static void put_long(struct ls *l, const struct ls_entry *v, size_t n)
{
	int digits = 1;
	for (size_t i = 0; i < n; i++) {
		int d = snprintf(NULL, 0, "%llu", (unsigned long long)v[i].size);
		digits = d > digits ? d : digits;
	}
	for (size_t i = 0; i < n; i++) {
		char kind = v[i].type == 'f' ? '-' : v[i].type == 'o' ? '?' : v[i].type;
		buf_printf(&l->out, "%c%s  %*llu  %.10s %.5s  ", kind, v[i].mode, digits, (unsigned long long)v[i].size,
			v[i].modified, strlen(v[i].modified) > 11 ? v[i].modified + 11 : "");
		put_name(l, &v[i]);
		buf_add_byte(&l->out, '\n');
	}
}

static void put_group(struct ls *l, const struct ls_entry *v, size_t n)
{
	if (l->longer)
		put_long(l, v, n);
	else if (l->terminal)
		put_columns(l, v, n);
	else
		for (size_t i = 0; i < n; i++) {
			put_name(l, &v[i]);
			buf_add_byte(&l->out, '\n');
		}
}

static void put_heading(struct ls *l, const char *path, const struct ls_entry *first)
{
	auto_buf struct buf b = {0};
	size_t n = dir_len(first->path);
	buf_printf(&b, "%s%s%.*s", path, n && path[strlen(path) - 1] != '/' ? "/" : "", (int)n, first->path);
	if (buf_size(&l->out))
		buf_add_byte(&l->out, '\n');
	if (l->terminal)
		text_put_safe(&l->out, buf_str(&b));
	else
		buf_add_str(&l->out, buf_str(&b));
	buf_add_c(&l->out, ":\n");
}

static void put_all(struct ls *l, const char *path, struct ls_list *list)
{
	if (list->n)
		qsort(list->v, list->n, sizeof *list->v, by_place);
	for (size_t i = 0, end; i < list->n; i = end) {
		size_t n = dir_len(list->v[i].path);
		for (end = i + 1; end < list->n; end++)
			if (dir_len(list->v[end].path) != n || memcmp(list->v[end].path, list->v[i].path, n) != 0)
				break;
		if (l->recursive)
			put_heading(l, path, &list->v[i]);
		put_group(l, &list->v[i], end - i);
	}
}

/* A path that is not a directory is looked up in its parent directory. */
static int list_file(struct ls *l, const char *path, struct err *e)
{
	auto_free char *copy = xstrdup(path);
	char *slash = strrchr(copy, '/');
	const char *name = slash ? slash + 1 : copy, *dir = !slash ? "." : slash == copy ? "/" : copy;
	struct ls_list list = {0};
	if (slash)
		*slash = 0;
	int r = ls_read(&l->cl, l->id, &(struct ls_query){.path = dir, .hidden = true}, &list, e);
	for (size_t i = 0; r == 0 && i < list.n; i++)
		if (strcmp(list.v[i].path, name) == 0)
			put_group(l, &list.v[i], 1);
	ls_free(&list);
	return r;
}

/* Passes the answer on while it arrives. It is checked to be JSON: other bytes from a box must not reach a terminal. */
static int print_piece(void *arg, struct str piece, struct err *e)
{
	return json_feed(arg, piece, e) < 0 ? -1 : cli_write(STDOUT_FILENO, piece, e);
}

static int list_json(struct ls *l, const char *path, struct err *e)
{
	auto_buf struct buf body = {0};
	struct json_parser parser;
	json_parser_init(&parser, NULL, NULL);
	ls_request(&body, &(struct ls_query){path, l->recursive, l->hidden});
	struct api_request rq = {l->id, "POST", "/api/list-files", buf_str(&body)};
	if (api_fetch(&l->cl, &rq, print_piece, &parser, e) < 0 || json_finish(&parser, e) < 0)
		return err_wrap(e, "the listing of '%s'", path);
	return cli_write(STDOUT_FILENO, STR("\n"), e);
}

static int list(struct ls *l, const char *path, struct err *e)
{
	struct ls_list all = {0};
	if (l->cl.cli->json)
		return list_json(l, path, e);
	int r = ls_read(&l->cl, l->id, &(struct ls_query){path, l->recursive, l->hidden}, &all, e);
	if (r == 0)
		put_all(l, path, &all);
	else if (e->code == ERRC_NOT_DIRECTORY)
		r = list_file(l, path, e);
	ls_free(&all);
	return r;
}

int verb_ls(struct cli *c, int argc, char **argv)
{
	struct ls l = {.terminal = isatty(STDOUT_FILENO), .out = {.max = SIZE_MAX / 2}};
	const struct arg table[] = {
		{"long", NULL, "show mode, size in bytes and time (UTC)", ARG_FLAG, &l.longer, 'l'},
		{"all", NULL, "include names that begin with a dot", ARG_FLAG, &l.hidden, 'a'},
		{"recursive", NULL, "list subdirectories too", ARG_FLAG, &l.recursive, 'R'},
		ARG_TABLE_END,
	};
	struct args a = {.command_after = ARGS_NO_COMMAND};
	int code;
	if (!args_parse(c, table, argc, argv, &a, &code) || !args_box(c, &a, 2, &l.id, &code))
		return code;
	const char *path = a.n > 1 ? a.words[1] : "/workspace";
	struct err e;
	if (!*path)
		return cli_usage(c, "the path is empty");
	if (api_open_box(c, &l.cl, l.id, &e) < 0 || list(&l, path, &e) < 0)
		return cli_fail(c, &e);
	client_close(&l.cl);
	if (buf_size(&l.out))
		cli_print(&l.out);
	return 0;
}
