/*
 * /v1/sandboxes/{id}/proxy/{port}/…: any port of a sandbox, for clients of the API. It serves upstream's containerFetch
 * and wsConnect. Like the other routes of a sandbox it makes a sandbox that does not exist. Port 3000 is the agent's
 * own API, as in an upstream container; nothing in the box needs to listen there. With X-Atoll-App: 1 it is an app's.
 *
 * A client that passes on requests of others (a Worker) gives its token as X-Atoll-Token: Authorization is then the
 * app's, X-Forwarded-* are believed, and X-Atoll-Host is the Host that the app sees.
 */
#include "daemon/pass/port_forward.h"
#include "daemon/route/handlers.h"

enum { AGENT_PORT = 3000 };

/* The daemon's own token, which request.c accepts in the query of a WebSocket. An app's own `token` stays. */
static bool is_daemon_token(const void *arg, struct str parameter)
{
	auto_buf struct buf value = {0};
	struct err e;
	return http_query_get(parameter, STR("token"), &value, &e) == 1 && tokens_has(arg, buf_str(&value));
}

/* A client that serves previews of its own means the app, also on the agent's port. */
static bool wants_app(const struct daemon_request *r)
{
	return str_eq_c(http_header_value(&http_request(r->x)->headers, STR("x-atoll-app")), "1");
}

void handle_proxy(struct daemon_request *r)
{
	bool agent = r->match.port == AGENT_PORT && !wants_app(r);
	if (agent && str_starts(r->match.rest, STR("/internal/"))) {
		struct err e;
		err_set(&e, ERRC_NOT_FOUND, "that is between the daemon and the agent");
		return daemon_request_error(r, &e);
	}
	if (agent)
		return handle_agent(r);
	const struct http_request *q = http_request(r->x);
	bool relay = daemon_request_is_relayed(r);
	auto_buf struct buf target = {0};
	buf_add_str(&target, r->match.rest);
	api_query_put(&target, q->query, is_daemon_token, r->daemon->tokens);
	port_forward(r, r->match.port,
		&(struct port_forward_opts){.target = buf_str(&target),
			.host = relay ? http_header_value(&q->headers, STR("x-atoll-host")) : STR_NULL,
			.proto = http_exchange_secure(r->x) ? "https" : "http",
			.trusted_peer = relay,
			.create = true});
}
