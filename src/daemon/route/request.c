#include "daemon/route/request.h"

#include <ctype.h>
#include <stdio.h>

#include "base/clock.h"
#include "base/json.h"
#include "base/log.h"
#include "daemon/console/audit.h"
#include "daemon/console/login.h"
#include "daemon/console/tickets.h"
#include "daemon/listen.h"
#include "daemon/network/hooks.h"
#include "daemon/preview/port_forward.h"
#include "daemon/preview/preview.h"
#include "daemon/route/images_api.h"
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
	free(r->wish);
	free(r->mount);
	free(r->tunnel);
	free(r->approval);
	api_change_free(&r->change);
	api_spec_free(&r->before);
	api_spec_free(&r->after);
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
	metrics_request(&r->daemon->metrics, r->match.route, status, us);
	audit_end(r, status);
	bool failed = status >= 500;
	if (!failed && !log_wants(LOG_DEBUG))
		return;
	const char *id = r->match.id, *route = api_route_label(r->match.route);
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
	port_forward_cancel(r);
	if (!complete)
		r->daemon->metrics.aborted++;
	if (!r->status)
		daemon_request_answered(r, 0);
	daemon_request_release(r);
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

static bool is_public(enum api_route route)
{
	return route == ROUTE_HEALTH || route == ROUTE_ROOT || route == ROUTE_ASSET || route == ROUTE_BRIDGE_HEALTH ||
	       route == ROUTE_CONSOLE_SESSION;
}

static bool use_token(struct daemon_request *r, struct str given)
{
	const char *name = tokens_use(r->daemon->tokens, given);
	if (name)
		snprintf(r->token, sizeof r->token, "%s", name);
	return name != NULL;
}

/* A browser, and upstream's client, can give a WebSocket nothing but its URL: there, and only there, the token may
 * stand in the query. forward.c takes it out again; queries are never logged. */
static bool has_query_token(struct daemon_request *r)
{
	const struct http_request *q = http_request(r->x);
	auto_buf struct buf given = {0};
	struct err e;
	bool bridge = r->match.route == ROUTE_BRIDGE &&
		      (q->upgrade || str_starts(q->path, STR("/v1/openapi"))); /* a person reads it in a browser */
	if ((!daemon_request_is_socket(r) && !bridge) || http_query_get(q->query, STR("token"), &given, &e) != 1)
		return false;
	return use_token(r, buf_str(&given));
}

static struct str relay_token(const struct daemon_request *r)
{
	return r->match.route == ROUTE_PROXY ? http_header_value(&http_request(r->x)->headers, STR("x-atoll-token"))
					     : STR_NULL;
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
	if (r->match.route == ROUTE_BRIDGE)
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

static void dispatch_network(struct daemon_request *r)
{
	if (r->match.route == ROUTE_NETWORK)
		handle_network(r);
	else if (r->match.route == ROUTE_NETWORK_LOG)
		handle_network_log(r);
	else if (r->match.route == ROUTE_APPROVALS || r->match.route == ROUTE_APPROVAL)
		handle_approvals(r);
	else if (r->match.route == ROUTE_HOOK)
		handle_hook(r);
	else
		handle_secrets(r);
}

/* Protocols of others, which read the rest of their paths themselves. */
static void dispatch_protocol(struct daemon_request *r)
{
	if (r->match.route == ROUTE_BRIDGE)
		handle_bridge(r);
	else if (r->match.route == ROUTE_BRIDGE_HEALTH)
		handle_bridge_health(r);
	else if (r->match.route == ROUTE_DOCKER)
		handle_docker(r);
	else
		handle_mcp(r);
}

static void dispatch_storage(struct daemon_request *r)
{
	enum api_route route = r->match.route;
	if (route == ROUTE_SNAPSHOTS)
		handle_snapshots(r);
	else if (route == ROUTE_SNAPSHOT)
		handle_snapshot(r);
	else if (route == ROUTE_FORK)
		handle_fork(r);
	else if (route == ROUTE_DIFF)
		handle_diff(r);
	else if (route == ROUTE_MOUNTS)
		handle_mounts(r);
	else if (route == ROUTE_VOLUMES || route == ROUTE_VOLUME)
		handle_volumes(r);
	else if (route == ROUTE_BACKUP)
		handle_backup(r);
	else if (route == ROUTE_BACKUPS || route == ROUTE_BOX_BACKUPS)
		handle_backups(r);
	else
		handle_replace(r);
}

static void dispatch_info(struct daemon_request *r)
{
	enum api_route route = r->match.route;
	if (route == ROUTE_ROOT)
		handle_root(r);
	else if (route == ROUTE_ASSET)
		handle_asset(r);
	else if (route == ROUTE_HEALTH)
		handle_health(r);
	else if (route == ROUTE_METRICS)
		handle_metrics(r);
	else
		handle_openapi(r);
}

static void dispatch_ports(struct daemon_request *r)
{
	enum api_route route = r->match.route;
	if (route == ROUTE_PORTS)
		handle_ports(r);
	else if (route == ROUTE_PORT)
		handle_port(r);
	else if (route == ROUTE_PORT_VALIDATE)
		handle_port_validate(r);
	else if (route == ROUTE_PORT_REQUESTS)
		handle_port_requests(r);
	else if (route == ROUTE_TUNNELS)
		handle_tunnels(r);
	else
		handle_tunnel(r);
}

static void dispatch_console(struct daemon_request *r)
{
	enum api_route route = r->match.route;
	if (route == ROUTE_EVENTS)
		handle_events(r);
	else if (route == ROUTE_USAGE)
		handle_usage(r);
	else if (route == ROUTE_TICKETS)
		handle_tickets(r);
	else if (route == ROUTE_CONSOLE_LINKS)
		handle_console_links(r);
	else if (route == ROUTE_CONSOLE_SESSION)
		handle_console_session(r);
	else if (route == ROUTE_TOKENS || route == ROUTE_TOKEN)
		handle_tokens(r);
	else if (route == ROUTE_AUDIT)
		handle_audit(r);
	else if (route == ROUTE_DOCTOR || route == ROUTE_SELFTEST)
		handle_checks(r);
	else
		handle_console_sessions(r);
}

static void dispatch_sandbox(struct daemon_request *r)
{
	enum http_method method = http_request(r->x)->method;
	enum api_route route = r->match.route;
	if (route == ROUTE_LIST)
		handle_list(r);
	else if (route == ROUTE_IMAGES)
		handle_images(r);
	else if (route != ROUTE_SANDBOX)
		handle_life(r);
	else if (method == HTTP_M_PUT)
		handle_put(r);
	else if (method == HTTP_M_DELETE)
		handle_delete(r);
	else
		handle_get(r);
}

static void dispatch_inside(struct daemon_request *r)
{
	if (r->match.route == ROUTE_PROXY)
		handle_proxy(r);
	else
		handle_agent(r);
}

static void (*const groups[ROUTE_COUNT])(struct daemon_request *r) = {
	[ROUTE_ROOT] = dispatch_info,
	[ROUTE_ASSET] = dispatch_info,
	[ROUTE_HEALTH] = dispatch_info,
	[ROUTE_METRICS] = dispatch_info,
	[ROUTE_OPENAPI] = dispatch_info,
	[ROUTE_EVENTS] = dispatch_console,
	[ROUTE_USAGE] = dispatch_console,
	[ROUTE_TICKETS] = dispatch_console,
	[ROUTE_CONSOLE_LINKS] = dispatch_console,
	[ROUTE_CONSOLE_SESSION] = dispatch_console,
	[ROUTE_CONSOLE_SESSIONS] = dispatch_console,
	[ROUTE_CONSOLE_REVOKE] = dispatch_console,
	[ROUTE_TOKENS] = dispatch_console,
	[ROUTE_TOKEN] = dispatch_console,
	[ROUTE_AUDIT] = dispatch_console,
	[ROUTE_DOCTOR] = dispatch_console,
	[ROUTE_SELFTEST] = dispatch_console,
	[ROUTE_LIST] = dispatch_sandbox,
	[ROUTE_IMAGES] = dispatch_sandbox,
	[ROUTE_SANDBOX] = dispatch_sandbox,
	[ROUTE_SLEEP] = dispatch_sandbox,
	[ROUTE_WAKE] = dispatch_sandbox,
	[ROUTE_STOP] = dispatch_sandbox,
	[ROUTE_SECRETS] = dispatch_network,
	[ROUTE_SECRET] = dispatch_network,
	[ROUTE_NETWORK] = dispatch_network,
	[ROUTE_NETWORK_LOG] = dispatch_network,
	[ROUTE_HOOK] = dispatch_network,
	[ROUTE_APPROVALS] = dispatch_network,
	[ROUTE_APPROVAL] = dispatch_network,
	[ROUTE_SNAPSHOTS] = dispatch_storage,
	[ROUTE_SNAPSHOT] = dispatch_storage,
	[ROUTE_BACKUP] = dispatch_storage,
	[ROUTE_BACKUPS] = dispatch_storage,
	[ROUTE_BOX_BACKUPS] = dispatch_storage,
	[ROUTE_RESTORE] = dispatch_storage,
	[ROUTE_REPLACE] = dispatch_storage,
	[ROUTE_FORK] = dispatch_storage,
	[ROUTE_DIFF] = dispatch_storage,
	[ROUTE_MOUNTS] = dispatch_storage,
	[ROUTE_VOLUMES] = dispatch_storage,
	[ROUTE_VOLUME] = dispatch_storage,
	[ROUTE_PORTS] = dispatch_ports,
	[ROUTE_PORT] = dispatch_ports,
	[ROUTE_PORT_VALIDATE] = dispatch_ports,
	[ROUTE_PORT_REQUESTS] = dispatch_ports,
	[ROUTE_TUNNELS] = dispatch_ports,
	[ROUTE_TUNNEL] = dispatch_ports,
	[ROUTE_AGENT] = dispatch_inside,
	[ROUTE_AGENT_WS] = dispatch_inside,
	[ROUTE_PROXY] = dispatch_inside,
	[ROUTE_DOCKER] = dispatch_protocol,
	[ROUTE_BRIDGE] = dispatch_protocol,
	[ROUTE_BRIDGE_HEALTH] = dispatch_protocol,
	[ROUTE_MCP] = dispatch_protocol,
};

/* The request makes the sandbox of its path when there is none. */
static bool makes_sandbox(const struct daemon_request *r)
{
	enum http_method method = http_request(r->x)->method;
	enum api_route route = r->match.route;
	if (route == ROUTE_SANDBOX)
		return method == HTTP_M_PUT;
	if (route == ROUTE_PORT || route == ROUTE_TUNNELS || route == ROUTE_MOUNTS)
		return method == HTTP_M_POST;
	return route == ROUTE_AGENT || route == ROUTE_AGENT_WS || route == ROUTE_PROXY;
}

/* Boxes of builds are for the image service alone, and clients make no sandboxes with ids that we give. False: the
 * request has been answered. */
static bool check_reach(struct daemon_request *r)
{
	const struct sandbox *s = *r->match.id ? sandbox_find(r->daemon, r->match.id) : NULL;
	struct err e;
	if (r->own || !*r->match.id || (s && !s->work))
		return true;
	if (makes_sandbox(r) && box_id_is_given(str_of(r->match.id)))
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

static void dispatch(struct daemon_request *r)
{
	if (!groups[r->match.route])
		base_bug(__FILE__, __LINE__, "a route without a handler");
	groups[r->match.route](r);
}

/* How the client shows that it may use the API; NULL: it does not. */
static const char *admitted_by(struct daemon_request *r)
{
	const struct http_request *q = http_request(r->x);
	const struct image_caller *caller = image_jobs_caller(r->daemon, http_exchange_tag(r->x));
	if (caller) {
		snprintf(r->token, sizeof r->token, "%s", caller->token);
		return caller->by;
	}
	if (http_exchange_tag(r->x) == LISTEN_UNIX || r->own)
		return "socket";
	if (use_token(r, tokens_bearer(http_header_value(&q->headers, STR("authorization")))) || has_query_token(r) ||
		use_token(r, relay_token(r)))
		return "token";
	if (login_admits(r->daemon->login, r))
		return "console";
	return tickets_admit(r->daemon->tickets, r) ? "ticket" : NULL;
}

static void route(struct daemon_request *r)
{
	struct err e;
	const struct http_request *q = http_request(r->x);
	struct host_origin origin = host_origin(&r->daemon->config, r->x);
	struct str label;
	if (http_exchange_tag(r->x) == LISTEN_DOCKER) {
		r->match.route = ROUTE_DOCKER;
		r->trusted = true;
		return handle_docker(r);
	}
	/* A preview, never the API, whatever path it names. */
	if (host_is_preview(&r->daemon->config, origin.host, &label)) {
		r->match.route = ROUTE_PREVIEW;
		return handle_preview(r, &origin, label);
	}
	r->own = http_exchange_tag(r->x) == LISTEN_OWN || image_jobs_caller(r->daemon, http_exchange_tag(r->x)) != NULL;
	if (http_exchange_tag(r->x) != LISTEN_UNIX && !r->own && !host_allowed(&r->daemon->config, origin.host))
		return refuse_host(r, origin.host);
	int found = api_route_match(q->path, &r->match, &e);
	const char *by = admitted_by(r);
	r->trusted = by != NULL;
	if (*r->token)
		list_push(&r->daemon->token_requests, &r->of_token);
	audit_begin(r, by ? by : "nobody");
	if (r->trusted)
		http_exchange_vouch(r->x, HTTP_KNOWN);
	/* A client without the token does not learn which routes and ids exist. */
	if (!r->trusted && !is_public(r->match.route))
		return refuse_unauthorized(r);
	if (found < 0)
		return daemon_request_error(r, &e);
	if (!api_route_allows(r->match.route, q->method_text)) {
		http_respond_not_allowed(r->x, api_route_allow(r->match.route));
		return daemon_request_answered(r, 405);
	}
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
	r->held = 1;
	http_exchange_set(x, &plain_ops, r);
	route(r);
}
