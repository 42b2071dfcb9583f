#include "agent/agent.h"
#include "agent/api.h"
#include "agent/limits.h"
#include "agent/rpc/rpc.h"

/* GET /rpc: a WebSocket whose text messages are the frames of one capnweb session. */

enum { RPC_CLOSE = 3000 }; /* the code with which the protocol's other implementation closes */

static struct list sessions = {&sessions, &sessions};

void rpc_close_if_idle(struct rpc *r)
{
	if (agent.stopping && r->ws && !r->n)
		ws_close_within(r->ws, WS_CLOSE_GOING_AWAY, STR("the sandbox stops"), MUX_STOP_WAIT);
}

void rpc_stop(void)
{
	rpc_tunnels_end();
	list_each(it, &sessions)
	{
		rpc_close_if_idle(list_entry(it, struct rpc, node));
	}
}

static void on_exit_told(void *arg, bool ok, const struct json *value)
{
	struct rpc *r = arg;
	(void)ok;
	(void)value; /* a client without a handler refuses */
	r->exits--;
}

/* False: the client answers none of them, and its session ends. */
static bool count_exit(struct rpc *r)
{
	if (r->exits < RPC_EXITS_MAX)
		return r->exits++, true;
	capnweb_abort(r->session, "too many ends of tunnels are not answered");
	return false;
}

void rpc_tell_exit(const struct json *end)
{
	const struct json *run = json_get(end, "runId");
	uint64_t code = 0;
	auto_buf struct buf args = {0};
	json_put_tree(&args, json_get(end, "id"));
	buf_add_byte(&args, ',');
	json_put_tree(&args, json_get(end, "port"));
	(void)json_read_u64(end, "exitCode", 0, UINT8_MAX, &code, NULL);
	buf_printf(&args, ",%d", (int)code);
	if (run) {
		buf_add_byte(&args, ',');
		json_put_tree(&args, run);
	}
	list_each(it, &sessions)
	{
		struct rpc *r = list_entry(it, struct rpc, node);
		if (!r->session || !count_exit(r))
			continue;
		capnweb_call_peer(r->session, 0, "onTunnelExit", buf_str(&args), on_exit_told, r);
	}
}

void rpc_free_if_done(struct rpc *r)
{
	if (!r->ws && !r->session && !r->n)
		free(r);
}

void rpc_flow(struct rpc *r)
{
	if (!r->ws)
		return;
	if (r->full || r->bodies > RPC_BODIES_HIGH)
		ws_pause(r->ws);
	else
		ws_resume(r->ws);
}

/* The protocol's part ends from the loop, never from inside one of its callbacks. */
static void end_session(struct loop_task *task)
{
	struct rpc *r = container_of(task, struct rpc, end_task);
	struct capnweb *session = take_ptr(&r->session);
	if (session) {
		rpc_tunnels_leave(r);
		list_each(it, &r->calls) rpc_call_leave(list_entry(it, struct rpc_call, node));
		r->n++; /* its callbacks may end the last call */
		capnweb_free(session);
		r->n--;
	}
	rpc_free_if_done(r);
}

/* ---- the protocol ---- */

static bool on_send(void *arg, struct str frame)
{
	struct rpc *r = arg;
	if (!r->ws || ws_send(r->ws, frame, true))
		return true;
	r->full = true;
	rpc_flow(r);
	rpc_gather(r);
	return false;
}

static void on_call(void *arg, struct capnweb_call *call, void *object, const char *name)
{
	(void)object; /* the main one: no answer has another */
	rpc_start(arg, call, name);
}

static void on_end(void *arg, const char *reason)
{
	struct rpc *r = arg;
	if (r->ws)
		ws_close(r->ws, RPC_CLOSE, str_of(reason));
	loop_defer(agent.loop, &r->end_task, end_session);
}

static const struct capnweb_ops session_ops = {
	.send = on_send, .on_call = on_call, .has_object = rpc_has_object, .on_end = on_end};

/* ---- the socket ---- */

static void on_message(struct ws *ws, struct str message, bool text)
{
	struct rpc *r = ws_arg(ws);
	if (!r->session)
		return;
	if (text)
		capnweb_frame(r->session, message);
	else
		capnweb_abort(r->session, "a frame must be a text message");
}

static void on_writable(struct ws *ws)
{
	struct rpc *r = ws_arg(ws);
	r->full = false;
	rpc_flow(r);
	rpc_gather(r);
	if (r->session)
		capnweb_writable(r->session);
}

static void on_close(struct ws *ws, int code, struct str reason)
{
	(void)code;
	(void)reason;
	struct rpc *r = ws_arg(ws);
	r->ws = NULL;
	list_del(&r->node);
	if (list_empty(&sessions))
		rpc_tunnels_end();
	loop_defer(agent.loop, &r->end_task, end_session);
}

void api_rpc(struct agent_request *q)
{
	static const struct ws_ops ops = {.on_message = on_message, .on_writable = on_writable, .on_close = on_close};
	struct ws_options options = {.ping_ms = WS_EXEC_PING, .message_max = AGENT_BODY_MAX};
	struct rpc *r = xcalloc(1, sizeof *r);
	struct err e;
	list_init(&r->calls);
	if (ws_accept(q->x, &options, &ops, r, &r->ws, &e) < 0) {
		free(r);
		return http_respond_error(q->x, &e);
	}
	r->session = capnweb_new(&session_ops, r);
	list_push(&sessions, &r->node);
	rpc_close_if_idle(r);
}
