/* The handshake of a WebSocket on either end, and its connection to the exchange or call below. */
#include <stdio.h>
#include <sys/random.h>

#include "http/client/call.h"
#include "http/limits.h"
#include "http/server/conn.h"
#include "http/ws/sha1.h"
#include "http/ws/ws_impl.h"

void ws_accept_key(struct str key, char ret[29])
{
	auto_buf struct buf text = {0};
	unsigned char digest[20];
	buf_add_str(&text, key);
	buf_add_c(&text, "258EAFA5-E914-47DA-95CA-C5AB0DC85B11");
	sha1(buf_str(&text), digest);
	base64(str_n(digest, sizeof digest), ret);
}

static struct ws *ws_new(struct loop *l, const struct ws_options *o, const struct ws_ops *ops, void *arg)
{
	struct ws *ws = xcalloc(1, sizeof *ws);
	ws->loop = l;
	ws->ops = ops;
	ws->arg = arg;
	ws->ping_ms = o->ping_ms;
	ws->reader.message_max = o->message_max ? o->message_max : WS_MESSAGE_MAX;
	return ws;
}

static void start(struct ws *ws)
{
	ws->open = true;
	loop_defer(ws->loop, &ws->task, ws_run);
}

/* ---- server ---- */

static void x_body(struct http_exchange *x, struct str chunk)
{
	ws_input(http_exchange_arg(x), chunk);
}

static void x_body_end(struct http_exchange *x)
{
	ws_input_end(http_exchange_arg(x));
}

static void x_writable(struct http_exchange *x)
{
	struct ws *ws = http_exchange_arg(x);
	if (!ws->close_sent && ws->ops->on_writable)
		ws->ops->on_writable(ws);
}

static void x_close(struct http_exchange *x, bool complete)
{
	(void)complete;
	ws_gone(http_exchange_arg(x), STR("the connection broke"));
}

static const struct http_exchange_ops x_ops = {
	.on_body = x_body, .on_body_end = x_body_end, .on_writable = x_writable, .on_close = x_close};

/* 16 bytes in base64. */
static bool key_ok(struct str key)
{
	if (key.n != 24 || key.p[22] != '=' || key.p[23] != '=')
		return false;
	for (size_t i = 0; i < 22; i++) {
		unsigned char c = (unsigned char)key.p[i];
		bool alnum = (c >= '0' && c <= '9') || ((c | 0x20) >= 'a' && (c | 0x20) <= 'z');
		if (!alnum && c != '+' && c != '/')
			return false;
	}
	return true;
}

static int check_request(struct http_exchange *x, struct str *ret_key, struct err *e)
{
	const struct http_request *r = http_request(x);
	if (r->method != HTTP_M_GET || !r->upgrade ||
		!http_header_has_token(&r->headers, STR("Upgrade"), STR("websocket")))
		return err_set(e, ERRC_INVALID_REQUEST, "a WebSocket handshake is expected here");
	if (!str_eq_c(http_header_value(&r->headers, STR("Sec-WebSocket-Version")), "13")) {
		http_respond_header(x, STR("Sec-WebSocket-Version"), STR("13"));
		return err_set(e, ERRC_UPGRADE_REQUIRED, "only version 13 of the WebSocket protocol is spoken here");
	}
	*ret_key = http_header_value(&r->headers, STR("Sec-WebSocket-Key"));
	if (!key_ok(*ret_key))
		return err_set(e, ERRC_INVALID_REQUEST, "Sec-WebSocket-Key is missing or malformed");
	return 0;
}

int ws_accept(struct http_exchange *x, const struct ws_options *o, const struct ws_ops *ops, void *arg, struct ws **ret,
	struct err *e)
{
	struct str key = STR_NULL;
	char accept[29];
	if (check_request(x, &key, e) < 0)
		return -1;
	struct ws *ws = ws_new(conn_of(x)->s->loop, o, ops, arg);
	ws->server = ws->reader.expect_mask = true;
	ws->x = x;
	ws_accept_key(key, accept);
	http_respond_header(x, STR("Upgrade"), STR("websocket"));
	http_respond_header(x, STR("Sec-WebSocket-Accept"), str_of(accept));
	if (o->protocol.n &&
		http_header_has_token(&http_request(x)->headers, STR("Sec-WebSocket-Protocol"), o->protocol))
		http_respond_header(x, STR("Sec-WebSocket-Protocol"), o->protocol);
	http_exchange_set(x, &x_ops, ws);
	http_upgrade(x);
	start(ws);
	*ret = ws;
	return 0;
}

/* ---- client ---- */

static int check_answer(struct ws *ws, const struct http_response *r, struct err *e)
{
	const struct http_headers *h = &r->headers;
	struct str protocol = http_header_value(h, STR("Sec-WebSocket-Protocol"));
	if (r->status != 101)
		return err_set(e, ERRC_BAD_GATEWAY, "the server answered %d", r->status);
	if (!http_header_has_token(h, STR("Upgrade"), STR("websocket")) ||
		!http_header_has_token(h, STR("Connection"), STR("upgrade")))
		return err_set(e, ERRC_BAD_GATEWAY, "the server upgraded to something else");
	if (!str_eq_c(http_header_value(h, STR("Sec-WebSocket-Accept")), ws->accept))
		return err_set(e, ERRC_BAD_GATEWAY, "the server's Sec-WebSocket-Accept is wrong");
	if (http_header_find(h, STR("Sec-WebSocket-Extensions")))
		return err_set(e, ERRC_BAD_GATEWAY, "the server uses an extension that was not offered");
	if (protocol.p && (!ws->protocol[0] || !str_eq_c(protocol, ws->protocol)))
		return err_set(e, ERRC_BAD_GATEWAY, "the server chose a subprotocol that was not offered");
	return 0;
}

static void fail_handshake(struct ws *ws, const char *why)
{
	ws->code = WS_CLOSE_ABNORMAL;
	ws->reason_len = (size_t)snprintf(ws->reason, sizeof ws->reason, "%s", why);
	if (ws->reason_len >= sizeof ws->reason)
		ws->reason_len = sizeof ws->reason - 1;
}

static void c_head(struct http_call *c, const struct http_response *r)
{
	struct ws *ws = http_call_arg(c);
	struct err e;
	if (check_answer(ws, r, &e) == 0)
		return start(ws);
	fail_handshake(ws, e.msg);
	ws->over = true;
	http_call_cancel(c);
}

static void c_body(struct http_call *c, struct str chunk)
{
	ws_input(http_call_arg(c), chunk);
}

static void c_body_end(struct http_call *c)
{
	ws_input_end(http_call_arg(c));
}

static void c_writable(struct http_call *c)
{
	struct ws *ws = http_call_arg(c);
	if (ws->open && !ws->close_sent && ws->ops->on_writable)
		ws->ops->on_writable(ws);
}

static void c_close(struct http_call *c, const struct http_failure *failure)
{
	struct ws *ws = http_call_arg(c);
	if (failure && !ws->open && !ws->code)
		fail_handshake(ws, failure->err.msg);
	bool silent = failure && failure->fail == HTTP_FAIL_TIMEOUT;
	ws_gone(ws, silent ? str_of(failure->err.msg) : STR("the connection broke"));
}

static const struct http_call_ops c_ops = {.on_head = c_head,
	.on_body = c_body,
	.on_body_end = c_body_end,
	.on_writable = c_writable,
	.on_close = c_close};

struct ws *ws_connect(struct http_client *cl, const struct http_endpoint *ep, const struct http_call_options *call,
	const struct ws_options *o, const struct ws_ops *ops, void *arg)
{
	struct ws *ws = ws_new(cl->loop, o, ops, arg);
	unsigned char nonce[16];
	char key[25];
	if (getrandom(nonce, sizeof nonce, 0) != (ssize_t)sizeof nonce)
		abort();
	base64(str_n(nonce, sizeof nonce), key);
	ws_accept_key(str_of(key), ws->accept);
	snprintf(ws->protocol, sizeof ws->protocol, "%.*s", STR_ARG(o->protocol));

	auto_free struct http_header *h = xcalloc(call->headers_n + 4, sizeof *h);
	size_t n = call->headers_n;
	if (n)
		memcpy(h, call->headers, n * sizeof *h);
	h[n++] = (struct http_header){STR("Upgrade"), STR("websocket")};
	h[n++] = (struct http_header){STR("Sec-WebSocket-Version"), STR("13")};
	h[n++] = (struct http_header){STR("Sec-WebSocket-Key"), str_of(key)};
	if (ws->protocol[0])
		h[n++] = (struct http_header){STR("Sec-WebSocket-Protocol"), str_of(ws->protocol)};
	struct http_call_options own = *call;
	own.method = STR("GET");
	own.headers = h;
	own.headers_n = n;
	own.content_length = 0;
	own.upgrade = true;
	ws->call = http_call_start(cl, ep, &own, &c_ops, ws);
	return ws;
}
