/*
 * /v1/sandboxes/{id}/ports…: expose, list, show, unexpose, check a token, look at the last requests.
 *
 * Exposing changes the table at once and answers when the store has it; a change that could not be written is taken
 * back, unless a newer change has replaced it (port.serial). Unexposing writes to the store first, so that a port that
 * is gone for the client does not come back with a restart. The store writes in order, so the last of several changes
 * wins in both places.
 */
#include <stdio.h>

#include "base/json.h"
#include "base/log.h"
#include "daemon/limits.h"
#include "daemon/pass/preview.h"
#include "daemon/route/handlers.h"
#include "daemon/route/request.h"
#include "store/limits.h"

/* The token and name that a client wants for an exposed port: request.extra. */
struct port_wish {
	char token[PORT_TOKEN_MAX + 1]; /* "": any */
	char name[PORT_NAME_MAX + 1];	/* "": none */
};

static const struct port_wish *wish_of(const struct daemon_request *r)
{
	INVARIANT(r->extra);
	return r->extra;
}

/* A change on its way through the store. */
struct port_change {
	struct daemon_request *request; /* held */
	struct port *port;		/* referenced */
	uint32_t serial;
	bool made;
	char token_before[PORT_TOKEN_MAX + 1], name_before[PORT_NAME_MAX + 1];
};

/* Ids that are fine for a sandbox may be none for a host name. NULL: what the code says. */
static const char *suggestion(enum errc code)
{
	if (code == ERRC_INVALID_SANDBOX_ID_CHARACTERS)
		return "Use a sandbox whose id has lowercase letters, digits, '-' and '_' only, or reach the port "
		       "under "
		       "/v1/sandboxes/{id}/proxy/{port}/.";
	if (code == ERRC_INVALID_SANDBOX_ID_LENGTH)
		return "Use a sandbox with a shorter id, give a shorter token, or reach the port under "
		       "/v1/sandboxes/{id}/proxy/{port}/.";
	return NULL;
}

static void ports_error(struct daemon_request *r, const struct err *e)
{
	auto_buf struct buf context = {0};
	struct json_writer w = json_writer(&context);
	if (*e->field)
		return daemon_request_error(r, e);
	json_object_begin(&w);
	json_member_u64(&w, "port", r->match.port);
	if (e->code == ERRC_INVALID_PORT)
		json_member_cstr(&w, "reason", e->msg);
	json_object_end(&w);
	struct error_json j = {.err = e, .context = buf_str(&context), .suggestion = suggestion(e->code)};
	http_respond_error_json(r->x, &j);
	daemon_request_answered(r, error_json_status(&j));
}

static void not_exposed(struct daemon_request *r)
{
	struct err e;
	err_set(&e, ERRC_PORT_NOT_EXPOSED, "Port %u of sandbox '%s' is not exposed.", (unsigned)r->match.port,
		r->match.id);
	ports_error(r, &e);
}

static void answer_port(struct daemon_request *r, int status, const struct sandbox *s, const struct port *p)
{
	auto_buf struct buf out = {0};
	struct json_writer w = json_writer(&out);
	port_view(&w, s, p);
	daemon_request_json(r, status, buf_str(&out));
}

/* ---- expose ---- */

/* Until change_end, which the store's answer brings: a newer change of the port makes this one void. */
static void change_begin(struct port_change *c, struct daemon_request *r, struct sandbox *s, struct port *p)
{
	c->request = r;
	c->port = p;
	c->serial = ++p->serial;
	port_ref(p);
	daemon_request_hold(r);
	sandbox_ref(s);
	r->sandbox = s;
}

static void change_end(struct port_change *c)
{
	port_unref(c->port);
	daemon_request_release(c->request);
	free(c);
}

static void take_back(struct sandbox *s, struct port_change *c)
{
	struct port *p = c->port;
	if (p->gone || p->serial != c->serial)
		return;
	if (c->made)
		return port_remove(s, p);
	memcpy(p->token, c->token_before, sizeof p->token);
	memcpy(p->name, c->name_before, sizeof p->name);
}

static void on_exposed(void *arg, const struct err *e)
{
	struct port_change *c = arg;
	struct daemon_request *r = c->request;
	struct err gone;
	if (e)
		take_back(r->sandbox, c);
	else
		preview_cut(c->port);
	if (!e && c->port->gone) {
		err_set(&gone, sandbox_exists(r->sandbox) ? ERRC_PORT_NOT_EXPOSED : ERRC_SANDBOX_NOT_FOUND,
			"sandbox '%s', or its port %u, went away meanwhile", r->match.id, (unsigned)r->match.port);
		e = &gone;
	}
	if (r->x && e)
		ports_error(r, e);
	else if (r->x)
		answer_port(r, c->made ? 201 : 200, r->sandbox, c->port);
	change_end(c);
}

static int choose_token(struct sandbox *s, struct daemon_request *r, const struct port *p, char *ret, struct err *e)
{
	struct str wish = str_of(wish_of(r)->token);
	if (!wish.n && p)
		memcpy(ret, p->token, sizeof p->token);
	else if (!wish.n)
		return port_make_token(ret, e);
	else
		memcpy(ret, wish_of(r)->token, sizeof wish_of(r)->token);
	struct port *other = port_find_token(s, ret);
	if (other && other != p)
		return err_set(e, ERRC_PORT_ALREADY_EXPOSED,
			"This token is already in use by port %u. Please use a different token.",
			(unsigned)other->number);
	return 0;
}

static void write_port(struct sandbox *s, struct daemon_request *r, struct port *p, struct port_change *c)
{
	struct store_port row = {.port = p->number, .box_ms = s->created_ms, .created_ms = p->created_ms};
	memcpy(row.id, s->id, sizeof row.id);
	memcpy(row.token, p->token, sizeof row.token);
	memcpy(row.name, p->name, sizeof row.name);
	change_begin(c, r, s, p);
	store_port_put(r->daemon->store, &row, on_exposed, c);
}

static void expose(struct daemon_request *r, struct sandbox *s)
{
	struct err e;
	char token[PORT_TOKEN_MAX + 1];
	struct port *p = port_find(s, r->match.port);
	if (choose_token(s, r, p, token, &e) < 0)
		return ports_error(r, &e);
	if (p && strcmp(p->token, token) == 0 && strcmp(p->name, wish_of(r)->name) == 0)
		return answer_port(r, 200, s, p);
	struct port_change *c = xcalloc(1, sizeof *c);
	c->made = !p;
	if (!p)
		p = port_add(s, r->match.port, token, wish_of(r)->name, &e);
	if (!p) {
		free(c);
		return ports_error(r, &e);
	}
	memcpy(c->token_before, p->token, sizeof c->token_before);
	memcpy(c->name_before, p->name, sizeof c->name_before);
	memcpy(p->token, token, sizeof p->token);
	memcpy(p->name, wish_of(r)->name, sizeof p->name);
	write_port(s, r, p, c);
}

static void on_there(struct sandbox_waiter *w, struct sandbox *s, const struct err *e)
{
	struct daemon_request *r = container_of(w, struct daemon_request, waiter);
	if (e)
		ports_error(r, e);
	else
		expose(r, s);
}

/* Upstream's options; members that it knows and we do not need, like hostname, are let pass. */
static int read_wish(struct str body, struct port_wish *ret, struct err *e)
{
	auto_json struct json_doc *doc = json_parse(body.n ? body : STR("{}"), e);
	const struct json *o = doc ? json_root(doc) : NULL;
	struct str token = STR_NULL, name = STR_NULL;
	if (!doc)
		return -1;
	if (o->type != JSON_T_OBJECT)
		return err_set(e, ERRC_INVALID_JSON, "the body must be a JSON object");
	if (json_read_str(o, "token", &token, e) < 0 || (token.p && port_check_token(token, e) < 0))
		return err_about(e, "token");
	if (json_read_str(o, "name", &name, e) < 0 || port_check_name(name, e) < 0)
		return err_about(e, "name");
	snprintf(ret->token, sizeof ret->token, "%.*s", STR_ARG(token));
	snprintf(ret->name, sizeof ret->name, "%.*s", STR_ARG(name));
	return 0;
}

void handle_port_expose(struct daemon_request *r)
{
	struct err e;
	if (port_check_number(r->match.port, &e) < 0)
		return ports_error(r, &e);
	struct port_wish *wish = r->extra = xcalloc(1, sizeof *wish);
	if (read_wish(r->body, wish, &e) < 0)
		return ports_error(r, &e);
	size_t token_n = *wish->token ? strlen(wish->token) : PORT_TOKEN_MAX;
	if (port_check_id(r->match.id, r->match.port, token_n, &e) < 0)
		return ports_error(r, &e);
	struct sandbox *s = sandbox_find(r->daemon, r->match.id);
	if (s && sandbox_is_ready(s) && list_empty(&s->waiters))
		return expose(r, s);
	r->waiter = (struct sandbox_waiter){.goal = WAIT_RUNNING, .on_done = on_there};
	if (sandbox_wait_id(r->daemon, r->match.id, &r->waiter, &e) < 0)
		ports_error(r, &e);
}

/* ---- unexpose ---- */

static void on_unexposed(void *arg, const struct err *e)
{
	struct port_change *c = arg;
	struct daemon_request *r = c->request;
	if (!e && !c->port->gone && c->port->serial == c->serial) {
		port_remove(r->sandbox, c->port);
		preview_cut(c->port);
	}
	if (r->x && e)
		ports_error(r, e);
	else if (r->x)
		daemon_request_empty(r);
	change_end(c);
}

static void unexpose(struct daemon_request *r, struct sandbox *s, struct port *p)
{
	struct port_change *c = xcalloc(1, sizeof *c);
	change_begin(c, r, s, p);
	store_port_delete(r->daemon->store, s->id, p->number, on_unexposed, c);
}

/* ---- the routes ---- */

void handle_ports(struct daemon_request *r)
{
	struct sandbox *s = daemon_request_find(r);
	if (!s)
		return;
	auto_buf struct buf out = {0};
	struct json_writer w = json_writer(&out);
	json_object_begin(&w);
	json_key(&w, "ports");
	json_array_begin(&w);
	list_each(it, &s->ports) port_view(&w, s, list_entry(it, struct port, node));
	json_array_end(&w);
	json_member_u64(&w, "count", s->ports_n);
	json_object_end(&w);
	daemon_request_json(r, 200, buf_str(&out));
}

/* NULL: the request has been answered. */
static struct port *find(struct daemon_request *r, struct sandbox **ret)
{
	struct err e;
	if (port_check_number(r->match.port, &e) < 0) {
		ports_error(r, &e);
		return NULL;
	}
	*ret = daemon_request_find(r);
	struct port *p = *ret ? port_find(*ret, r->match.port) : NULL;
	if (*ret && !p)
		not_exposed(r);
	return p;
}

void handle_port_get(struct daemon_request *r)
{
	struct sandbox *s;
	struct port *p = find(r, &s);
	if (p)
		answer_port(r, 200, s, p);
}

void handle_port_unexpose(struct daemon_request *r)
{
	struct sandbox *s;
	struct port *p = find(r, &s);
	if (p)
		unexpose(r, s, p);
}

/* Upstream's validatePortToken: a question that has no errors, only yes and no. */
void handle_port_validate(struct daemon_request *r)
{
	auto_buf struct buf out = {0};
	struct json_writer w = json_writer(&out);
	struct err e;
	struct str token = STR_NULL;
	auto_json struct json_doc *doc = json_parse(r->body.n ? r->body : STR("{}"), &e);
	if (!doc)
		return ports_error(r, &e);
	if (json_read_str(json_root(doc), "token", &token, &e) < 0)
		return ports_error(r, &e);
	struct sandbox *s = sandbox_find(r->daemon, r->match.id);
	struct port *p = s ? port_find(s, r->match.port) : NULL;
	json_object_begin(&w);
	json_member_bool(&w, "valid", p && str_eq_secret(token, str_of(p->token)));
	json_object_end(&w);
	daemon_request_json(r, 200, buf_str(&out));
}

void handle_port_requests(struct daemon_request *r)
{
	struct sandbox *s = daemon_request_find(r);
	if (!s)
		return;
	struct port *p = port_find(s, r->match.port);
	if (!p)
		return not_exposed(r);
	auto_buf struct buf out = {0};
	struct json_writer w = json_writer(&out);
	json_object_begin(&w);
	json_member_u64(&w, "port", p->number);
	json_key(&w, "requests");
	port_log_view(&w, p);
	json_object_end(&w);
	daemon_request_json(r, 200, buf_str(&out));
}
