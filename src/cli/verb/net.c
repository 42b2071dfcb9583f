/*
 * net.c - `atoll net`: what a box may reach, and what its connections did.
 */
#include <stdio.h>
#include <string.h>

#include "cli/api.h"
#include "cli/args.h"
#include "cli/text.h"
#include "cli/verbs.h"

struct net {
	struct cli *c;
	struct client *cl;
	const char *id;
	const struct args *a;
	bool follow;
};

static void print_rules(struct buf *out, const struct json *policy, const char *key)
{
	json_each(it, json_get(policy, key))
	{
		buf_printf(out, "%-8s", key);
		text_put_safe(out, it->text);
		buf_add_byte(out, '\n');
	}
}

static void print_policy(const struct json *p)
{
	auto_buf struct buf out = {0};
	uint64_t n[4] = {0};
	static const char *const names[] = {"connections", "denied", "bytesSent", "bytesReceived"};
	for (size_t i = 0; i < ARRAY_LEN(names); i++)
		json_read_u64(p, names[i], 0, UINT64_MAX, &n[i], NULL);
	buf_add_c(&out, "mode    ");
	text_put_safe(&out, api_text(p, "mode"));
	if (api_text(p, "reason").n) {
		buf_add_c(&out, ": ");
		text_put_safe(&out, api_text(p, "reason"));
	}
	buf_add_byte(&out, '\n');
	print_rules(&out, p, "allow");
	print_rules(&out, p, "deny");
	buf_printf(&out, "used    %llu connections, %llu denied, %llu bytes sent, %llu received\n",
		(unsigned long long)n[0], (unsigned long long)n[1], (unsigned long long)n[2], (unsigned long long)n[3]);
	cli_print(&out);
}

static int show(struct net *n, const char *method, struct str body, struct err *e)
{
	auto_json struct json_doc *d = api_ask(n->cl, n->id, method, "/network", body, e);
	if (!d)
		return -1;
	if (!n->c->json)
		print_policy(json_root(d));
	return 0;
}

/* ---- changes ---- */

static bool is_named(const struct args *a, struct str rule)
{
	for (int i = 2; i < a->n; i++)
		if (str_eq_c(rule, a->words[i]))
			return true;
	return false;
}

/* The box's own rules of this list, without those that the command names, and with them when `add` says so. */
static void write_rules(struct json_writer *w, const struct net *n, const struct json *own, const char *key, bool add)
{
	json_key(w, key);
	json_array_begin(w);
	json_each(it, json_get(own, key))
	{
		if (!is_named(n->a, it->text))
			json_str(w, it->text);
	}
	for (int i = 2; add && i < n->a->n; i++)
		json_cstr(w, n->a->words[i]);
	json_array_end(w);
}

/* A rule stands in one list: what is allowed now was not denied. */
static int change_rules(struct net *n, const char *what, struct err *e)
{
	auto_buf struct buf path = {0}, answer = {0}, body = {0};
	client_box_path(&path, n->id, "/network");
	if (client_call(n->cl, "GET", buf_cstr(&path), STR(""), &answer, e) < 0)
		return -1;
	auto_json struct json_doc *d = json_parse(buf_str(&answer), e);
	if (!d)
		return -1;
	const struct json *own = json_get(json_root(d), "own");
	struct json_writer w = json_writer(&body);
	json_object_begin(&w);
	write_rules(&w, n, own, "allow", strcmp(what, "allow") == 0);
	write_rules(&w, n, own, "deny", strcmp(what, "deny") == 0);
	json_object_end(&w);
	return show(n, "PATCH", buf_str(&body), e);
}

static int change_mode(struct net *n, struct err *e)
{
	auto_buf struct buf body = {0};
	struct json_writer w = json_writer(&body);
	json_object_begin(&w);
	json_member_cstr(&w, "mode", n->a->words[2]);
	json_object_end(&w);
	return show(n, "PATCH", buf_str(&body), e);
}

/* ---- log ---- */

static void print_record(const struct json *r)
{
	auto_buf struct buf line = {0};
	uint64_t port = 0, sent = 0, received = 0, ms = 0;
	struct str name = api_text(r, "name"), decision = api_text(r, "decision");
	bool allowed = str_eq_c(decision, "allow");
	json_read_u64(r, "port", 0, 65535, &port, NULL);
	json_read_u64(r, "sent", 0, UINT64_MAX, &sent, NULL);
	json_read_u64(r, "received", 0, UINT64_MAX, &received, NULL);
	json_read_u64(r, "ms", 0, UINT64_MAX, &ms, NULL);
	text_put_safe(&line, api_text(r, "time"));
	buf_printf(&line, "  %s", cli_style(STDOUT_FILENO, allowed ? STYLE_GREEN : STYLE_RED));
	text_put_safe(&line, decision);
	buf_printf(
		&line, "%s%*s ", cli_style(STDOUT_FILENO, STYLE_PLAIN), decision.n < 5 ? 5 - (int)decision.n : 0, "");
	text_put_safe(&line, api_text(r, "protocol"));
	buf_add_byte(&line, ' ');
	text_put_safe(&line, name.n ? name : api_text(r, "address"));
	buf_printf(&line, ":%llu", (unsigned long long)port);
	if (allowed)
		buf_printf(&line, "  %llu sent, %llu received, %llu ms", (unsigned long long)sent,
			(unsigned long long)received, (unsigned long long)ms);
	buf_add_c(&line, "  (");
	text_put_safe(&line, api_text(r, "rule"));
	buf_add_c(&line, "; ");
	text_put_safe(&line, api_text(r, "end"));
	buf_add_c(&line, ")\n");
	cli_print(&line);
}

static int on_record(void *arg, const struct json *record, struct str text, struct err *e)
{
	struct net *n = arg;
	(void)e;
	if (n->c->json) {
		auto_buf struct buf line = {0};
		buf_add_str(&line, text);
		cli_print(&line);
	} else {
		print_record(record);
	}
	return 0;
}

static int show_log(struct net *n, struct err *e)
{
	if (n->follow) {
		struct api_follow f = {
			.id = n->id, .method = "GET", .rest = "/network/log?follow=1", .on_event = on_record, .arg = n};
		return api_follow(n->cl, &f, e);
	}
	auto_json struct json_doc *d = api_ask(n->cl, n->id, "GET", "/network/log", STR(""), e);
	if (!d)
		return -1;
	if (n->c->json)
		return 0;
	json_each(it, json_get(json_root(d), "log")) print_record(it);
	return 0;
}

/* ---- the verb ---- */

static int run(struct net *n, const char *what, struct err *e)
{
	if (!*what)
		return show(n, "GET", STR(""), e);
	if (strcmp(what, "log") == 0)
		return show_log(n, e);
	return strcmp(what, "mode") == 0 ? change_mode(n, e) : change_rules(n, what, e);
}

static bool check(struct cli *c, const struct args *a, const char *what, bool follow, int *code)
{
	bool rules = strcmp(what, "allow") == 0 || strcmp(what, "deny") == 0 || strcmp(what, "remove") == 0;
	bool mode = strcmp(what, "mode") == 0, log = strcmp(what, "log") == 0;
	if (*what && !rules && !mode && !log)
		*code = cli_usage(c, "allow, deny, remove, mode or log, not '%s'", what);
	else if (rules && a->n < 3)
		*code = cli_usage(c, "which rule? As in pypi.org, '*.npmjs.org:443' or 10.1.0.0/16:5432");
	else if (mode && a->n != 3)
		*code = cli_usage(c, "which mode: open, list or off?");
	else if (log && a->n > 2)
		*code = cli_usage(c, "'%s' is too much", a->words[2]);
	else if (follow && !log)
		*code = cli_usage(c, "-f goes with log");
	else
		return true;
	return false;
}

int verb_net(struct cli *c, int argc, char **argv)
{
	bool follow = false;
	const char *id;
	const struct arg table[] = {
		{"follow", NULL, "with log: go on with what comes, until Ctrl-C", ARG_FLAG, &follow, 'f'},
		ARG_TABLE_END};
	struct args a = {.command_after = ARGS_NO_COMMAND};
	struct err e;
	int code;
	if (!args_parse(c, table, argc, argv, &a, &code) || !args_box(c, &a, a.n, &id, &code))
		return code;
	const char *what = a.n > 1 ? a.words[1] : "";
	if (!check(c, &a, what, follow, &code))
		return code;
	auto_client struct client cl = {0};
	struct net n = {.c = c, .cl = &cl, .id = id, .a = &a, .follow = follow};
	if (api_open_box(c, &cl, id, &e) < 0 || run(&n, what, &e) < 0)
		return cli_fail(c, &e);
	return 0;
}
