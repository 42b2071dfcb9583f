#include "daemon/route/request.h"

#include <stdio.h>
#include <sys/socket.h>

#include "base/clock.h"
#include "base/json.h"
#include "base/log.h"
#include "daemon/admit/login.h"
#include "daemon/admit/tickets.h"
#include "daemon/listen.h"
#include "daemon/network/hooks.h"
#include "daemon/pass/port_forward.h"
#include "daemon/pass/preview.h"
#include "daemon/storage/image_jobs.h"
#include "proto/id.h"

static void daemon_request_free(struct daemon_request *r)
{
	port_forward_free(r->forward);
	loop_timer_stop(&r->timer);
	if (r->sandbox)
		sandbox_unref(r->sandbox);
	while (r->list.n > r->list.at)
		sandbox_unref(r->list.v[r->list.at++]);
	free(r->list.v);
	free(r->extra);
	list_del(&r->of_token);
	free(r);
}

void daemon_request_hold(struct daemon_request *r)
{
	r->held++;
}

void daemon_request_release(struct daemon_request *r)
{
	INVARIANT(r->held > 0);
	if (--r->held > 0)
		return;
	sandbox_wait_cancel(&r->waiter);
	port_forward_finish(r);
	daemon_request_free(r);
}

void daemon_request_answered(struct daemon_request *r, int status)
{
	uint64_t us = clock_us() - r->start_us;
	r->status = status;
	metrics_request(&r->daemon->metrics, r->match.row, status, us);
	daemon_request_record(r, status);
	bool failed = status >= 500;
	if (!failed && !log_wants(LOG_DEBUG))
		return;
	const char *id = r->match.id, *route = route_label(r->match.row);
	const char *key = *id ? " id=" : "", *value = *id ? LOG_Q(id) : "";
	/* A server in a box answers 5xx as often as its clients ask. */
	if (failed)
		log_limited(LOG_WARN, "request", "route=%s%s%s status=%d us=%llu", route, key, value, status,
			(unsigned long long)us);
	else
		log_event(LOG_DEBUG, "request", "route=%s%s%s status=%d us=%llu", route, key, value, status,
			(unsigned long long)us);
}

void daemon_request_json(struct daemon_request *r, int status, struct str body)
{
	http_respond(r->x, status, "application/json", body);
	daemon_request_answered(r, status);
}

void daemon_request_empty(struct daemon_request *r)
{
	http_respond(r->x, 204, NULL, STR(""));
	daemon_request_answered(r, 204);
}

void daemon_request_error_with(struct daemon_request *r, const struct err *e, struct str context)
{
	struct error_json j = {.err = e, .context = context};
	http_respond_error_json(r->x, &j);
	daemon_request_answered(r, error_json_status(&j));
}

void daemon_request_error(struct daemon_request *r, const struct err *e)
{
	auto_buf struct buf context = {0};
	if (*e->field)
		error_json_field(&context, e, NULL);
	daemon_request_error_with(r, e, buf_str(&context));
}

/* The exchange is over. Answers that arrive later find r->x NULL. */
bool daemon_request_warden_is_away(struct daemon_request *r)
{
	struct err e;
	if (warden_client_is_up(r->daemon->warden))
		return false;
	err_set(&e, ERRC_CONTAINER_UNAVAILABLE, "the warden is not running ('atoll up' starts it again)");
	daemon_request_error(r, &e);
	return true;
}

void daemon_request_closed(struct http_exchange *x, bool complete)
{
	struct daemon_request *r = http_exchange_arg(x);
	r->x = NULL;
	sandbox_wait_cancel(&r->waiter);
	op_forget(take_ptr(&r->op));
	port_forward_cancel(r);
	if (!complete)
		r->daemon->metrics.aborted++;
	if (!r->status)
		daemon_request_answered(r, 0);
	daemon_request_release(r);
}

struct op_call daemon_request_call(struct daemon_request *r, op_on_done on_done)
{
	r->recorded = true;
	return (struct op_call){r->daemon, &r->caller, r->match.id, on_done, r};
}

struct daemon_request *daemon_request_done(void *arg)
{
	struct daemon_request *r = arg;
	r->op = NULL;
	return r;
}

static const struct http_exchange_ops plain_ops = {.on_close = daemon_request_closed};

void daemon_request_retake(struct daemon_request *r)
{
	http_exchange_set(r->x, &plain_ops, r);
}

struct sandbox *daemon_request_find(struct daemon_request *r)
{
	struct sandbox *s = sandbox_find(r->daemon, r->match.id);
	struct err e;
	if (s)
		return s;
	err_set(&e, ERRC_SANDBOX_NOT_FOUND, "there is no sandbox '%s'", r->match.id);
	daemon_request_error(r, &e);
	return NULL;
}

static bool use_token(struct daemon_request *r, struct str given)
{
	const char *name = tokens_use(r->daemon->tokens, given);
	if (name)
		snprintf(r->caller.token, sizeof r->caller.token, "%s", name);
	return name != NULL;
}

/* A browser, and upstream's client, can give a WebSocket nothing but its URL: there, and only there, the token may
 * stand in the query. pass/agent_forward.c takes it out again; queries are never logged. */
static bool has_query_token(struct daemon_request *r)
{
	const struct http_request *q = http_request(r->x);
	auto_buf struct buf given = {0};
	struct err e;
	bool door = r->match.row->token == TOKEN_IN_DOOR &&
		    (q->upgrade || str_starts(q->path, STR("/v1/openapi"))); /* a person reads it in a browser */
	if ((!daemon_request_is_socket(r) && !door) || http_query_get(q->query, STR("token"), &given, &e) != 1)
		return false;
	return use_token(r, buf_str(&given));
}

static struct str relay_token(const struct daemon_request *r)
{
	return r->match.row->app ? http_header_value(&http_request(r->x)->headers, STR("x-atoll-token")) : STR_NULL;
}

bool daemon_request_is_relayed(const struct daemon_request *r)
{
	return tokens_has(r->daemon->tokens, relay_token(r));
}

static void refuse_unauthorized(struct daemon_request *r)
{
	struct err e;
	const struct http_request *q = http_request(r->x);
	auto_buf struct buf ticket = {0};
	bool given = http_header_value(&q->headers, STR("authorization")).p != NULL;
	if (given)
		err_set(&e, ERRC_UNAUTHORIZED, "the token is not the daemon's, or was revoked");
	else if (http_query_get(q->query, STR("ticket"), &ticket, &e) == 1)
		err_set(&e, ERRC_UNAUTHORIZED,
			"the ticket was used, is older than a minute, or is for something else: ask for a new one with "
			"POST /v1/tickets, and use it once");
	else
		err_set(&e, ERRC_UNAUTHORIZED, "a token is needed");
	http_respond_header(r->x, STR("WWW-Authenticate"), STR("Bearer realm=\"atoll\""));
	r->daemon->metrics.unauthorized++;
	if (r->match.row->token == TOKEN_IN_DOOR)
		return daemon_request_json(r, 401, STR("{\"error\":\"Unauthorized\",\"code\":\"unauthorized\"}"));
	daemon_request_error(r, &e);
}

static void refuse_host(struct daemon_request *r, struct str host)
{
	struct err e;
	err_set(&e, ERRC_MISDIRECTED_REQUEST, "this daemon does not answer for the name '%.*s'",
		(int)(host.n < 120 ? host.n : 120), host.p);
	r->daemon->metrics.foreign_hosts++;
	daemon_request_error(r, &e);
}

/* Boxes of builds are for the image service alone, and clients make no sandboxes with ids that we give. False: the
 * request has been answered. */
static bool check_reach(struct daemon_request *r)
{
	const struct sandbox *s = *r->match.id ? sandbox_find(r->daemon, r->match.id) : NULL;
	struct err e;
	if (caller_is_own(&r->caller) || !*r->match.id || (s && !s->work))
		return true;
	if (r->method->makes && box_id_is_given(str_of(r->match.id)))
		err_set(&e, ERRC_RESERVED_SANDBOX_ID,
			"'%s' is an id of the kind that Atoll itself gives (image-, docker-, bridge-, backup-)",
			r->match.id);
	else if (s)
		err_set(&e, ERRC_SANDBOX_NOT_FOUND, "there is no sandbox '%s'", r->match.id);
	else
		return true;
	daemon_request_error(r, &e);
	return false;
}

static void on_whole_body(struct http_exchange *x, struct str body)
{
	struct daemon_request *r = http_exchange_arg(x);
	r->body = body;
	daemon_request_hold(r);
	r->method->handle(r);
	r->body = STR_NULL;
	daemon_request_release(r);
}

static void dispatch(struct daemon_request *r)
{
	static const struct http_exchange_ops collecting = {
		.on_whole_body = on_whole_body, .on_close = daemon_request_closed};
	if (r->method->body == BODY_NONE)
		return r->method->handle(r);
	http_exchange_set(r->x, &collecting, r);
	if (r->method->body == BODY_SECRET)
		http_collect_secret(r->x, API_BODY_MAX);
	else
		http_collect(r->x, API_BODY_MAX);
}

/* ---- admission ---- */

static uid_t peer_uid(const struct daemon_request *r)
{
	struct ucred cred = {.uid = CALLER_NO_UID};
	socklen_t n = sizeof cred;
	return getsockopt(http_exchange_fd(r->x), SOL_SOCKET, SO_PEERCRED, &cred, &n) == 0 ? cred.uid : CALLER_NO_UID;
}

/* How the client shows that it may use the API. */
static enum caller_by admitted_by(struct daemon_request *r)
{
	const struct http_request *q = http_request(r->x);
	int tag = http_exchange_tag(r->x);
	if (tag >= LISTEN_JOB)
		return BY_NOBODY; /* the job has ended */
	if (tag != LISTEN_TCP)
		return BY_SOCKET;
	if (use_token(r, tokens_bearer(http_header_value(&q->headers, STR("authorization")))) || has_query_token(r) ||
		use_token(r, relay_token(r)))
		return BY_TOKEN;
	if (login_admits(r->daemon->login, r))
		return BY_CONSOLE;
	return tickets_admit(r->daemon->tickets, r) ? BY_TICKET : BY_NOBODY;
}

/* The caller of all that this request asks for. */
static void admit(struct daemon_request *r)
{
	struct caller *c = &r->caller;
	int tag = http_exchange_tag(r->x);
	const struct caller *of_job = image_jobs_caller(r->daemon, tag);
	c->door = tag == LISTEN_DOCKER ? DOOR_DOCKER : tag == LISTEN_OWN ? DOOR_IMAGES : r->match.row->door;
	c->uid = CALLER_NO_UID;
	if (tag == LISTEN_TCP)
		snprintf(c->address, sizeof c->address, "%.*s", STR_ARG(http_exchange_peer(r->x)));
	else
		c->uid = peer_uid(r);
	if (of_job) {
		*c = *of_job;
		c->door = DOOR_IMAGES;
	} else {
		c->by = admitted_by(r);
	}
	if (*c->token)
		list_push(&r->daemon->token_requests, &r->of_token);
	if (caller_is_admitted(c))
		http_exchange_vouch(r->x, HTTP_KNOWN);
}

static void refuse_method(struct daemon_request *r)
{
	auto_buf struct buf allow = {0};
	api_route_allow(r->match.row, &allow);
	http_respond_not_allowed(r->x, buf_cstr(&allow));
	daemon_request_answered(r, 405);
}

static void route(struct daemon_request *r)
{
	struct err e;
	const struct http_request *q = http_request(r->x);
	struct host_origin origin = host_origin(&r->daemon->config, r->x);
	struct str label;
	int tag = http_exchange_tag(r->x);
	r->match.row = &route_table[tag == LISTEN_DOCKER ? ROUTE_DOCKER : ROUTE_UNKNOWN];
	if (tag == LISTEN_DOCKER) {
		admit(r);
		return r->match.row->methods[0].handle(r);
	}
	/* A preview, never the API, whatever path it names. */
	if (host_is_preview(&r->daemon->config, origin.host, &label)) {
		r->match.row = &route_table[ROUTE_PREVIEW];
		return handle_preview(r, &origin, label);
	}
	if (tag == LISTEN_TCP && !host_allowed(&r->daemon->config, origin.host))
		return refuse_host(r, origin.host);
	int found = api_route_match(q->path, &r->match, &e);
	admit(r);
	/* A client without the token does not learn which routes and ids exist. */
	if (!caller_is_admitted(&r->caller) && r->match.row->may != MAY_ALL)
		return refuse_unauthorized(r);
	if (found < 0)
		return daemon_request_error(r, &e);
	r->method = api_route_method(r->match.row, q->method_text);
	if (!r->method)
		return refuse_method(r);
	if (check_reach(r))
		dispatch(r);
}

void daemon_request_begin(struct http_exchange *x, void *arg)
{
	if (http_exchange_tag(x) == LISTEN_HOOK)
		return hooks_request(arg, x);
	struct daemon_request *r = xcalloc(1, sizeof *r);
	r->daemon = arg;
	r->x = x;
	r->start_us = clock_us();
	r->http_method = http_request(x)->method;
	r->held = 1;
	http_exchange_set(x, &plain_ops, r);
	route(r);
}
