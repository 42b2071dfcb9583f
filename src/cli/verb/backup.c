/*
 * backup.c - `atoll backup` and `atoll backups`: copies of whole boxes that outlive them.
 */
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "cli/api.h"
#include "cli/args.h"
#include "cli/text.h"
#include "cli/verb/backup.h"
#include "cli/verb/box.h"
#include "cli/verb/delete.h"
#include "cli/verb/listing.h"
#include "cli/verbs.h"

enum { LOOK_MS = 200 };

/* ---- progress ---- */

static void show(const struct json *b)
{
	uint64_t bytes = 0;
	char text[24];
	json_read_u64(b, "bytes", 0, UINT64_MAX, &bytes, NULL);
	if (isatty(STDERR_FILENO))
		fprintf(stderr, "\r\033[K%s", box_size_text(bytes, text));
}

static void show_end(void)
{
	if (isatty(STDERR_FILENO))
		fputs("\r\033[K", stderr);
}

/* Turns the loop for a while; a signal ends it early. */
static void on_due(struct loop_timer *t)
{
	(void)t;
}

static void pause_a_while(struct client *cl)
{
	struct loop_timer t = {0};
	loop_timer_set(cl->loop, &t, LOOK_MS, on_due);
	while (t.pos && !cl->interrupted)
		loop_turn(cl->loop, LOOK_MS);
	loop_timer_stop(&t);
}

/* Until it is not `making` any more. NULL with *e. */
static struct json_doc *follow(struct client *cl, const char *path, struct err *e)
{
	for (;;) {
		auto_buf struct buf text = {.max = CLIENT_BODY_MAX};
		if (client_call(cl, "GET", path, STR(""), &text, e) < 0)
			return NULL;
		struct json_doc *d = json_parse(buf_str(&text), e);
		if (!d || !str_eq_c(api_text(json_root(d), "state"), "making") || cl->interrupted)
			return d;
		show(json_root(d));
		json_free(d);
		pause_a_while(cl);
	}
}

static int cancel(struct client *cl, const char *path)
{
	auto_buf struct buf text = {0};
	struct err e;
	int signo = cl->interrupted;
	client_call(cl, "DELETE", path, STR(""), &text, &e);
	fprintf(stderr, "atoll backup: cancelled\n");
	return 128 + signo;
}

/* ---- make ---- */

static int finish(struct cli *c, struct client *cl, const char *path, struct err *e)
{
	auto_json struct json_doc *d = follow(cl, path, e);
	auto_buf struct buf out = {0};
	show_end();
	if (!d)
		return cli_fail(c, e);
	const struct json *b = json_root(d);
	if (cl->interrupted && str_eq_c(api_text(b, "state"), "making"))
		return cancel(cl, path);
	if (!str_eq_c(api_text(b, "state"), "ready")) {
		struct str why = api_text(b, "error");
		err_set(e, ERRC_BACKUP_CREATE_FAILED, "%.*s", (int)(why.n < 200 ? why.n : 200), why.p);
		return cli_fail(c, e);
	}
	if (c->json)
		json_put_tree(&out, b);
	else
		text_put_safe(&out, api_text(b, "id"));
	buf_add_byte(&out, '\n');
	cli_print(&out);
	return 0;
}

static void write_wish(struct buf *body, const char *name, uint64_t ttl)
{
	struct json_writer w = json_writer(body);
	json_object_begin(&w);
	if (name)
		json_member_cstr(&w, "name", name);
	if (ttl)
		json_member_u64(&w, "ttl", (ttl + 999) / 1000);
	json_member_bool(&w, "wait", false);
	json_object_end(&w);
}

int verb_backup(struct cli *c, int argc, char **argv)
{
	uint64_t ttl = 0;
	const struct arg table[] = {
		{"ttl", "TIME", "delete it after so long, like 36h (default: never)", ARG_SECONDS, &ttl, 0},
		ARG_TABLE_END};
	struct args a = {.command_after = ARGS_NO_COMMAND};
	const char *id;
	struct err e;
	int code;
	auto_client struct client cl = {0};
	auto_buf struct buf body = {0}, box = {0}, text = {.max = CLIENT_BODY_MAX}, path = {0};
	if (!args_parse(c, table, argc, argv, &a, &code) || !args_box(c, &a, a.n, &id, &code))
		return code;
	if (a.n > 2)
		return cli_usage(c, "'%s' is too much: a backup has one name", a.words[2]);
	write_wish(&body, a.n > 1 ? a.words[1] : NULL, ttl);
	client_box_path(&box, id, "/backups");
	if (api_open_box(c, &cl, id, &e) < 0 || client_catch_signals(&cl, &e) < 0 ||
		client_call(&cl, "POST", buf_cstr(&box), buf_str(&body), &text, &e) < 0)
		return cli_fail(c, &e);
	auto_json struct json_doc *d = json_parse(buf_str(&text), &e);
	if (!d)
		return cli_fail(c, &e);
	buf_printf(&path, "/v1/backups/%.*s", STR_ARG(api_text(json_root(d), "id")));
	return finish(c, &cl, buf_cstr(&path), &e);
}

/* ---- list and delete ---- */

static void add_row(struct table *t, const struct json *it)
{
	uint64_t size = 0;
	char text[24];
	json_read_u64(it, "size", 0, UINT64_MAX, &size, NULL);
	table_add(t, api_text(it, "id"));
	table_add(t, api_text(it, "sandbox"));
	table_add(t, api_text(it, "name"));
	table_add(t, api_text(it, "state"));
	table_printf(t, "%s", box_size_text(size, text));
	table_printf(t, "%s", box_age_text(api_text(it, "createdAt"), text));
}

static const char *const heads[] = {"ID", "BOX", "NAME", "STATE", ">SIZE", ">AGE"};

/* "3 hidden, 1.2 GiB; 40 GiB of 100 GiB": what the rows do not say. */
static void print_usage(const struct json *answer)
{
	const struct json *usage = json_get(answer, "usage");
	auto_buf struct buf out = {0};
	uint64_t bytes = 0, hidden = 0, hidden_bytes = 0, allowed = 0;
	char text[24];
	if (json_is_null(usage) || json_read_u64(usage, "bytes", 0, UINT64_MAX, &bytes, NULL) < 0 ||
		json_read_u64(usage, "hidden", 0, UINT64_MAX, &hidden, NULL) < 0 ||
		json_read_u64(usage, "hiddenBytes", 0, UINT64_MAX, &hidden_bytes, NULL) < 0 ||
		json_read_u64(usage, "allowed", 0, UINT64_MAX, &allowed, NULL) < 0 || (!bytes && !hidden))
		return;
	if (hidden)
		buf_printf(&out, "%llu hidden, %s; ", (unsigned long long)hidden, box_size_text(hidden_bytes, text));
	buf_add_c(&out, box_size_text(bytes, text));
	if (allowed)
		buf_printf(&out, " of %s", box_size_text(allowed, text));
	buf_add_byte(&out, '\n');
	cli_print(&out);
}

static const struct listing listing = {
	"backups", heads, ARRAY_LEN(heads), add_row, "there are no backups", print_usage};

/* Backups outlive their box: without one of this name, the box must be there. */
static int list_of(struct cli *c, const char *id, struct err *e)
{
	auto_client struct client cl = {0};
	auto_buf struct buf path = {0}, answer = {.max = CLIENT_BODY_MAX};
	client_box_path(&path, id, "/backups");
	if (client_open(c, &cl, e) < 0 || client_call(&cl, "GET", buf_cstr(&path), STR(""), &answer, e) < 0)
		return -1;
	auto_json struct json_doc *d = json_parse(buf_str(&answer), e);
	const struct json *list = d ? json_get(json_root(d), listing.key) : NULL;
	if (!d || (!(list && list->first) && api_need_box(&cl, id, e) < 0))
		return -1;
	if (c->json)
		cli_print(&answer);
	else
		listing_print(&listing, json_root(d));
	return 0;
}

int verb_backups(struct cli *c, int argc, char **argv)
{
	const struct arg table[] = {ARG_TABLE_END};
	struct args a = {.command_after = ARGS_NO_COMMAND};
	const char *id = NULL;
	struct err e;
	int code;
	if (!args_parse(c, table, argc, argv, &a, &code))
		return code;
	if (a.n && strcmp(a.words[0], "rm") == 0)
		return a.n > 1 ? delete_from(c, "/v1/backups/", a.words + 1, a.n - 1)
			       : cli_usage(c, "which backups? Write their ids");
	if (a.n && !args_box(c, &a, 1, &id, &code))
		return code;
	int r = id ? list_of(c, id, &e) : listing_ask(c, "/v1/backups", &listing, &e);
	return r < 0 ? cli_fail(c, &e) : 0;
}

/* ---- restore ---- */

static void on_interrupt(struct client *cl, int signo)
{
	struct api_follow *f = cl->signal_arg;
	(void)signo;
	if (f->call)
		http_call_cancel(f->call);
}

struct restore {
	struct cli *c;
	bool done;
};

static int on_event(void *arg, const struct json *event, struct str text, struct err *e)
{
	struct restore *r = arg;
	struct str type = api_text(event, "type"), message = api_text(event, "message");
	uint64_t bytes = 0, total = 0;
	char now[24], all[24];
	if (r->c->json)
		printf("%.*s\n", STR_ARG(text));
	if (str_eq_c(type, "error"))
		return err_set(e, errc_from_name(api_text(event, "code")), "%.*s",
			(int)(message.n < 230 ? message.n : 230), message.p);
	r->done = str_eq_c(type, "done");
	if (r->done)
		return 1;
	json_read_u64(event, "bytes", 0, UINT64_MAX, &bytes, NULL);
	json_read_u64(event, "total", 0, UINT64_MAX, &total, NULL);
	if (str_eq_c(type, "progress") && isatty(STDERR_FILENO))
		fprintf(stderr, "\r\033[K%s %s of %s",
			str_eq_c(api_text(event, "phase"), "checking") ? "checking" : "restoring",
			box_size_text(bytes, now), box_size_text(total, all));
	return 0;
}

int backup_restore(struct cli *c, const char *id, const char *backup)
{
	auto_client struct client cl = {0};
	auto_buf struct buf body = {0};
	struct json_writer w = json_writer(&body);
	struct restore r = {.c = c};
	struct err e = {0};
	json_object_begin(&w);
	json_member_cstr(&w, "backup", backup);
	json_object_end(&w);
	if (api_open_box(c, &cl, id, &e) < 0 || client_catch_signals(&cl, &e) < 0)
		return cli_fail(c, &e);
	struct api_follow f = {.id = id,
		.method = "POST",
		.rest = "/restore?follow=1",
		.body = buf_str(&body),
		.on_event = on_event,
		.arg = &r};
	cl.head_ms = BACKUP_RESTORE_MS;
	cl.on_signal = on_interrupt;
	cl.signal_arg = &f;
	int got = api_follow(&cl, &f, &e);
	show_end();
	if (cl.interrupted && !r.done) {
		fprintf(stderr, "atoll restore: cancelled; the files of '%s' are as they were\n", id);
		return 128 + cl.interrupted;
	}
	return got < 0 ? cli_fail(c, &e) : 0;
}
