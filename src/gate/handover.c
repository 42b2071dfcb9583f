/*
 * Requests that an outbound handler answers: proxied to atolld's hook socket. Headers that tell atolld what the request
 * is cannot come from a box.
 */
#include <stdio.h>

#include "gate/web.h"

static const struct str own_prefix = STR("X-Atoll-Hook-");

bool handover_wants(const struct web *w, const char *name)
{
	const struct passage *c = w->conn;
	const struct gate_sandbox *s = c->box->sandbox;
	const struct policy *p = box_policy(c->box);
	struct hook_dest to = {name, &c->wanted, c->port};
	return s && p && p->mode != POLICY_OFF && hooks_want(s->hooks, w->tls, &to);
}

static bool filter(void *arg, struct str name, struct str *value)
{
	(void)arg;
	(void)value;
	return name.n < own_prefix.n || !str_eq_nocase(str_n(name.p, own_prefix.n), own_prefix);
}

static void on_fail(void *arg, struct http_exchange *x, const struct http_failure *f)
{
	struct web *w = arg;
	(void)f;
	w->proxy = NULL;
	if (!w->conn) {
		http_abort(x);
		return web_release(w);
	}
	web_answer(x, 520, "520 the outbound handler of this sandbox cannot be reached\n");
}

static void on_done(void *arg, int status, bool complete)
{
	(void)status;
	(void)complete;
	web_done(arg);
}

void handover(struct web *w, struct http_exchange *x, const char *name)
{
	struct passage *c = w->conn;
	char url[NET_NAME_MAX + IP_TEXT + 32], address[IP_TEXT];
	bool usual = c->port == (w->tls ? 443 : 80), six = !*name && !ip_is4(&c->wanted);
	web_begin_leg(w, name, "outbound handler");
	if (*name)
		snprintf(c->name, sizeof c->name, "%s", name);
	int n = snprintf(url, sizeof url, "%s://%s%s%s", w->tls ? "https" : "http", six ? "[" : "",
		*name ? name : ip_format(&c->wanted, address), six ? "]" : "");
	if (!usual)
		snprintf(url + n, sizeof url - (size_t)n, ":%u", c->port);
	const struct http_header add[] = {
		{STR("X-Atoll-Hook-Sandbox"), str_of(box_id(c->box))}, {STR("X-Atoll-Hook-Url"), str_of(url)}};
	const struct http_proxy_options o = {.add = add,
		.add_n = ARRAY_LEN(add),
		.filter_request = filter,
		.on_fail = on_fail,
		.on_done = on_done,
		.arg = w};
	w->proxy = http_proxy(x, w->gate->http_client, &w->gate->hook_socket, &o);
}
