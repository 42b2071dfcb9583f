/*
 * watch.c - `atoll watch`: prints a line for each change in a directory of a box, until Ctrl-C.
 */
#include <stdio.h>
#include <string.h>

#include "cli/api.h"
#include "cli/args.h"
#include "cli/text.h"
#include "cli/verbs.h"

struct watch {
	struct cli *c;
	const char *path;
	bool began;
};

static void print_event(const struct json *ev)
{
	auto_buf struct buf line = {0};
	struct str kind = api_text(ev, "eventType");
	bool directory = false;
	json_read_bool(ev, "isDirectory", &directory, NULL);
	enum cli_style style = str_eq_c(kind, "create") || str_eq_c(kind, "move_to")	 ? STYLE_GREEN
			       : str_eq_c(kind, "delete") || str_eq_c(kind, "move_from") ? STYLE_RED
											 : STYLE_YELLOW;
	buf_add_c(&line, cli_style(STDOUT_FILENO, style));
	text_put_safe(&line, kind);
	buf_printf(&line, "%*s%s  ", kind.n < 9 ? 9 - (int)kind.n : 0, "", cli_style(STDOUT_FILENO, STYLE_PLAIN));
	text_put_safe(&line, api_text(ev, "path"));
	buf_add_c(&line, directory ? "/\n" : "\n");
	cli_print(&line);
}

static int on_event(void *arg, const struct json *ev, struct str text, struct err *e)
{
	struct watch *w = arg;
	struct str type = api_text(ev, "type");
	if (w->c->json) {
		auto_buf struct buf line = {0};
		buf_add_str(&line, text);
		cli_print(&line);
	} else if (str_eq_c(type, "event")) {
		print_event(ev);
	}
	if (str_eq_c(type, "watching") && !w->began) {
		w->began = true;
		if (!w->c->json && isatty(STDERR_FILENO))
			fprintf(stderr, "watching %s; Ctrl-C ends\n", w->path);
	}
	if (str_eq_c(type, "error")) {
		struct str why = api_text(ev, "error");
		return err_set(e, ERRC_UNKNOWN_ERROR, "%.*s", STR_ARG(why));
	}
	if (str_eq_c(type, "stopped")) {
		struct str why = api_text(ev, "reason");
		return err_set(e, ERRC_FILE_NOT_FOUND, "the watch has ended: %.*s", STR_ARG(why));
	}
	return 0;
}

static void write_list(struct json_writer *w, const char *key, const struct arg_list *l)
{
	if (!l->n)
		return;
	json_key(w, key);
	json_array_begin(w);
	for (size_t i = 0; i < l->n; i++)
		json_cstr(w, l->items[i]);
	json_array_end(w);
}

int verb_watch(struct cli *c, int argc, char **argv)
{
	struct arg_list include = {0}, exclude = {0};
	bool flat = false;
	const char *id;
	const struct arg table[] = {
		{"include", "PATTERN", "report only names that match; may be repeated", ARG_LIST, &include},
		{"exclude", "PATTERN", "ignore names that match (default .git, node_modules, .DS_Store)", ARG_LIST,
			&exclude},
		{"flat", NULL, "ignore subdirectories", ARG_FLAG, &flat},
		ARG_TABLE_END,
	};
	struct args a = {.command_after = ARGS_NO_COMMAND};
	int code;
	if (!args_parse(c, table, argc, argv, &a, &code) || !args_box(c, &a, 2, &id, &code))
		return code;
	if (include.n && exclude.n)
		return cli_usage(c, "use --include or --exclude, not both");
	struct watch w = {.c = c, .path = a.n > 1 ? a.words[1] : "/workspace"};
	auto_buf struct buf body = {0};
	struct json_writer jw = json_writer(&body);
	json_object_begin(&jw);
	json_member_cstr(&jw, "path", w.path);
	json_member_bool(&jw, "recursive", !flat);
	write_list(&jw, "include", &include);
	write_list(&jw, "exclude", &exclude);
	json_object_end(&jw);
	struct api_follow f = {.id = id, .method = "POST", .rest = "/api/watch", .on_event = on_event, .arg = &w};
	f.body = buf_str(&body);
	auto_client struct client cl = {0};
	struct err e;
	if (api_open_box(c, &cl, id, &e) < 0)
		return cli_fail(c, &e);
	/* The stream ends only by Ctrl-C or by an error. */
	if (api_follow(&cl, &f, &e) < 0 && f.broken && w.began) {
		err_wrap(&e, "changes may have been missed");
		cli_hint(c, "Read the directory again, then watch it again.");
	} else if (e.code == ERRC_PERMISSION_DENIED) {
		cli_hint(c, "Watch /workspace, or a directory in it.");
	}
	return cli_fail(c, &e);
}
