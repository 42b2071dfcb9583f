/*
 * /v1/sandboxes/{id}/proxy/{port}/…: any port of a sandbox, for clients of the API: what upstream's containerFetch and
 * wsConnect reach. Like every other route of a sandbox it makes a sandbox that does not exist. Port 3000 is the agent's
 * own API, as in an upstream container; nothing in the box needs to listen there.
 *
 * A client that passes on requests of others (a Worker) gives its token as X-Atoll-Token: Authorization is then the
 * app's, X-Forwarded-* are believed, and X-Atoll-Host is the Host that the app sees.
 */
#include "daemon/preview/port_forward.h"

enum { AGENT_PORT = 3000 };

/* The query, without the daemon's token (request.c takes it from there for WebSockets); an app's own `token` stays. */
static void put_query(struct buf *target, const struct token *token, struct str query)
{
	char before = '?';
	while (query.n) {
		auto_buf struct buf value = {0};
		struct err e;
		struct str one = str_split(query, '&', &query);
		if (http_query_get(one, STR("token"), &value, &e) == 1 && token_equals(token, buf_str(&value)))
			continue;
		buf_add_byte(target, before);
		buf_add_str(target, one);
		before = '&';
	}
}

void handle_proxy(struct daemon_request *r)
{
	if (r->match.port == AGENT_PORT && str_starts(r->match.rest, STR("/internal/"))) {
		struct err e;
		err_set(&e, ERRC_NOT_FOUND, "that is between the daemon and the agent");
		return daemon_request_error(r, &e);
	}
	if (r->match.port == AGENT_PORT)
		return handle_agent(r);
	const struct http_request *q = http_request(r->x);
	bool relay = daemon_request_is_relayed(r);
	auto_buf struct buf target = {0};
	buf_add_str(&target, r->match.rest);
	put_query(&target, &r->daemon->token, q->query);
	port_forward(r, r->match.port,
		&(struct port_forward_opts){.target = buf_str(&target),
			.host = relay ? http_header_value(&q->headers, STR("x-atoll-host")) : STR_NULL,
			.proto = http_exchange_secure(r->x) ? "https" : "http",
			.trusted_peer = relay,
			.create = true});
}
