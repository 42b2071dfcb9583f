/*
 * create.c - `atoll create` and `atoll update`: makes a box with its own settings, or changes them.
 */
#include <stdio.h>
#include <string.h>

#include "cli/api.h"
#include "cli/verb/box.h"
#include "cli/verb/exec.h"
#include "cli/verbs.h"

enum { STATUS_CREATED = 201 };

static bool check_labels(struct cli *c, const struct arg_list *labels, int *ret_code)
{
	for (size_t i = 0; i < labels->n; i++)
		if (!strchr(labels->items[i], '=') || labels->items[i][0] == '=') {
			*ret_code = cli_usage(c, "'%s' is not NAME=VALUE", labels->items[i]);
			return false;
		}
	return true;
}

static bool check_volumes(struct cli *c, const struct arg_list *volumes, int *ret_code)
{
	struct str name, path;
	bool read_only;
	for (size_t i = 0; i < volumes->n; i++)
		if (!box_volume_split(volumes->items[i], &name, &path, &read_only)) {
			*ret_code = cli_usage(c, "'%s' is not NAME:PATH or NAME:PATH:ro", volumes->items[i]);
			return false;
		}
	return true;
}

static bool check_options(struct cli *c, const struct box_options *o, int *ret_code)
{
	if (!exec_check_env(c, &o->env, ret_code) || !check_labels(c, &o->labels, ret_code) ||
		!check_volumes(c, &o->volumes, ret_code))
		return false;
	if (o->keep_alive && o->no_keep_alive)
		*ret_code = cli_usage(c, "use --keep-alive or --no-keep-alive, not both");
	else if (o->backup_keep && !o->backup_every)
		*ret_code = cli_usage(c, "--backup-keep goes with --backup-every TIME");
	else if (o->backup_every && !box_is_time(o->backup_every))
		*ret_code = cli_usage(
			c, "--backup-every cannot be '%s'; write for example 30m or 1h; 0 ends it", o->backup_every);
	else if (o->sleep_after && !box_is_time(o->sleep_after) && strcmp(o->sleep_after, "default") != 0)
		*ret_code = cli_usage(c, "--sleep-after cannot be '%s'; write for example 30s, 10m or 1h; 0 is never",
			o->sleep_after);
	else if (o->network && !box_is_network_mode(o->network))
		*ret_code = cli_usage(c, "--network cannot be '%s'; write open, list or off", o->network);
	else
		return true;
	return false;
}

static int answer(struct cli *c, const char *id, struct buf *body)
{
	if (c->json)
		cli_print(body);
	else
		printf("%s\n", id);
	return 0;
}

/* The daemon's hint for wrong limits fits HTTP requests. */
static int fail(struct cli *c, const struct err *e)
{
	if (e->code == ERRC_INVALID_LIMITS)
		cli_hint(c,
			"Sizes have a unit, as in 512m or 2g: a bare number counts bytes. '%s help create' has all "
			"limits.",
			c->self);
	return cli_fail(c, e);
}

int verb_create(struct cli *c, int argc, char **argv)
{
	struct box_options o = {0};
	const struct arg table[] = {BOX_OPTION_ROWS(&o), BOX_SETTING_ROWS(&o), ARG_TABLE_END};
	struct args a = {.command_after = ARGS_NO_COMMAND};
	int code;
	if (!args_parse(c, table, argc, argv, &a, &code) || !check_options(c, &o, &code))
		return code;
	if (a.n != 1 || !*a.words[0])
		return cli_usage(
			c, a.n > 1 ? "create makes one box at a time" : "which name? Write a name for the box");
	auto_client struct client cl = {0};
	struct err e;
	auto_buf struct buf body = {0};
	int status = client_open(c, &cl, &e) < 0 ? -1 : box_put(&cl, a.words[0], &o, &body, &e);
	if (status < 0)
		return fail(c, &e);
	if (status != STATUS_CREATED)
		fprintf(stderr, "atoll create: box '%s' exists already%s\n", a.words[0],
			box_options_given(&o) ? "; it has the new settings now" : "");
	return answer(c, a.words[0], &body);
}

int verb_update(struct cli *c, int argc, char **argv)
{
	struct box_options o = {0};
	const struct arg table[] = {BOX_LIMIT_ROWS(&o), BOX_SETTING_ROWS(&o), ARG_TABLE_END};
	struct args a = {.command_after = ARGS_NO_COMMAND};
	int code;
	if (!args_parse(c, table, argc, argv, &a, &code) || !check_options(c, &o, &code))
		return code;
	if (a.n != 1 || !*a.words[0])
		return cli_usage(c, a.n > 1 ? "update changes one box at a time" : "which box? Write its name");
	if (!box_options_given(&o))
		return cli_usage(c, "which setting? Write at least one option");
	auto_client struct client cl = {0};
	struct err e;
	auto_buf struct buf body = {0};
	if (api_open_box(c, &cl, a.words[0], &e) < 0 || box_put(&cl, a.words[0], &o, &body, &e) < 0)
		return fail(c, &e);
	return answer(c, a.words[0], &body);
}
