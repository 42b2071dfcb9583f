#include <stdarg.h>
#include <string.h>

#include "base/json.h"
#include "doors/bridge/bridge.h"

/* ---- life ---- */

static void on_removed_later(void *arg, const struct http_reply *r, const struct http_failure *f)
{
	(void)arg;
	(void)r;
	(void)f;
}

void bridge_remove(struct bridge_call *b)
{
	struct http_endpoint api;
	auto_buf struct buf target = {0}, body = {0};
	struct daemon *d = b->r->daemon;
	const struct sandbox *s = sandbox_find(d, b->box);
	b->archive = false;
	/* A question to a sandbox that was destroyed meanwhile would make a new one. */
	if (!s || !sandbox_is_ready(s))
		return;
	buf_printf(&target, "/v1/sandboxes/%s/api/delete", b->box);
	buf_printf(&body, "{\"path\":\"%s\",\"sessionId\":\"__DISABLE_SESSION__\"}", b->path);
	const struct http_question q = {
		.options = {.method = STR("POST"), .target = buf_str(&target), .head_ms = BRIDGE_ASK_TIMEOUT},
		.body = buf_str(&body),
		.max = BRIDGE_ANSWER_MAX,
		.on_reply = on_removed_later};
	if (http_endpoint_unix(&api, str_of(d->config.own_sock), NULL) == 0)
		http_call_whole(d->client, &api, &q);
}

static void bridge_free(struct bridge_call *b)
{
	struct daemon_request *r = b->r;
	if (b->archive)
		bridge_remove(b);
	r->bridge = NULL;
	sse_reader_free(&b->events);
	buf_free(&b->body);
	buf_free(&b->said);
	free(b->session);
	free(b->path);
	free(b);
	daemon_request_release(r);
}

void bridge_done(struct bridge_call *b)
{
	if (b->over)
		return;
	b->over = true;
	if (b->call)
		http_call_cancel(b->call);
	else
		bridge_free(b);
}

static void client_gone(struct http_exchange *x, bool complete)
{
	struct daemon_request *r = http_exchange_arg(x);
	struct bridge_call *b = r->bridge;
	daemon_request_hold(r);
	if (b)
		bridge_done(b);
	daemon_request_closed(x, complete);
	daemon_request_release(r);
}

static void on_writable(struct http_exchange *x)
{
	struct daemon_request *r = http_exchange_arg(x);
	if (r->bridge && r->bridge->call)
		http_call_resume(r->bridge->call);
}

static void on_upload(struct http_exchange *x, struct str chunk)
{
	struct daemon_request *r = http_exchange_arg(x);
	struct bridge_call *b = r->bridge;
	if (!b || !b->upload || !b->call)
		return;
	b->taken += chunk.n;
	if (b->taken > BRIDGE_UPLOAD_MAX) {
		b->upload = false;
		return b->on_too_long(b);
	}
	if (!http_call_write(b->call, chunk))
		http_pause(x);
}

static void on_upload_end(struct http_exchange *x)
{
	struct daemon_request *r = http_exchange_arg(x);
	struct bridge_call *b = r->bridge;
	if (b && b->upload && b->call)
		http_call_end(b->call);
}

static const struct http_exchange_ops ops = {
	.on_body = on_upload, .on_body_end = on_upload_end, .on_writable = on_writable, .on_close = client_gone};

struct bridge_call *bridge_call_new(struct daemon_request *r)
{
	struct bridge_call *b = xcalloc(1, sizeof *b);
	b->r = r;
	r->bridge = b;
	daemon_request_hold(r);
	http_exchange_set(r->x, &ops, r);
	return b;
}

/* ---- answers ---- */

static void refuse(struct daemon_request *r, int status, const char *code, struct str text)
{
	auto_buf struct buf out = {0};
	struct json_writer w = json_writer(&out);
	json_object_begin(&w);
	json_member_str(&w, "error", text);
	json_member_cstr(&w, "code", code);
	json_object_end(&w);
	daemon_request_json(r, status, buf_str(&out));
}

void bridge_refuse(struct daemon_request *r, int status, const char *code, const char *fmt, ...)
{
	auto_buf struct buf text = {0};
	va_list ap;
	va_start(ap, fmt);
	buf_vprintf(&text, fmt, ap);
	va_end(ap);
	refuse(r, status, code, buf_str(&text));
}

void bridge_fail(struct bridge_call *b, int status, const char *code, const char *fmt, ...)
{
	auto_buf struct buf text = {0};
	va_list ap;
	va_start(ap, fmt);
	buf_vprintf(&text, fmt, ap);
	va_end(ap);
	if (b->r->x)
		refuse(b->r, status, code, buf_str(&text));
	bridge_done(b);
}

void bridge_answer(struct bridge_call *b, int status, struct str json)
{
	if (b->r->x)
		daemon_request_json(b->r, status, json);
	bridge_done(b);
}

void bridge_ok(struct bridge_call *b)
{
	bridge_answer(b, 200, STR("{\"ok\":true}"));
}

void bridge_message(struct str body, struct buf *ret)
{
	auto_json struct json_doc *doc = json_parse(body, NULL);
	struct str message = STR_NULL;
	const struct json *root = doc ? json_root(doc) : NULL;
	if (root && root->type == JSON_T_OBJECT)
		json_read_str(root, "message", &message, NULL);
	buf_add_str(ret, message.p ? message : body);
}

static struct str code_of(const struct json_doc *doc)
{
	struct str code = STR_NULL;
	const struct json *root = doc ? json_root(doc) : NULL;
	if (root && root->type == JSON_T_OBJECT)
		json_read_str(root, "code", &code, NULL);
	return code;
}

bool bridge_has_code(struct str body, const char *code)
{
	auto_json struct json_doc *doc = json_parse(body, NULL);
	return str_eq_c(code_of(doc), code);
}

bool bridge_fail_pool(struct bridge_call *b, int status, struct str body)
{
	static const char *const codes[] = {"BOX_CREATE_FAILED", "IMAGE_NOT_FOUND", "CONTAINER_UNAVAILABLE",
		"HOST_UNSUPPORTED", "INVALID_LIMITS", "LIMIT_REACHED"};
	auto_json struct json_doc *doc = status >= 400 ? json_parse(body, NULL) : NULL;
	struct str code = code_of(doc);
	bool ours = false;
	for (size_t i = 0; i < ARRAY_LEN(codes); i++)
		ours |= str_eq_c(code, codes[i]);
	if (!ours)
		return false;
	auto_buf struct buf why = {0};
	bridge_message(body, &why);
	if (str_eq_c(code, "LIMIT_REACHED"))
		bridge_fail(b, 503, "capacity_exceeded", "instance limit reached: %s", buf_cstr(&why));
	else
		bridge_fail(b, 502, "pool_error", "pool error: %s", buf_cstr(&why));
	return true;
}

/* ---- questions ---- */

static void on_sse(void *arg, const struct sse_event *ev)
{
	struct bridge_call *b = arg;
	auto_json struct json_doc *doc = json_parse(ev->data, NULL);
	if (doc && !b->over && b->r->x && json_root(doc)->type == JSON_T_OBJECT)
		b->on_event(b, json_root(doc));
}

static void on_head(struct http_call *c, const struct http_response *r)
{
	struct bridge_call *b = http_call_arg(c);
	uint64_t length;
	b->status = r->status;
	if (b->over || !b->r->x || r->status != 200)
		return;
	if (b->on_event && !b->own)
		return sse_begin(b->r->x);
	if (!b->pass)
		return;
	bool known = str_to_u64(http_header_value(&r->headers, STR("Content-Length")), INT64_MAX, &length);
	http_respond_header(b->r->x, STR("Content-Type"), STR("application/octet-stream"));
	http_respond_begin(b->r->x, 200, known ? (int64_t)length : HTTP_CHUNKED);
}

static void on_body(struct http_call *c, struct str chunk)
{
	struct bridge_call *b = http_call_arg(c);
	struct err e;
	if (b->over || !b->r->x)
		return;
	bool good = b->status == 200;
	if (good && b->pass) {
		if (!http_respond_write(b->r->x, chunk))
			http_call_pause(c);
	} else if (good && b->on_event) {
		if (sse_feed(&b->events, chunk, &e) < 0)
			http_call_cancel(c);
		else if (!b->over && b->r->x && http_respond_pending(b->r->x) > HTTP_OUT_HIGH)
			http_call_pause(c);
	} else if (!buf_add_str(&b->body, chunk)) {
		http_call_cancel(c);
	}
}

static void on_call_writable(struct http_call *c)
{
	struct bridge_call *b = http_call_arg(c);
	if (b->upload && b->r->x)
		http_resume(b->r->x);
}

static void on_call_close(struct http_call *c, const struct http_failure *f)
{
	struct bridge_call *b = http_call_arg(c);
	b->call = NULL;
	if (b->over)
		return bridge_free(b);
	struct buf body = b->body;
	bridge_on_reply on_reply = b->on_reply;
	const char *why = body.failed ? "the answer is too long" : f ? f->err.msg : "";
	b->body = (struct buf){0};
	b->upload = false;
	if (f)
		on_reply(b, 0, str_of(why));
	else
		on_reply(b, b->status, buf_str(&body));
	buf_free(&body);
}

static const struct http_call_ops call_ops = {
	.on_head = on_head, .on_body = on_body, .on_writable = on_call_writable, .on_close = on_call_close};

static void start(struct bridge_call *b, const char *method, struct str target, int64_t length, bool quick)
{
	struct daemon *d = b->r->daemon;
	struct http_endpoint api;
	auto_buf struct buf whole = {0};
	const struct http_header json = {STR("Content-Type"), STR("application/json")};
	buf_printf(&whole, "/v1/sandboxes/%s%.*s", b->box, STR_ARG(target));
	const struct http_call_options o = {.method = str_of(method),
		.target = buf_str(&whole),
		.headers = &json,
		.headers_n = length > 0,
		.content_length = length,
		.head_ms = quick ? BRIDGE_ASK_TIMEOUT : 0};
	INVARIANT(!b->call && http_endpoint_unix(&api, str_of(d->config.own_sock), NULL) == 0);
	b->status = 0;
	b->body = (struct buf){.max = BRIDGE_ANSWER_MAX};
	b->call = http_call_start(d->client, &api, &o, &call_ops, b);
}

void bridge_ask(struct bridge_call *b, const char *method, struct str target, struct str body, bridge_on_reply on_reply)
{
	b->on_reply = on_reply;
	b->on_event = NULL;
	b->pass = false;
	start(b, method, target, (int64_t)body.n, false);
	if (body.n)
		http_call_write(b->call, body);
	http_call_end(b->call);
}

void bridge_follow(
	struct bridge_call *b, struct str target, struct str body, bridge_on_event on_event, bridge_on_reply on_reply)
{
	sse_reader_init(&b->events, on_sse, b);
	b->events.max = BRIDGE_EVENT_MAX;
	b->on_reply = on_reply;
	b->on_event = on_event;
	start(b, "POST", target, (int64_t)body.n, false);
	http_call_write(b->call, body);
	http_call_end(b->call);
}

void bridge_follow_own(struct bridge_call *b, struct str body, bridge_on_event on_event, bridge_on_reply on_reply)
{
	b->own = true;
	b->exit_code = -1;
	b->said = (struct buf){.max = BRIDGE_SAID_MAX};
	bridge_follow(b, STR("/api/execute/stream"), body, on_event, on_reply);
}

void bridge_pass(struct bridge_call *b, struct str target, bridge_on_reply on_reply)
{
	b->on_reply = on_reply;
	b->on_event = NULL;
	b->pass = true;
	start(b, "GET", target, 0, true);
	http_call_end(b->call);
}

void bridge_upload(struct bridge_call *b, struct str target, bridge_on_reply on_reply)
{
	uint64_t length;
	struct str text = http_header_value(&http_request(b->r->x)->headers, STR("Content-Length"));
	if (text.n && str_to_u64(text, UINT64_MAX, &length) && length > BRIDGE_UPLOAD_MAX) {
		b->taken = length;
		return b->on_too_long(b);
	}
	b->on_reply = on_reply;
	b->upload = true;
	start(b, "PUT", target, HTTP_CALL_CHUNKED, false);
	if (http_body_ended(b->r->x))
		http_call_end(b->call);
}

/* ---- the client's body ---- */

static void on_collected(struct http_exchange *x, struct str body)
{
	struct daemon_request *r = http_exchange_arg(x);
	struct bridge_call *b = r->bridge;
	http_exchange_set(x, &ops, r);
	if (b)
		b->on_whole(b, body);
}

void bridge_collect(struct bridge_call *b, void (*on_whole)(struct bridge_call *b, struct str body))
{
	static const struct http_exchange_ops collect = {
		.on_whole_body = on_collected, .on_writable = on_writable, .on_close = client_gone};
	b->on_whole = on_whole;
	http_exchange_set(b->r->x, &collect, b->r);
	http_collect(b->r->x, BRIDGE_BODY_MAX);
}

/* ---- words ---- */

void bridge_percent_encode(struct buf *ret, struct str text)
{
	static const char plain[] = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789-._~/";
	for (size_t i = 0; i < text.n; i++)
		if (text.p[i] && strchr(plain, text.p[i]))
			buf_add_byte(ret, text.p[i]);
		else
			buf_printf(ret, "%%%02X", (unsigned char)text.p[i]);
}

void bridge_quote(struct buf *ret, struct str word)
{
	static const char safe[] = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789@%+:,./-_";
	bool plain = word.n > 0;
	for (size_t i = 0; i < word.n && plain; i++)
		plain = word.p[i] && strchr(safe, word.p[i]);
	if (plain)
		return (void)buf_add_str(ret, word);
	buf_add_byte(ret, '\'');
	for (size_t i = 0; i < word.n; i++)
		if (word.p[i] == '\'')
			buf_add_c(ret, "'\\''");
		else
			buf_add_byte(ret, word.p[i]);
	buf_add_byte(ret, '\'');
}
