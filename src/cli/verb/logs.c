/*
 * logs.c - `atoll logs`: prints the output of a background process, its stdout to stdout and its stderr to stderr.
 *
 * Every event of the stream has an id. When the connection breaks while following (the daemon restarts, the network
 * fails), logs reconnects and continues after the last event: no byte is lost or printed twice.
 */
#include <stdio.h>
#include <string.h>

#include "base/base64.h"
#include "base/clock.h"
#include "cli/api.h"
#include "cli/args.h"
#include "cli/verbs.h"

enum { LOGS_RETRY_FIRST = 50, LOGS_RETRY_MAX = 2000, LOGS_GIVE_UP = 60000 };

struct logs {
	struct cli *c;
	struct api_follow follow;
	bool ended, spoke;
	uint64_t exit_code;
	uint64_t last_good; /* time of the last event */
};

static int write_output(const struct json *ev, int fd, struct err *e)
{
	struct str data = api_text(ev, "data");
	if (!str_eq_c(api_text(ev, "encoding"), "base64"))
		return cli_write(fd, data, e);
	auto_buf struct buf raw = {0};
	struct base64_decoder d = {0};
	if (!base64_decode(&d, data, &raw) || !base64_finish(&d))
		return err_set(e, ERRC_UNKNOWN_ERROR, "the box sent output that is not base64");
	return cli_write(fd, buf_str(&raw), e);
}

/* Output that the box no longer has is reported on stderr, not among the output. */
static void tell_dropped(const struct json *ev)
{
	uint64_t n = 0;
	json_read_u64(ev, "dropped", 0, UINT64_MAX, &n, NULL);
	if (n)
		fprintf(stderr, "atoll logs: %llu bytes of earlier output were dropped\n", (unsigned long long)n);
}

static int on_event(void *arg, const struct json *ev, struct str text, struct err *e)
{
	struct logs *l = arg;
	struct str type = api_text(ev, "type");
	l->last_good = clock_ms();
	l->spoke = true;
	if (str_eq_c(type, "exit")) {
		l->ended = true;
		json_read_u64(ev, "exitCode", 0, 255, &l->exit_code, NULL);
	}
	if (l->c->json) {
		auto_buf struct buf line = {0};
		buf_add_str(&line, text);
		cli_print(&line);
	} else if (str_eq_c(type, "stdout") || str_eq_c(type, "stderr")) {
		tell_dropped(ev);
		if (write_output(ev, str_eq_c(type, "stdout") ? STDOUT_FILENO : STDERR_FILENO, e) < 0)
			return -1;
	}
	return l->ended || str_eq_c(type, "end") ? 1 : 0;
}

static void pause_ms(uint64_t ms)
{
	usleep((useconds_t)(ms * 1000));
}

/* Follows until the process ends, over as many connections as it takes. */
static int follow(struct client *cl, struct logs *l, bool again, struct err *e)
{
	uint64_t wait = LOGS_RETRY_FIRST;
	l->last_good = clock_ms();
	for (;;) {
		uint64_t before = l->last_good;
		if (api_follow(cl, &l->follow, e) == 0)
			return 0;
		/* Without a first event no stream broke: there is no daemon. 5xx: the daemon is starting. */
		bool passing = l->follow.broken || l->follow.status >= 502;
		if (!again || !passing || !l->spoke || clock_ms() - l->last_good > LOGS_GIVE_UP)
			return -1;
		wait = l->last_good != before	   ? LOGS_RETRY_FIRST
		       : wait * 2 < LOGS_RETRY_MAX ? wait * 2
						   : LOGS_RETRY_MAX;
		pause_ms(wait);
		cl->cli->hint[0] = 0;
	}
}

static int failed(struct cli *c, const char *id, struct err *e)
{
	if (e->code == ERRC_PROCESS_NOT_FOUND)
		cli_hint(c, "'%s ps %s' lists its processes.", c->self, id);
	return cli_fail(c, e);
}

int verb_logs(struct cli *c, int argc, char **argv)
{
	bool f = false;
	const char *id;
	const struct arg table[] = {
		{"follow", NULL, "continue until the process ends", ARG_FLAG, &f, 'f'},
		ARG_TABLE_END,
	};
	struct args a = {.command_after = ARGS_NO_COMMAND};
	int code;
	if (!args_parse(c, table, argc, argv, &a, &code) || !args_box(c, &a, 2, &id, &code))
		return code;
	if (a.n < 2 || !*a.words[1])
		return cli_usage(c, "which process? '%s ps %s' lists them", c->self, id);
	auto_buf struct buf path = {0};
	buf_add_c(&path, "/api/process/");
	client_percent_encode(&path, a.words[1]);
	buf_printf(&path, "/stream?follow=%s%s", f ? "true" : "false", c->json ? "" : "&encoding=base64");
	struct logs l = {.c = c, .follow = {.id = id, .method = "GET", .on_event = on_event}};
	l.follow.arg = &l;
	l.follow.rest = buf_cstr(&path);
	auto_client struct client cl = {0};
	struct err e;
	if (api_open_box(c, &cl, id, &e) < 0 || follow(&cl, &l, f, &e) < 0)
		return failed(c, id, &e);
	if (l.ended && f && isatty(STDERR_FILENO) && !c->json)
		fprintf(stderr, "atoll logs: the process has ended with exit code %llu\n",
			(unsigned long long)l.exit_code);
	return 0;
}
