/*
 * ps.c - `atoll ps` and `atoll kill`: the background processes of a box.
 */
#include <stdio.h>
#include <string.h>

#include "cli/api.h"
#include "cli/args.h"
#include "cli/signals.h"
#include "cli/text.h"
#include "cli/verb/box.h"
#include "cli/verbs.h"

static void add_row(struct table *t, const struct json *p)
{
	char age[24];
	uint64_t pid = 0, code = 0;
	json_read_u64(p, "pid", 0, UINT64_MAX, &pid, NULL);
	table_add(t, api_text(p, "id"));
	table_printf(t, "%llu", (unsigned long long)pid);
	table_add(t, api_text(p, "status"));
	if (json_is_null(json_get(p, "exitCode")) || json_read_u64(p, "exitCode", 0, 255, &code, NULL) < 0)
		table_add(t, STR("-"));
	else
		table_printf(t, "%llu", (unsigned long long)code);
	table_printf(t, "%s", box_age_text(api_text(p, "startTime"), age));
	table_add(t, api_text(p, "command"));
}

int verb_ps(struct cli *c, int argc, char **argv)
{
	static const char *const heads[] = {"PROCESS", ">PID", "STATUS", ">EXIT", ">AGE", "COMMAND"};
	bool running = false, quiet = false;
	const struct arg table[] = {
		{"running", NULL, "list only running processes", ARG_FLAG, &running, 'r'},
		{"quiet", NULL, "only the names", ARG_FLAG, &quiet, 'q'},
		ARG_TABLE_END,
	};
	struct args a = {.command_after = ARGS_NO_COMMAND};
	const char *id;
	int code;
	if (!args_parse(c, table, argc, argv, &a, &code) || !args_box(c, &a, 1, &id, &code))
		return code;
	auto_client struct client cl = {0};
	struct err e;
	if (api_open_box(c, &cl, id, &e) < 0)
		return cli_fail(c, &e);
	const char *rest = running ? "/api/process/list?status=running" : "/api/process/list";
	auto_json struct json_doc *d = api_ask(&cl, id, "GET", rest, STR(""), &e);
	if (!d)
		return cli_fail(c, &e);
	if (c->json)
		return 0;
	struct table t = {.columns = quiet ? 1 : ARRAY_LEN(heads), .heads = quiet ? NULL : heads};
	if (isatty(STDOUT_FILENO))
		t.max_width = text_terminal_width(STDOUT_FILENO, 0);
	json_each(p, json_get(json_root(d), "processes"))
	{
		if (quiet)
			table_add(&t, api_text(p, "id"));
		else
			add_row(&t, p);
	}
	table_print(&t, quiet ? NULL : "no background processes");
	table_free(&t);
	return 0;
}

/* "int", "SIGINT" and "2" are the same signal. */
static int read_signal(const char *text)
{
	char name[24];
	uint64_t n;
	if (str_to_u64(str_of(text), 64, &n))
		return (int)n;
	bool whole = strncasecmp(text, "SIG", 3) == 0;
	snprintf(name, sizeof name, "SIG%s", whole ? text + 3 : text);
	for (char *p = name; *p; p++)
		*p = (char)(*p >= 'a' && *p <= 'z' ? *p - 32 : *p);
	return signals_number(name);
}

static int kill_one(struct client *cl, const char *id, const char *process, int signo, struct err *e)
{
	auto_buf struct buf path = {0}, body = {0};
	buf_add_c(&path, "/api/process/");
	client_percent_encode(&path, process);
	if (signo)
		buf_printf(&path, "?signal=%d", signo);
	if (api_call(cl, &(struct api_request){id, "DELETE", buf_cstr(&path), STR("")}, &body, e) == 0)
		return 0;
	if (e->code == ERRC_COMMAND_NOT_FOUND)
		err_set(e, e->code, "process '%s' has already ended", process);
	if (e->code == ERRC_PROCESS_NOT_FOUND || e->code == ERRC_COMMAND_NOT_FOUND)
		cli_hint(cl->cli, "'%s ps %s' lists its processes.", cl->cli->self, id);
	return -1;
}

static int kill_all(struct client *cl, const char *id, struct err *e)
{
	uint64_t n = 0;
	auto_json struct json_doc *d = api_ask(cl, id, "DELETE", "/api/process/kill-all", STR(""), e);
	if (!d)
		return -1;
	json_read_u64(json_root(d), "cleanedCount", 0, UINT64_MAX, &n, NULL);
	if (!cl->cli->json)
		printf("%llu ended\n", (unsigned long long)n);
	return 0;
}

static int kill_named(struct client *cl, const char *id, const struct args *a, int signo)
{
	auto_buf struct buf out = {0};
	struct json_writer w = json_writer(&out);
	int failed = 0;
	json_object_begin(&w);
	json_key(&w, "killed");
	json_array_begin(&w);
	for (int i = 1; i < a->n; i++) {
		struct err e;
		if (kill_one(cl, id, a->words[i], signo, &e) < 0) {
			failed = cli_fail(cl->cli, &e);
			cl->cli->hint[0] = 0;
		} else if (cl->cli->json) {
			json_cstr(&w, a->words[i]);
		} else {
			printf("%s\n", a->words[i]);
		}
	}
	json_array_end(&w);
	json_object_end(&w);
	if (cl->cli->json)
		cli_print(&out);
	return failed;
}

int verb_kill(struct cli *c, int argc, char **argv)
{
	bool all = false;
	const char *signal = NULL, *id;
	const struct arg table[] = {
		{"signal", "SIG", "send this signal: INT, SIGHUP, 9 (default TERM, after 5 s KILL)", ARG_TEXT, &signal,
			's'},
		{"all", NULL, "end every background process of the box", ARG_FLAG, &all, 'a'},
		ARG_TABLE_END,
	};
	struct args a = {.command_after = ARGS_NO_COMMAND};
	int code;
	if (!args_parse(c, table, argc, argv, &a, &code) || !args_box(c, &a, argc + 1, &id, &code))
		return code;
	int signo = signal ? read_signal(signal) : 0;
	if (signal && signo <= 0)
		return cli_usage(c, "'%s' is not a signal; write for example INT, HUP or 9", signal);
	if (all == (a.n > 1))
		return cli_usage(
			c, all ? "use --all or names, not both" : "which process? '%s ps %s' lists them", c->self, id);
	if (all && signal)
		return cli_usage(c, "--all takes no signal; name the processes to send a signal to");
	auto_client struct client cl = {0};
	struct err e;
	if (api_open_box(c, &cl, id, &e) < 0)
		return cli_fail(c, &e);
	code = all ? (kill_all(&cl, id, &e) < 0 ? cli_fail(c, &e) : 0) : kill_named(&cl, id, &a, signo);
	return code;
}
