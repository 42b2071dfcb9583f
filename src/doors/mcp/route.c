/*
 * /mcp: the transport "streamable HTTP". POST brings one message; the answer is JSON, or for a tool call an event
 * stream that begins at once. There is no stream without a request: GET is refused, as the protocol allows.
 */
#include "daemon/ports/hosts.h"
#include "daemon/route/handlers.h"
#include "doors/mcp/call.h"
#include "proto/id.h"

static void refuse(struct daemon_request *r, int code, const char *text)
{
	struct err e;
	err_set(&e, code, "%s", text);
	daemon_request_error(r, &e);
}

static bool find_session(struct daemon_request *r, struct mcp_session **ret)
{
	struct str id = http_header_value(&http_request(r->x)->headers, STR("mcp-session-id"));
	*ret = id.p ? mcp_session_find(r->daemon->mcp, id, r->caller.token) : NULL;
	if (id.p && !*ret) {
		refuse(r, ERRC_NOT_FOUND, "there is no such MCP session; begin a new one with 'initialize'");
		return false;
	}
	if (*ret)
		mcp_session_touch(*ret);
	return true;
}

static void on_message(struct http_exchange *x, struct str body)
{
	struct daemon_request *r = http_exchange_arg(x);
	struct mcp_session *s;
	if (find_session(r, &s))
		mcp_message(r->daemon->mcp, s, r, body);
}

/* A page of a browser may call only from where it came from, this machine, and the names of ATOLL_HOSTS; no preview
 * may: pages of boxes are hostile, and so is a page whose name an attacker has moved to this machine. Other clients
 * send no origin. */
static bool origin_ok(const struct daemon_request *r)
{
	struct str origin = http_header_value(&http_request(r->x)->headers, STR("origin")), label;
	if (!origin.p)
		return true;
	struct str host = str_starts(origin, STR("https://"))  ? str_skip(origin, 8)
			  : str_starts(origin, STR("http://")) ? str_skip(origin, 7)
							       : STR("");
	const struct config *c = &r->daemon->config;
	struct host_origin own = host_origin(c, r->x);
	struct str name = host_name(host);
	if (!host.n || str_index(host, '/') >= 0 || host_is_preview(c, host, &label))
		return false;
	return (own.host.p && str_eq_nocase(host, own.host)) || c->hosts.any || host_names_has(&c->hosts, name) ||
	       str_eq_nocase(name, STR("localhost")) || str_eq_c(name, "127.0.0.1") || str_eq_c(name, "::1");
}

void handle_mcp(struct daemon_request *r)
{
	static const struct http_exchange_ops ops = {.on_whole_body = on_message, .on_close = daemon_request_closed};
	const struct http_request *q = http_request(r->x);
	struct mcp_session *s;
	if (!origin_ok(r))
		return refuse(
			r, ERRC_FORBIDDEN, "pages of this origin may not use MCP here (ATOLL_HOSTS names others)");
	if (q->method == HTTP_M_POST) {
		http_exchange_set(r->x, &ops, r);
		return http_collect(r->x, MCP_MESSAGE_MAX);
	}
	if (!find_session(r, &s))
		return;
	if (!s)
		return refuse(r, ERRC_VALIDATION_FAILED, "the header Mcp-Session-Id is missing");
	mcp_session_end(s);
	daemon_request_json(r, 200, STR("{}"));
}
