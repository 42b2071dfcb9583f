#include <stdarg.h>
#include <string.h>

#include "base/json.h"
#include "daemon/ports/tunnels.h"
#include "doors/bridge/bridge.h"

/* ---- life ---- */

void bridge_remove(struct bridge_call *b)
{
	auto_buf struct buf body = {0};
	struct daemon *d = b->r->daemon;
	const struct sandbox *s = sandbox_find(d, b->box);
	b->archive = false;
	/* A question to a sandbox that was destroyed meanwhile would make a new one. */
	if (!s || !sandbox_is_ready(s))
		return;
	buf_printf(&body, "{\"path\":\"%s\",\"sessionId\":\"__DISABLE_SESSION__\"}", b->path);
	const struct pass_what what = {.daemon = d,
		.caller = &b->r->caller,
		.id = b->box,
		.method = "POST",
		.target = STR("/api/delete"),
		.body = buf_str(&body),
		.head_ms = BRIDGE_ASK_TIMEOUT};
	pass_ask_whole(&what, BRIDGE_ANSWER_MAX, NULL);
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
	op_forget(take_ptr(&b->op));
	if (b->question)
		pass_cancel(b->question);
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
	if (r->bridge && r->bridge->question)
		pass_resume(r->bridge->question);
}

static void on_upload(struct http_exchange *x, struct str chunk)
{
	struct daemon_request *r = http_exchange_arg(x);
	struct bridge_call *b = r->bridge;
	if (!b || !b->upload || !b->question)
		return;
	b->taken += chunk.n;
	if (b->taken > BRIDGE_UPLOAD_MAX) {
		b->upload = false;
		return b->on_too_long(b);
	}
	if (!pass_write(b->question, chunk))
		http_pause(x);
}

static void on_upload_end(struct http_exchange *x)
{
	struct daemon_request *r = http_exchange_arg(x);
	struct bridge_call *b = r->bridge;
	if (b && b->upload && b->question)
		pass_end(b->question);
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

bool bridge_fail_pool(struct bridge_call *b, int status, struct str body)
{
	static const int codes[] = {ERRC_BOX_CREATE_FAILED, ERRC_IMAGE_NOT_FOUND, ERRC_CONTAINER_UNAVAILABLE,
		ERRC_HOST_UNSUPPORTED, ERRC_INVALID_LIMITS, ERRC_LIMIT_REACHED};
	bool ours = false;
	for (size_t i = 0; i < ARRAY_LEN(codes); i++)
		ours |= status >= 400 && (int)b->err.code == codes[i];
	if (!ours)
		return false;
	auto_buf struct buf why = {0};
	error_json_message(body, &why);
	if (b->err.code == ERRC_LIMIT_REACHED)
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

static void on_head(void *arg, const struct http_response *r)
{
	struct bridge_call *b = arg;
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

static void on_body(void *arg, struct str chunk)
{
	struct bridge_call *b = arg;
	struct err e;
	if (b->over || !b->r->x)
		return;
	bool good = b->status == 200;
	if (good && b->pass) {
		if (!http_respond_write(b->r->x, chunk))
			pass_pause(b->question);
	} else if (good && b->on_event) {
		if (sse_feed(&b->events, chunk, &e) < 0)
			pass_cancel(b->question);
		else if (!b->over && b->r->x && http_respond_pending(b->r->x) > HTTP_OUT_HIGH)
			pass_pause(b->question);
	} else if (!buf_add_str(&b->body, chunk)) {
		pass_cancel(b->question);
	}
}

static void on_question_writable(void *arg)
{
	struct bridge_call *b = arg;
	if (b->upload && b->r->x)
		http_resume(b->r->x);
}

/* The status of a failure is the API's. */
static void reply(struct bridge_call *b, const struct err *failed)
{
	struct buf body = b->body;
	struct pass_reply answer = {.status = b->status, .body = buf_str(&body)};
	if (body.failed)
		err_set(&answer.err, ERRC_BAD_GATEWAY, "the answer is too long");
	else if (failed)
		answer.err = *failed;
	else
		pass_reply_read(&answer);
	if (body.failed || failed) {
		answer.status = errc_info((int)answer.err.code)->status;
		answer.body = str_of(answer.err.msg);
	}
	b->body = (struct buf){0};
	b->upload = false;
	b->err = answer.err;
	b->on_reply(b, answer.status, answer.body);
	buf_free(&body);
}

static void on_question_close(void *arg, const struct err *e)
{
	struct bridge_call *b = arg;
	b->question = NULL;
	if (b->over)
		return bridge_free(b);
	reply(b, e);
}

static void start(struct bridge_call *b, const char *method, struct str target, const struct str *body, bool quick)
{
	static const struct pass_ops question = {.on_head = on_head,
		.on_body = on_body,
		.on_writable = on_question_writable,
		.on_close = on_question_close};
	const struct pass_what what = {.daemon = b->r->daemon,
		.caller = &b->r->caller,
		.id = b->box,
		.method = method,
		.target = target,
		.body = body ? *body : STR_NULL,
		.stream = !body,
		.head_ms = quick ? BRIDGE_ASK_TIMEOUT : 0,
		.ops = &question,
		.arg = b};
	INVARIANT(!b->question);
	b->status = 0;
	b->err = (struct err){0};
	b->body = (struct buf){.max = BRIDGE_ANSWER_MAX};
	b->question = pass_ask(&what);
}

/* ---- operations ---- */

static void on_operation(void *arg, const struct op_result *result)
{
	struct bridge_call *b = arg;
	auto_buf struct buf out = {0};
	struct json_writer w = json_writer(&out);
	b->op = NULL;
	if (result->err) {
		struct err e = b->err = *result->err;
		return b->on_reply(b, errc_info((int)e.code)->status, str_of(e.msg));
	}
	if (result->tunnel)
		tunnel_view(&w, result->tunnel);
	b->on_reply(b, result->made ? 201 : 200, buf_str(&out));
}

struct op_call bridge_operation(struct bridge_call *b, bridge_on_reply on_reply)
{
	b->on_reply = on_reply;
	return (struct op_call){b->r->daemon, &b->r->caller, b->box, on_operation, b};
}

void bridge_began(struct bridge_call *b, struct operation *op)
{
	if (op)
		b->op = op;
}

/* ---- questions of a kind ---- */

void bridge_ask(struct bridge_call *b, const char *method, struct str target, struct str body, bridge_on_reply on_reply)
{
	b->on_reply = on_reply;
	b->on_event = NULL;
	b->pass = false;
	start(b, method, target, &body, false);
}

void bridge_follow(
	struct bridge_call *b, struct str target, struct str body, bridge_on_event on_event, bridge_on_reply on_reply)
{
	sse_reader_init(&b->events, on_sse, b);
	b->events.max = BRIDGE_EVENT_MAX;
	b->on_reply = on_reply;
	b->on_event = on_event;
	start(b, "POST", target, &body, false);
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
	start(b, "GET", target, &(struct str){"", 0}, true);
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
	start(b, "PUT", target, NULL, false);
	if (http_body_ended(b->r->x))
		pass_end(b->question);
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
