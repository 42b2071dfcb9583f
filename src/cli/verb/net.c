/*
 * net.c - `atoll net`: what a box may reach, and what its connections did.
 */
#include <stdio.h>
#include <string.h>

#include "cli/api.h"
#include "cli/args.h"
#include "cli/text.h"
#include "cli/verb/box.h"
#include "cli/verbs.h"
#include "proto/limits.h"

/* Members of the policy that are not words; unset: they stay. */
struct net_options {
	bool follow, ask, no_ask;
	uint64_t ask_ms, connections;
	const char *rate; /* bytes a second */
};

struct net {
	struct cli *c;
	struct client *cl;
	const char *id;
	const struct args *a;
	const struct net_options *o;
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

/* What differs from what every box has. */
static void print_bounds(struct buf *out, const struct json *p)
{
	bool ask = false;
	uint64_t seconds = 0, rate = 0, most = 0;
	char text[24];
	json_read_bool(p, "ask", &ask, NULL);
	json_read_u64(p, "askTimeout", 0, UINT32_MAX, &seconds, NULL);
	json_read_u64(p, "rateBps", 0, UINT32_MAX, &rate, NULL);
	json_read_u64(p, "maxConnections", 0, UINT32_MAX, &most, NULL);
	if (ask)
		buf_add_c(out, "ask     ");
	if (ask && seconds)
		buf_printf(out, "for %llu s\n", (unsigned long long)seconds);
	else if (ask) {
		buf_add_c(out, "for ");
		text_put_safe(out, api_text(p, "askTimeout"));
		buf_add_byte(out, '\n');
	}
	if (rate)
		buf_printf(out, "rate    %s a second\n", box_size_text(rate, text));
	if (most && most != NET_CONNS)
		buf_printf(out, "at once %llu connections\n", (unsigned long long)most);
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
	print_bounds(&out, p);
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

static bool bounds_given(const struct net_options *o)
{
	return o->ask || o->no_ask || o->ask_ms || o->connections || o->rate;
}

static void write_bounds(struct json_writer *w, const struct net_options *o)
{
	uint64_t rate = 0;
	if (o->ask || o->no_ask)
		json_member_bool(w, "ask", o->ask);
	if (o->ask_ms)
		json_member_u64(w, "askTimeout", (o->ask_ms + 999) / 1000);
	if (o->rate && args_read_bytes(o->rate, &rate))
		json_member_u64(w, "rateBps", rate);
	if (o->connections)
		json_member_u64(w, "maxConnections", o->connections);
}

static bool is_named(const struct args *a, struct str rule)
{
	for (int i = 2; i < a->n; i++)
		if (str_eq_c(rule, a->words[i]))
			return true;
	return false;
}

static bool has_rule(const struct json *own, const char *rule)
{
	static const char *const lists[] = {"allow", "deny"};
	for (size_t i = 0; i < ARRAY_LEN(lists); i++)
		json_each(it, json_get(own, lists[i]))
		{
			if (str_eq_c(it->text, rule))
				return true;
		}
	return false;
}

/* Rules to remove must be there: a misspelt one would stay in force. */
static int check_there(struct net *n, const struct json *own, struct err *e)
{
	for (int i = 2; i < n->a->n; i++) {
		if (has_rule(own, n->a->words[i]))
			continue;
		cli_hint(n->c, "'%s net %s' lists its rules.", n->c->self, n->id);
		return err_set(e, ERRC_VALIDATION_FAILED, "box '%s' has no rule '%.100s'; nothing was changed", n->id,
			n->a->words[i]);
	}
	return 0;
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
	if (strcmp(what, "remove") == 0 && check_there(n, own, e) < 0)
		return -1;
	struct json_writer w = json_writer(&body);
	json_object_begin(&w);
	write_rules(&w, n, own, "allow", strcmp(what, "allow") == 0);
	write_rules(&w, n, own, "deny", strcmp(what, "deny") == 0);
	write_bounds(&w, n->o);
	json_object_end(&w);
	return show(n, "PATCH", buf_str(&body), e);
}

/* The mode, if there is one, and the options. */
static int change(struct net *n, const char *mode, struct err *e)
{
	auto_buf struct buf body = {0};
	struct json_writer w = json_writer(&body);
	json_object_begin(&w);
	if (mode)
		json_member_cstr(&w, "mode", mode);
	write_bounds(&w, n->o);
	json_object_end(&w);
	return show(n, "PATCH", buf_str(&body), e);
}

/* ---- log ---- */

static void print_record(const struct json *r)
{
	auto_buf struct buf line = {0};
	uint64_t port = 0, sent = 0, received = 0, ms = 0, times = 1;
	struct str name = api_text(r, "name"), decision = api_text(r, "decision");
	bool allowed = str_eq_c(decision, "allow");
	json_read_u64(r, "port", 0, 65535, &port, NULL);
	json_read_u64(r, "sent", 0, UINT64_MAX, &sent, NULL);
	json_read_u64(r, "received", 0, UINT64_MAX, &received, NULL);
	json_read_u64(r, "ms", 0, UINT64_MAX, &ms, NULL);
	json_read_u64(r, "times", 0, UINT64_MAX, &times, NULL);
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
	if (times > 1)
		buf_printf(&line, "  and others, %llu times", (unsigned long long)times);
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
	if (n->o->follow) {
		struct api_follow f = {
			.id = n->id, .method = "GET", .rest = "/network/log?follow=1", .on_event = on_record, .arg = n};
		return api_follow(n->cl, &f, e);
	}
	auto_json struct json_doc *d = api_ask(n->cl, n->id, "GET", "/network/log", STR(""), e);
	if (!d)
		return -1;
	if (n->c->json)
		return 0;
	const struct json *log = json_get(json_root(d), "log");
	json_each(it, log) print_record(it);
	if (!log || !log->first)
		fputs("no connections have ended\n", stderr);
	return 0;
}

/* ---- the verb ---- */

static int run(struct net *n, const char *what, struct err *e)
{
	if (!*what)
		return bounds_given(n->o) ? change(n, NULL, e) : show(n, "GET", STR(""), e);
	if (strcmp(what, "log") == 0)
		return show_log(n, e);
	return strcmp(what, "mode") == 0 ? change(n, n->a->words[2], e) : change_rules(n, what, e);
}

static bool check(struct cli *c, const struct args *a, const char *what, const struct net_options *o, int *code)
{
	uint64_t rate;
	bool rules = strcmp(what, "allow") == 0 || strcmp(what, "deny") == 0 || strcmp(what, "remove") == 0;
	bool mode = strcmp(what, "mode") == 0, log = strcmp(what, "log") == 0;
	if (*what && !rules && !mode && !log)
		*code = cli_usage(c, "allow, deny, remove, mode or log, not '%s'", what);
	else if (rules && a->n < 3)
		*code = cli_usage(c, "which rule? As in pypi.org, '*.npmjs.org:443' or 10.1.0.0/16:5432");
	else if (mode && a->n != 3)
		*code = cli_usage(c, "which mode: open, list or off?");
	else if (mode && !box_is_network_mode(a->words[2]))
		*code = cli_usage(c, "the mode cannot be '%s'; write open, list or off", a->words[2]);
	else if (log && a->n > 2)
		*code = cli_usage(c, "'%s' is too much", a->words[2]);
	else if (o->follow && !log)
		*code = cli_usage(c, "-f goes with log");
	else if (log && bounds_given(o))
		*code = cli_usage(c, "log takes no option but -f");
	else if (o->ask && o->no_ask)
		*code = cli_usage(c, "use --ask or --no-ask, not both");
	else if (o->rate && !args_read_bytes(o->rate, &rate))
		*code = cli_usage(c, "--rate cannot be '%s'; write for example 1m, or 0 for no limit", o->rate);
	else
		return true;
	return false;
}

int verb_net(struct cli *c, int argc, char **argv)
{
	struct net_options o = {0};
	const char *id;
	const struct arg table[] = {
		{"ask", NULL, "mode list: hold connections that no rule decides until they are approved", ARG_FLAG,
			&o.ask},
		{"no-ask", NULL, "refuse them again", ARG_FLAG, &o.no_ask},
		{"ask-timeout", "TIME", "how long they wait, as in 30 or 2m (default: 30 s)", ARG_SECONDS, &o.ask_ms},
		{"rate", "SIZE", "bytes a second, all connections together, as in 1m; 0 is no limit", ARG_TEXT,
			&o.rate},
		{"max-connections", "N", "connections at once (default: 1024); more wait", ARG_COUNT, &o.connections},
		{"follow", NULL, "with log: go on with what comes, until Ctrl-C", ARG_FLAG, &o.follow, 'f'},
		ARG_TABLE_END};
	struct args a = {.command_after = ARGS_NO_COMMAND};
	struct err e;
	int code;
	if (!args_parse(c, table, argc, argv, &a, &code) || !args_box(c, &a, a.n, &id, &code))
		return code;
	const char *what = a.n > 1 ? a.words[1] : "";
	if (!check(c, &a, what, &o, &code))
		return code;
	auto_client struct client cl = {0};
	struct net n = {.c = c, .cl = &cl, .id = id, .a = &a, .o = &o};
	if (api_open_box(c, &cl, id, &e) < 0 || run(&n, what, &e) < 0)
		return cli_fail(c, &e);
	return 0;
}
