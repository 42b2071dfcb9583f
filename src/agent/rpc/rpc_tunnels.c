#include <stdlib.h>

#include "agent/agent.h"
#include "agent/api.h"
#include "agent/limits.h"
#include "agent/rpc/rpc.h"
#include "http/sse.h"
#include "proto/errc.h"

/*
 * The tunnels domain. Only atolld can give a port a host name, and an agent cannot call atolld. So atolld reads the
 * stream GET /internal/tunnels while clients are connected; a wish is an event on it, and the answer comes with POST
 * /internal/tunnels. src/daemon/ports/tunnel_wants.c has the messages.
 */

struct want {
	struct list node;
	uint64_t number;
	struct rpc *rpc;
	struct capnweb_call *call;
	struct buf text; /* until it was sent */
	struct loop_timer timer;
};

static struct list wants = {&wants, &wants};
static uint64_t last_number;
static struct http_exchange *stream; /* of atolld; NULL: it does not listen */

static void want_free(struct want *w)
{
	loop_timer_stop(&w->timer);
	list_del(&w->node);
	buf_free(&w->text);
	free(w);
}

static void on_late(struct loop_timer *t)
{
	struct want *w = container_of(t, struct want, timer);
	struct err e;
	err_set(&e, ERRC_CONTAINER_UNAVAILABLE, "tunnels need atolld, which does not answer");
	struct capnweb_call *call = w->call;
	want_free(w);
	rpc_reject(call, &e);
}

static void send_wants(void)
{
	list_each(it, &wants)
	{
		struct want *w = list_entry(it, struct want, node);
		if (stream && buf_size(&w->text)) {
			sse_send(stream, NULL, STR_NULL, buf_str(&w->text));
			buf_free(&w->text);
			loop_timer_set(agent.loop, &w->timer, RPC_WANT_ANSWER, on_late);
		}
	}
}

static void put_arg(struct buf *b, const char *name, const struct json *value)
{
	if (!value || capnweb_is_undefined(value))
		return;
	buf_printf(b, ",\"%s\":", name);
	capnweb_plain(b, value);
}

/* The op and its members; false: no such method. */
static bool put_want(struct buf *b, const struct capnweb_call *call, const char *name)
{
	const struct json *first = capnweb_call_arg(call, 0);
	const struct json *o = first && first->type == JSON_T_OBJECT ? first : NULL;
	if (strcmp(name, "tunnels.listTunnels") == 0) {
		buf_add_c(b, ",\"op\":\"list\"");
	} else if (strcmp(name, "tunnels.runQuickTunnel") == 0) {
		buf_add_c(b, ",\"op\":\"run\"");
		put_arg(b, "id", first);
		put_arg(b, "port", capnweb_call_arg(call, 1));
	} else if (strcmp(name, "tunnels.destroyTunnel") == 0) {
		buf_add_c(b, ",\"op\":\"destroy\"");
		put_arg(b, "id", first);
	} else if (strcmp(name, "tunnels.ensureTunnelRun") == 0 || strcmp(name, "tunnels.stopTunnelRun") == 0) {
		buf_printf(b, ",\"op\":\"%s\"", name[8] == 'e' ? "ensure" : "stop");
		put_arg(b, "id", json_get(o, "tunnelId"));
		put_arg(b, "runId", json_get(o, "runId"));
		put_arg(b, "port", json_get(o, "port"));
	} else {
		return false;
	}
	return true;
}

static bool is_named(const struct capnweb_call *call, const char *name)
{
	const struct json *o = capnweb_call_arg(call, 0);
	struct str mode = STR_NULL;
	if (o && o->type == JSON_T_OBJECT)
		(void)json_read_str(o, "mode", &mode, NULL);
	return strcmp(name, "tunnels.runNamedTunnel") == 0 || str_eq_c(mode, "named");
}

bool rpc_tunnel_start(struct rpc *r, struct capnweb_call *call, const char *name)
{
	struct err e;
	if (is_named(call, name)) {
		err_set(&e, ERRC_COMMAND_NOT_FOUND,
			"a tunnel with a token of Cloudflare needs cloudflared in the sandbox; a tunnel without one "
			"needs nothing");
		rpc_reject(call, &e);
		return true;
	}
	struct want *w = xcalloc(1, sizeof *w);
	*w = (struct want){.number = ++last_number, .rpc = r, .call = call};
	buf_printf(&w->text, "{\"want\":%llu", (unsigned long long)w->number);
	bool known = put_want(&w->text, call, name);
	if (!known || buf_size(&w->text) > RPC_WANT_MAX) {
		want_free(w);
		if (known) {
			err_set(&e, ERRC_VALIDATION_FAILED, "the arguments are too long");
			rpc_reject(call, &e);
		}
		return known;
	}
	buf_add_byte(&w->text, '}');
	list_push(&wants, &w->node);
	loop_timer_set(agent.loop, &w->timer, RPC_WANT_WAIT, on_late);
	send_wants();
	return true;
}

void rpc_tunnels_leave(struct rpc *r)
{
	list_each(it, &wants)
	{
		struct want *w = list_entry(it, struct want, node);
		if (w->rpc == r)
			want_free(w);
	}
}

/* ---- atolld ---- */

static void on_stream_close(struct http_exchange *x, bool complete)
{
	(void)complete;
	if (stream == x)
		stream = NULL;
}

void rpc_tunnels_end(void)
{
	if (stream)
		http_respond_end(stream);
	stream = NULL;
}

void api_tunnel_wants(struct agent_request *r)
{
	static const struct http_exchange_ops ops = {.on_close = on_stream_close};
	rpc_tunnels_end();
	sse_begin(r->x);
	http_exchange_set(r->x, &ops, NULL);
	stream = r->x;
	send_wants();
}

static void answer(struct want *w, const struct json *o)
{
	struct capnweb_call *call = w->call;
	const struct json *body = json_get(o, "body");
	struct str code = STR("UNKNOWN_ERROR"), message = STR("");
	auto_buf struct buf plain = {0}, wire = {0};
	want_free(w);
	if (body) {
		json_put_tree(&plain, body);
		capnweb_put_json(&wire, buf_str(&plain));
		return capnweb_resolve(call, buf_str(&wire));
	}
	(void)json_read_str(o, "code", &code, NULL);
	(void)json_read_str(o, "message", &message, NULL);
	rpc_reject_with(call, message, code, STR_NULL);
}

void api_tunnel_told(struct agent_request *r)
{
	uint64_t number = 0;
	const struct json *end = json_get(r->body, "exit");
	(void)json_read_u64(r->body, "want", 0, UINT32_MAX, &number, NULL);
	agent_request_json(r, STR("{\"success\":true}"));
	if (end)
		return rpc_tell_exit(end);
	list_each(it, &wants)
	{
		struct want *w = list_entry(it, struct want, node);
		if (w->number == number)
			return answer(w, r->body);
	}
}
