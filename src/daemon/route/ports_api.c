/* /v1/sandboxes/{id}/ports…: expose, list, show, unexpose, check a token, look at the last requests. */
#include <stdio.h>

#include "base/json.h"
#include "daemon/limits.h"
#include "daemon/ports/ports.h"
#include "daemon/route/handlers.h"
#include "daemon/route/request.h"

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

/* ---- expose and unexpose ---- */

static void on_exposed(void *arg, const struct op_result *result)
{
	struct daemon_request *r = daemon_request_done(arg);
	if (result->err)
		ports_error(r, result->err);
	else
		answer_port(r, result->made ? 201 : 200, result->sandbox, result->port);
}

/* Upstream's options; members that it knows and we do not need, like hostname, are let pass. */
static int read_wish(struct str body, struct op_port_wish *ret, struct err *e)
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
	struct op_port_wish wish = {.port = r->match.port};
	if (port_check_number(wish.port, &e) < 0 || read_wish(r->body, &wish, &e) < 0)
		return ports_error(r, &e);
	const struct op_call call = daemon_request_call(r, on_exposed);
	r->op = op_expose(&call, &wish);
}

static void on_unexposed(void *arg, const struct op_result *result)
{
	struct daemon_request *r = daemon_request_done(arg);
	if (result->err)
		ports_error(r, result->err);
	else
		daemon_request_empty(r);
}

void handle_port_unexpose(struct daemon_request *r)
{
	const struct op_call call = daemon_request_call(r, on_unexposed);
	r->op = op_unexpose(&call, r->match.port);
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
