/*
 * sessions.c - `atoll sessions`: the shells of a box that keep their directory and variables between commands.
 */
#include <string.h>

#include "cli/api.h"
#include "cli/args.h"
#include "cli/text.h"
#include "cli/verb/delete.h"
#include "cli/verb/exec.h"
#include "cli/verbs.h"

struct sessions {
	struct client cl;
	const char *id;
	const char *cwd;
	struct arg_list env;
	uint64_t timeout_ms;
};

static int list(struct sessions *s, struct err *e)
{
	if (api_need_box(&s->cl, s->id, e) < 0)
		return -1;
	auto_json struct json_doc *d = api_ask(&s->cl, s->id, "GET", "/api/session/list", STR(""), e);
	if (!d || s->cl.cli->json)
		return d ? 0 : -1;
	struct table t = {.columns = 1};
	json_each(name, json_get(json_root(d), "data")) table_add(&t, name->text);
	table_print(&t, "no sessions");
	table_free(&t);
	return 0;
}

static int create(struct sessions *s, const char *name, struct err *e)
{
	auto_buf struct buf body = {0};
	struct json_writer w = json_writer(&body);
	json_object_begin(&w);
	if (name)
		json_member_cstr(&w, "id", name);
	if (s->cwd)
		json_member_cstr(&w, "cwd", s->cwd);
	if (s->timeout_ms)
		json_member_u64(&w, "commandTimeoutMs", s->timeout_ms);
	api_write_env(&w, "env", s->env.items, s->env.n);
	json_object_end(&w);
	auto_json struct json_doc *d = api_ask(&s->cl, s->id, "POST", "/api/session/create", buf_str(&body), e);
	if (!d)
		return -1;
	if (!s->cl.cli->json)
		text_print(api_text(json_root(d), "sessionId"));
	return 0;
}

static int delete_one_of(void *arg, const char *name, struct err *e)
{
	struct sessions *s = arg;
	auto_buf struct buf body = {0}, answer = {0};
	struct json_writer w = json_writer(&body);
	json_object_begin(&w);
	json_member_cstr(&w, "sessionId", name);
	json_object_end(&w);
	if (api_need_box(&s->cl, s->id, e) < 0)
		return -1;
	const struct api_request rq = {s->id, "POST", "/api/session/delete", buf_str(&body)};
	if (api_call(&s->cl, &rq, &answer, e) == 0)
		return 0;
	cli_hint(s->cl.cli, "'%s sessions %s' lists them.", s->cl.cli->self, s->id);
	return -1;
}

int verb_sessions(struct cli *c, int argc, char **argv)
{
	struct sessions s = {0};
	const struct arg table[] = {
		{"cwd", "DIR", "create: its first directory (default /workspace)", ARG_TEXT, &s.cwd},
		{"env", "K=V", "create: set a variable; may be repeated", ARG_LIST, &s.env, 'e'},
		{"timeout", "TIME", "create: time limit for each command", ARG_SECONDS, &s.timeout_ms},
		ARG_TABLE_END,
	};
	struct args a = {.command_after = ARGS_NO_COMMAND};
	int code;
	if (!args_parse(c, table, argc, argv, &a, &code) || !args_box(c, &a, argc + 1, &s.id, &code) ||
		!exec_check_env(c, &s.env, &code))
		return code;
	const char *what = a.n > 1 ? a.words[1] : "list";
	bool lists = strcmp(what, "list") == 0, creates = strcmp(what, "create") == 0,
	     removes = strcmp(what, "rm") == 0;
	if (!lists && !creates && !removes)
		return cli_usage(c, "unknown word '%s': write list, create or rm", what);
	if ((lists && a.n > 2) || (creates && a.n > 3))
		return cli_usage(c, "'%s' is one word too many", a.words[lists ? 2 : 3]);
	if (removes && a.n < 3)
		return cli_usage(c, "which session? '%s sessions %s' lists them", c->self, s.id);
	struct err e;
	if (client_open(c, &s.cl, &e) < 0)
		return cli_fail(c, &e);
	if (removes)
		code = delete_each(c, a.words + 2, a.n - 2, delete_one_of, &s);
	else if ((lists ? list(&s, &e) : create(&s, a.n > 2 ? a.words[2] : NULL, &e)) < 0)
		code = cli_fail(c, &e);
	else
		code = 0;
	client_close(&s.cl);
	return code;
}
