/*
 * run.c - `atoll run`: makes a box, runs one command in it and destroys the box.
 *
 * Signals come through the client's loop from the start, so Ctrl-C cannot leave the box behind at any moment: every
 * event between PUT and DELETE returns to this file.
 */
#include <stdio.h>
#include <string.h>
#include <sys/random.h>

#include "cli/verb/box.h"
#include "cli/verb/exec.h"
#include "cli/verbs.h"

static int new_id(char ret[32], struct err *e)
{
	unsigned char raw[6];
	if (getrandom(raw, sizeof raw, 0) != sizeof raw)
		return err_os(e, ERRC_INTERNAL_ERROR, errno, "random id");
	snprintf(ret, 32, "run-%02x%02x%02x%02x%02x%02x", raw[0], raw[1], raw[2], raw[3], raw[4], raw[5]);
	return 0;
}

static int remove_box(struct client *cl, const char *id, int code)
{
	struct err e;
	if (box_delete(cl, id, &e) == 0 || e.code == ERRC_SANDBOX_NOT_FOUND)
		return code;
	err_wrap(&e, "box '%s' was not removed", id);
	cli_hint(cl->cli, "Remove it with '%s rm %s'.", cl->cli->self, id);
	int failed = cli_fail(cl->cli, &e);
	return code ? code : failed;
}

static int run_in_new_box(struct client *cl, const struct box_options *o, struct stream_request *rq, bool keep)
{
	auto_buf struct buf body = {0};
	struct err e;
	if (box_put(cl, rq->id, o, &body, &e) < 0) {
		int code = cli_fail(cl->cli, &e);
		/* A refused request makes nothing. After any other failure there may be a box, which may be `failed`.
		 */
		bool refused = e.code == ERRC_VALIDATION_FAILED || e.code == ERRC_INVALID_LIMITS ||
			       e.code == ERRC_UNAUTHORIZED || e.code == ERRC_CONTAINER_UNAVAILABLE;
		return refused ? code : remove_box(cl, rq->id, code);
	}
	if (keep && !cl->cli->json)
		fprintf(stderr, "atoll run: box %s\n", rq->id);
	int code = cl->interrupted ? 128 + cl->interrupted : exec_command(cl, rq);
	return keep ? code : remove_box(cl, rq->id, code);
}

int verb_run(struct cli *c, int argc, char **argv)
{
	struct box_options o = {0};
	struct stream_request rq = {0};
	bool keep = false;
	const struct arg table[] = {
		BOX_OPTION_ROWS(&o),
		{"cwd", "DIR", "working directory in the box (default /workspace)", ARG_TEXT, &rq.cwd},
		{"env", "K=V", "set a variable; may be repeated", ARG_LIST, &rq.env, 'e'},
		{"timeout", "TIME", "stop the command after this time: 30, 0.5, 2m", ARG_SECONDS, &rq.timeout_ms, 't'},
		{"keep", NULL, "keep the box and print its id", ARG_FLAG, &keep},
		ARG_TABLE_END,
	};
	struct args a = {.command_after = 0};
	int code;
	if (!args_parse(c, table, argc, argv, &a, &code) || !exec_check_env(c, &rq.env, &code))
		return code;
	if (!*a.command)
		return cli_usage(c, "which command? Write the command to run");
	if (!exec_check_command(c, a.command, &code))
		return code;
	char id[32];
	auto_client struct client cl = {0};
	struct err e;
	if (new_id(id, &e) < 0 || client_open(c, &cl, &e) < 0 || client_catch_signals(&cl, &e) < 0)
		return cli_fail(c, &e);
	rq.id = id;
	rq.argv = a.command;
	code = run_in_new_box(&cl, &o, &rq, keep);
	return code;
}
