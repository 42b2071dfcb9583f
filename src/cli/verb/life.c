/*
 * life.c - `atoll stop`, `atoll sleep` and `atoll wake`: moves boxes to another state and prints their names.
 */
#include <stdio.h>

#include "cli/args.h"
#include "cli/client.h"
#include "cli/verbs.h"

struct moving {
	struct client cl;
	const char *route;
	struct json_writer w;
	int failed;
};

static void move_one(struct moving *m, const char *id)
{
	auto_buf struct buf path = {0}, body = {0};
	struct err e;
	client_box_path(&path, id, m->route);
	if (client_call(&m->cl, "POST", buf_cstr(&path), STR(""), &body, &e) < 0) {
		m->failed++;
		cli_fail(m->cl.cli, &e);
		m->cl.cli->hint[0] = 0;
	} else if (m->cl.cli->json) {
		json_raw(&m->w, buf_str(&body));
	} else {
		printf("%s\n", id);
	}
}

static int move_all(struct cli *c, int argc, char **argv, const char *route)
{
	const struct arg table[] = {ARG_TABLE_END};
	struct args a = {.command_after = ARGS_NO_COMMAND};
	int code;
	if (!args_parse(c, table, argc, argv, &a, &code))
		return code;
	if (!a.n)
		return cli_usage(c, "which box? Write its name");
	for (int i = 0; i < a.n; i++)
		if (!*a.words[i])
			return cli_usage(c, "the name of a box is empty");
	auto_buf struct buf out = {0};
	struct moving m = {.route = route, .w = json_writer(&out)};
	struct err e;
	if (client_open(c, &m.cl, &e) < 0)
		return cli_fail(c, &e);
	json_object_begin(&m.w);
	json_key(&m.w, "sandboxes");
	json_array_begin(&m.w);
	for (int i = 0; i < a.n; i++)
		move_one(&m, a.words[i]);
	json_array_end(&m.w);
	json_object_end(&m.w);
	if (c->json)
		cli_print(&out);
	client_close(&m.cl);
	return m.failed ? c->verb->exit_failed : 0;
}

int verb_stop(struct cli *c, int argc, char **argv)
{
	return move_all(c, argc, argv, "/stop");
}

int verb_sleep(struct cli *c, int argc, char **argv)
{
	return move_all(c, argc, argv, "/sleep");
}

int verb_wake(struct cli *c, int argc, char **argv)
{
	return move_all(c, argc, argv, "/wake");
}
