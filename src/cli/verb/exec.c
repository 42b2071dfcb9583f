/*
 * exec.c - `atoll exec`: runs one command in a box with the streams of this program.
 */
#include "cli/verb/exec.h"

#include <ctype.h>
#include <string.h>

#include "cli/verbs.h"

enum { EXEC_JSON_MAX = 32 * 1024 * 1024 };

bool exec_check_env(struct cli *c, const struct arg_list *env, int *ret_code)
{
	for (size_t i = 0; i < env->n; i++) {
		const char *p = env->items[i];
		if (isalpha((unsigned char)*p) || *p == '_')
			while (isalnum((unsigned char)*p) || *p == '_')
				p++;
		if (*p != '=' || p == env->items[i] || !str_is_utf8(str_of(p))) {
			*ret_code = cli_usage(c, "'%s' is not NAME=VALUE", env->items[i]);
			return false;
		}
	}
	return true;
}

bool exec_check_command(struct cli *c, char **command, int *ret_code)
{
	for (size_t i = 0; command[i]; i++)
		if (!str_is_utf8(str_of(command[i]))) {
			*ret_code =
				cli_usage(c, "word %zu of the command is not UTF-8, which the API cannot carry", i + 1);
			return false;
		}
	return true;
}

/* 126 and 127: the program cannot be run or found. That is the command's failure, not Atoll's. */
static int exec_failed(
	struct cli *c, const struct stream_request *rq, const struct stream_result *r, const struct err *e)
{
	bool command = r->exit_code == 126 || r->exit_code == 127;
	/* One word with blanks or shell characters is no program's name: the user expects a shell. */
	if (command && !rq->argv[1] && strpbrk(rq->argv[0], " \t\n|&;<>()$`*?~\"'"))
		cli_hint(c, "No shell reads the command; to use one, write: -- sh -c '…'");
	int code = cli_fail(c, e);
	return command ? r->exit_code : code;
}

static int exec_gathered(struct client *cl, const struct stream_request *rq)
{
	auto_buf struct buf out = {.max = EXEC_JSON_MAX}, err = {.max = EXEC_JSON_MAX}, json = {.max = SIZE_MAX / 2};
	struct stream_io io = {.in = STDIN_FILENO, .out = &out, .err = &err};
	struct stream_result r;
	struct err e;
	if (stream_run(cl, rq, &io, &r, &e) < 0)
		return exec_failed(cl->cli, rq, &r, &e);
	stream_write_json(&json, rq->id, &r, &out, &err);
	cli_print(&json);
	return r.exit_code;
}

int exec_command(struct client *cl, const struct stream_request *rq)
{
	if (cl->cli->json)
		return exec_gathered(cl, rq);
	struct stream_io io = {.in = STDIN_FILENO};
	struct stream_result r;
	struct err e;
	if (stream_run(cl, rq, &io, &r, &e) < 0)
		return exec_failed(cl->cli, rq, &r, &e);
	stream_explain(cl->cli, rq, &r);
	return r.exit_code;
}

int verb_exec(struct cli *c, int argc, char **argv)
{
	struct stream_request rq = {0};
	const char *session = NULL;
	bool detach = false;
	struct exec_background bg = {0};
	const struct arg table[] = {
		{"cwd", "DIR", "working directory in the box (default /workspace)", ARG_TEXT, &rq.cwd},
		{"env", "K=V", "set a variable; may be repeated", ARG_LIST, &rq.env, 'e'},
		{"timeout", "TIME", "stop the command after this time: 30, 0.5, 2m", ARG_SECONDS, &rq.timeout_ms, 't'},
		{"session", "NAME", "run in the shell of this session, which keeps directory and variables", ARG_TEXT,
			&session, 's'},
		{"detach", NULL, "run in the background; print the name, for ps, logs and kill", ARG_FLAG, &detach,
			'd'},
		{"name", "NAME", "with --detach: name of the process", ARG_TEXT, &bg.name},
		{"service", NULL, "with --detach: start it again when it ends and when the box starts", ARG_FLAG,
			&bg.service},
		{"keep-alive", NULL, "with --detach: the box stays awake while it runs", ARG_FLAG, &bg.keep_alive},
		ARG_TABLE_END,
	};
	struct args a = {.command_after = 1};
	int code;
	if (!args_parse(c, table, argc, argv, &a, &code) || !exec_check_env(c, &rq.env, &code))
		return code;
	if (a.n < 1 || !*a.words[0])
		return cli_usage(c, "which box? Any name works: exec makes the box if it does not exist");
	if (!*a.command)
		return cli_usage(c, "which command? Write the command to run in '%s'", a.words[0]);
	if (!exec_check_command(c, a.command, &code))
		return code;
	if ((bg.name || bg.service || bg.keep_alive) && !detach)
		return cli_usage(c, "%s works only with --detach",
			bg.name	     ? "--name"
			: bg.service ? "--service"
				     : "--keep-alive");
	bg.session = session;
	rq.id = a.words[0];
	rq.argv = a.command;
	auto_client struct client cl = {0};
	struct err e;
	if (client_open(c, &cl, &e) < 0 || (!session && !detach && client_catch_signals(&cl, &e) < 0))
		return cli_fail(c, &e);
	code = detach	 ? exec_detached(&cl, &rq, &bg)
	       : session ? exec_in_session(&cl, &rq, session)
			 : exec_command(&cl, &rq);
	return code;
}
