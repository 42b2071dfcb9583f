#include "agent/agent.h"
#include "agent/api.h"
#include "agent/limits.h"
#include "agent/request/local.h"
#include "agent/request/route.h"
#include "base/limits.h"
#include "http/client/client.h"
#include "http/sse.h"
#include "http/ws/ws.h"

/*
 * GET /ws and /api/ws: every route over one WebSocket, as upstream's `transport: 'websocket'` speaks it.
 *
 *	in	{type:'request',id,method,path,body?,headers?}  {type:'cancel',id}
 *	out	{type:'response',id,status,body?,done:true}  {type:'stream',id,event?,data}
 *		{type:'error',id?,code,message,status}
 *
 * A request becomes a real HTTP call to the agent's own server over a socket pair: routes, limits and backpressure are
 * the same ones. An answer of type text/event-stream becomes `stream` frames; any other is gathered, at most
 * BUF_MAX_DEFAULT, and sent as one frame. A socket that is not read pauses the streams behind it and takes no new
 * requests.
 */

struct mux {
	struct list node; /* in `muxes` while the socket is there */
	struct ws *ws;	  /* NULL: gone; freed with the last call */
	struct list calls;
	size_t n;
};

struct mux_call {
	struct list node;
	struct mux *mux;
	char *id;
	struct http_call *call;
	bool stream, json, cancelled, paused;
	struct sse_reader events;
	struct buf body;
	int status;
};

static struct list muxes = {&muxes, &muxes};

static void mux_close_if_idle(struct mux *m)
{
	if (agent.stopping && m->ws && !m->n)
		ws_close_within(m->ws, WS_CLOSE_GOING_AWAY, STR("the sandbox stops"), MUX_STOP_WAIT);
}

void ws_stop(void)
{
	list_each(it, &muxes) mux_close_if_idle(list_entry(it, struct mux, node));
}

static void mux_free_if_done(struct mux *m)
{
	if (!m->ws && !m->n)
		free(m);
}

/* False: the client does not read. Then it may not ask either. */
static bool send_frame(struct mux *m, struct buf *json)
{
	if (ws_send(m->ws, buf_str(json), true))
		return true;
	ws_pause(m->ws);
	return false;
}

static void send_error(struct mux *m, const char *id, const char *code, int status, const char *message)
{
	if (!m->ws)
		return;
	auto_buf struct buf b = {0};
	struct json_writer w = json_writer(&b);
	json_object_begin(&w);
	json_member_cstr(&w, "type", "error");
	if (id)
		json_member_cstr(&w, "id", id);
	json_member_cstr(&w, "code", code);
	json_member_cstr(&w, "message", message);
	json_member_i64(&w, "status", status);
	json_object_end(&w);
	send_frame(m, &b);
}

/* ---- answers ---- */

static void send_response(struct mux_call *c)
{
	auto_buf struct buf b = {0};
	struct json_writer w = json_writer(&b);
	json_object_begin(&w);
	json_member_cstr(&w, "type", "response");
	json_member_cstr(&w, "id", c->id);
	json_member_i64(&w, "status", c->status);
	if (buf_size(&c->body)) {
		json_key(&w, "body");
		if (c->json)
			json_raw(&w, buf_str(&c->body));
		else
			json_str(&w, buf_str(&c->body));
	}
	json_member_bool(&w, "done", true);
	json_object_end(&w);
	buf_free(&c->body); /* it may be long, and is copied once more on its way out */
	send_frame(c->mux, &b);
}

static void on_event(void *arg, const struct sse_event *ev)
{
	struct mux_call *c = arg;
	if (!c->mux->ws || c->cancelled)
		return;
	auto_buf struct buf b = {0};
	struct json_writer w = json_writer(&b);
	json_object_begin(&w);
	json_member_cstr(&w, "type", "stream");
	json_member_cstr(&w, "id", c->id);
	if (!str_eq_c(ev->event, "message"))
		json_member_str(&w, "event", ev->event);
	json_member_str(&w, "data", ev->data);
	json_object_end(&w);
	if (!send_frame(c->mux, &b) && !c->paused) {
		c->paused = true;
		http_call_pause(c->call);
	}
}

static void on_head(struct http_call *call, const struct http_response *r)
{
	struct mux_call *c = http_call_arg(call);
	c->status = r->status;
	struct str type = http_header_value(&r->headers, STR("Content-Type"));
	c->stream = str_starts(type, STR("text/event-stream"));
	c->json = str_starts(type, STR("application/json"));
}

static void on_body(struct http_call *call, struct str chunk)
{
	struct mux_call *c = http_call_arg(call);
	struct err e;
	bool ok = c->stream ? sse_feed(&c->events, chunk, &e) == 0 : buf_add_str(&c->body, chunk);
	if (ok)
		return;
	send_error(c->mux, c->id, "STREAM_ERROR", 500, "the answer is too long for this transport");
	c->cancelled = true;
	http_call_cancel(call);
}

static void on_call_close(struct http_call *call, const struct http_failure *failure)
{
	struct mux_call *c = http_call_arg(call);
	struct mux *m = c->mux;
	/* Not even sent: a method, path or header that cannot be one. */
	bool refused = failure && failure->fail == HTTP_FAIL_PROTOCOL && !c->status;
	if (m->ws && !c->cancelled && refused)
		send_error(m, c->id, "INVALID_REQUEST", 400, failure->err.msg);
	else if (m->ws && !c->cancelled && failure)
		send_error(m, c->id, c->stream ? "STREAM_ERROR" : "INTERNAL_ERROR", 500, failure->err.msg);
	else if (m->ws && !c->cancelled)
		send_response(c);
	list_del(&c->node);
	m->n--;
	sse_reader_free(&c->events);
	buf_free(&c->body);
	free(c->id);
	free(c);
	mux_close_if_idle(m);
	mux_free_if_done(m);
}

static const struct http_call_ops call_ops = {.on_head = on_head, .on_body = on_body, .on_close = on_call_close};

/* ---- requests ---- */

/* Of the headers that a client sends along, those that a route reads. */
static size_t take_headers(const struct json *root, struct http_header ret[3])
{
	static const struct str known[] = {STR("X-Session-Id"), STR("Authorization")};
	size_t n = 0;
	ret[n++] = (struct http_header){STR("Content-Type"), STR("application/json")};
	json_each(h, json_get(root, "headers"))
	{
		for (size_t i = 0; i < ARRAY_LEN(known) && n < 3; i++)
			if (h->type == JSON_T_STRING && str_eq_nocase(h->key, known[i]))
				ret[n++] = (struct http_header){known[i], h->text};
	}
	return n;
}

static int start_call(struct mux *m, const struct json *root, struct str id, struct err *e)
{
	struct str method = STR("GET"), path = STR_NULL;
	const struct json *body = json_get(root, "body");
	if (json_read_str(root, "method", &method, e) < 0 || json_read_str(root, "path", &path, e) < 0)
		return -1;
	if (!path.n || path.p[0] != '/')
		return err_field(e, "path", "field 'path' must begin with '/'");
	if (str_starts(path, STR("/internal/")))
		return err_set(e, ERRC_VALIDATION_FAILED, "that is between the daemon and the agent");
	auto_buf struct buf text = {0};
	if (!json_is_null(body))
		json_put_tree(&text, body);
	struct mux_call *c = xcalloc(1, sizeof *c);
	*c = (struct mux_call){.mux = m, .id = str_dup(id)};
	struct http_header headers[3];
	struct http_call_options o = {.method = method,
		.target = path,
		.headers = headers,
		.headers_n = take_headers(root, headers),
		.content_length = (int64_t)buf_size(&text)};
	c->call = local_call(&o, &call_ops, c, e);
	if (!c->call) {
		free(c->id);
		free(c);
		return -1;
	}
	sse_reader_init(&c->events, on_event, c);
	c->events.max = BUF_MAX_DEFAULT; /* what HTTP clients get in one event */
	list_push(&m->calls, &c->node);
	m->n++;
	http_call_write(c->call, buf_str(&text));
	http_call_end(c->call);
	return 0;
}

static void cancel_call(struct mux *m, struct str id)
{
	list_each(it, &m->calls)
	{
		struct mux_call *c = list_entry(it, struct mux_call, node);
		if (!str_eq_c(id, c->id))
			continue;
		c->cancelled = true;
		http_call_cancel(c->call);
	}
}

static void on_message(struct ws *ws, struct str message, bool text)
{
	(void)text;
	struct mux *m = ws_arg(ws);
	struct err e;
	struct str type = STR_NULL, id = STR_NULL;
	struct json_doc *doc = json_parse(message, &e);
	const struct json *root = doc ? json_root(doc) : NULL;
	if (!root) {
		send_error(m, NULL, "PARSE_ERROR", 400, e.msg);
	} else if (root->type != JSON_T_OBJECT || json_read_str(root, "type", &type, &e) < 0 ||
		   json_read_str(root, "id", &id, &e) < 0 || !id.n || id.n > MUX_ID_MAX) {
		send_error(m, NULL, "INVALID_REQUEST", 400, "a message needs a type and an id");
	} else if (str_eq_c(type, "cancel")) {
		cancel_call(m, id);
	} else {
		auto_free char *named = str_dup(id);
		if (!str_eq_c(type, "request"))
			send_error(m, named, "INVALID_REQUEST", 400, "type must be 'request' or 'cancel'");
		else if (m->n >= MUX_CALLS_MAX)
			send_error(m, named, "INVALID_REQUEST", 429, "too many requests at once on one socket");
		else if (start_call(m, root, id, &e) < 0)
			send_error(m, named, "INVALID_REQUEST", 400, e.msg);
	}
	json_free(doc);
}

static void on_writable(struct ws *ws)
{
	struct mux *m = ws_arg(ws);
	ws_resume(ws);
	list_each(it, &m->calls)
	{
		struct mux_call *c = list_entry(it, struct mux_call, node);
		if (c->paused)
			http_call_resume(c->call);
		c->paused = false;
	}
}

static void on_close(struct ws *ws, int code, struct str reason)
{
	(void)code;
	(void)reason;
	struct mux *m = ws_arg(ws);
	list_del(&m->node);
	m->ws = NULL;
	list_each(it, &m->calls) http_call_cancel(list_entry(it, struct mux_call, node)->call);
	mux_free_if_done(m);
}

void api_ws(struct agent_request *r)
{
	static const struct ws_ops ops = {.on_message = on_message, .on_writable = on_writable, .on_close = on_close};
	struct ws_options options = {.ping_ms = WS_EXEC_PING, .message_max = AGENT_BODY_MAX};
	struct mux *m = xcalloc(1, sizeof *m);
	struct err e;
	list_init(&m->calls);
	if (ws_accept(r->x, &options, &ops, m, &m->ws, &e) == 0) {
		list_push(&muxes, &m->node);
		return mux_close_if_idle(m);
	}
	free(m);
	http_respond_error(r->x, &e);
}
