#include "daemon/pass/preview.h"

#include <ctype.h>
#include <stdio.h>

#include "base/clock.h"
#include "daemon/limits.h"
#include "daemon/pass/pages.h"
#include "daemon/pass/port_forward.h"
#include "daemon/pass/preview_memory.h"
#include "daemon/ports/tunnels.h"
#include "daemon/route/handlers.h"
#include "proto/id.h"
#include "store/limits.h"

/* One request to a preview, while it is on its way: the arg of port_forward. */
struct preview {
	struct list node; /* in port->previews */
	struct daemon_request *request;
	struct sandbox *sandbox;	/* referenced, and counted in its `previews` */
	struct port *port;		/* referenced */
	char token[PORT_TOKEN_MAX + 1]; /* that it came with */
	struct port_entry entry;
	uint64_t last_used; /* of the sandbox, before this request */
	bool poll, silent;
};

bool preview_parse(struct str label, struct preview_name *ret)
{
	char low[PREVIEW_LABEL_MAX + 1];
	uint64_t port;
	if (label.n > PREVIEW_LABEL_MAX)
		return false;
	for (size_t i = 0; i < label.n; i++)
		low[i] = (char)tolower((unsigned char)label.p[i]);
	struct str rest, number = str_split(str_n(low, label.n), '-', &rest);
	if (number.n < 4 || number.n > 5 || !str_to_u64(number, 65535, &port) || number.p[0] == '0')
		return false;
	size_t at = rest.n;
	while (at > 0 && rest.p[at - 1] != '-')
		at--;
	if (at == 0)
		return false;
	struct str id = str_n(rest.p, at - 1), token = str_skip(rest, at);
	if (box_id_check(id, NULL) < 0 || port_check_token(token, NULL) < 0 ||
		port_check_number((uint16_t)port, NULL) < 0)
		return false;
	ret->port = (uint16_t)port;
	snprintf(ret->id, sizeof ret->id, "%.*s", STR_ARG(id));
	snprintf(ret->token, sizeof ret->token, "%.*s", STR_ARG(token));
	return true;
}

/* It is being destroyed, or a request to destroy it waits. */
static bool is_going(const struct sandbox *s)
{
	if (s->op == OP_DESTROY)
		return true;
	list_each(it, &s->waiters)
	{
		if (list_entry(it, struct sandbox_waiter, node)->goal == WAIT_GONE)
			return true;
	}
	return false;
}

/* The port that the name opens, or NULL. A token is compared in any case, so that no case takes less. */
static struct port *preview_find(struct daemon *d, const struct preview_name *name, struct sandbox **ret_s)
{
	static const char none[] = "----------------";
	struct sandbox *s = sandbox_find(d, name->id);
	struct port *p = s && !is_going(s) ? port_find(s, name->port) : NULL;
	bool right = str_eq_secret(str_of(name->token), p ? str_of(p->token) : str_of(none));
	*ret_s = s;
	return p && right ? p : NULL;
}

static struct port *tunnel_port(struct daemon *d, struct str label, struct sandbox **ret_s)
{
	struct tunnel *t = tunnel_of_label(d, label);
	if (!t || t->through_cloudflare || is_going(t->sandbox))
		return NULL;
	*ret_s = t->sandbox;
	return t->port;
}

static void preview_cut(struct port *p)
{
	list_each(it, &p->previews)
	{
		struct preview *v = list_entry(it, struct preview, node);
		if (p->gone || strcmp(v->token, p->token) != 0)
			port_forward_abort(v->request);
	}
}

static void preview_remember(struct daemon_request *r, struct preview *v, struct sandbox *s, struct port *p)
{
	const struct http_request *q = http_request(r->x);
	sandbox_ref(s);
	s->previews++;
	v->sandbox = s;
	port_ref(p);
	v->port = p;
	v->request = r;
	memcpy(v->token, p->token, sizeof v->token);
	list_push(&p->previews, &v->node);
	p->cut = preview_cut;
	preview_memory_begin(s, r);
	v->entry.at_ms = clock_wall_ms();
	v->entry.query = q->query.p != NULL;
	size_t n = q->path.n < PORT_LOG_PATH_MAX ? q->path.n : PORT_LOG_PATH_MAX;
	snprintf(v->entry.method, sizeof v->entry.method, "%.*s", STR_ARG(q->method_text));
	snprintf(v->entry.path, sizeof v->entry.path, "%.*s", (int)n, q->path.p);
}

/* ---- the box's answers ---- */

static void on_preview_gone(struct daemon_request *r, const struct err *e)
{
	struct preview *v = port_forward_arg(r);
	if (e->code == ERRC_INVALID_STATE)
		page_stale(r, v->port->number);
	else
		page_not_found(r);
}

static void on_preview_silent(struct daemon_request *r, const struct err *e)
{
	(void)e;
	struct preview *v = port_forward_arg(r);
	v->silent = true;
	page_silent(r, v->port->number);
}

static void on_preview_failed(struct daemon_request *r, const struct err *e)
{
	struct preview *v = port_forward_arg(r);
	page_failed(r, v->port->number, e);
}

/* The waiting page polls. A poll that finds nothing does not keep the sandbox awake. */
static void forget_poll(struct daemon_request *r, const struct preview *v)
{
	struct sandbox *s = sandbox_find(r->daemon, r->match.id);
	if (s && v->poll && v->silent && !s->exchanges)
		s->last_used = v->last_used;
}

static void on_preview_done(struct daemon_request *r, const struct port_forward_result *result)
{
	struct preview *v = port_forward_arg(r);
	v->entry.status = result->status;
	v->entry.us = result->us;
	v->entry.bytes_in = result->bytes_in;
	v->entry.bytes_out = result->bytes_out;
	forget_poll(r, v);
	list_del(&v->node);
	if (v->poll)
		port_heads_clear(&v->entry.heads);
	else
		port_record(r->daemon, v->port, &v->entry);
	port_unref(v->port);
	v->sandbox->previews--;
	sandbox_unref(v->sandbox);
	free(v);
}

void preview_each(struct sandbox *s, void (*each)(void *arg, struct daemon_request *r), void *arg)
{
	list_each(it, &s->ports)
	{
		const struct port *p = list_entry(it, struct port, node);
		list_each(at, &p->previews) each(arg, list_entry(at, struct preview, node)->request);
	}
}

/* Previews have places of their own, and each sandbox has a share of them. So a flood of one sandbox's previews harms
 * neither the API nor the previews of others. */
static bool preview_admit(struct daemon_request *r, const struct sandbox *s, uint16_t port)
{
	size_t all = http_server_guests_max(r->daemon->server);
	size_t share = all > PREVIEW_BOX_SHARE ? all / PREVIEW_BOX_SHARE : 1;
	struct err e;
	if (s->previews >= share)
		err_set(&e, ERRC_LIMIT_REACHED, "%u requests to previews of this sandbox are under way already",
			s->previews);
	else if (!http_exchange_vouch(r->x, HTTP_GUEST))
		err_set(&e, ERRC_LIMIT_REACHED, "%zu connections to previews are open already", all);
	else {
		http_exchange_join(r->x, s->party);
		return true;
	}
	r->daemon->metrics.previews_busy++;
	http_respond_header(r->x, STR("Retry-After"), STR(PREVIEW_RETRY_AFTER));
	page_failed(r, port, &e);
	return false;
}

void handle_preview(struct daemon_request *r, const struct host_origin *origin, struct str label)
{
	const struct http_request *q = http_request(r->x);
	struct preview_name name;
	struct sandbox *s = NULL;
	struct port *p =
		preview_parse(label, &name) ? preview_find(r->daemon, &name, &s) : tunnel_port(r->daemon, label, &s);
	if (!p || q->path.p[0] != '/')
		return page_not_found(r);
	bool ready = sandbox_is_ready(s) && list_empty(&s->waiters);
	if (page_is_poll(q) && !ready && s->state != SB_STOPPED)
		return page_silent(r, p->number);
	if (!preview_admit(r, s, p->number))
		return;
	struct preview *v = xcalloc(1, sizeof *v);
	v->poll = page_is_poll(q);
	v->last_used = s->last_used;
	preview_remember(r, v, s, p);
	memcpy(r->match.id, s->id, sizeof r->match.id);
	port_forward(r, p->number,
		&(struct port_forward_opts){
			.proto = origin->https ? "https" : "http",
			.trusted_peer = origin->trusted_peer,
			.on_gone = on_preview_gone,
			.on_silent = on_preview_silent,
			.on_failed = on_preview_failed,
			.on_done = on_preview_done,
			.arg = v,
			.heads = &v->entry.heads,
		});
}
