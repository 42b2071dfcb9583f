#include "doors/mcp/call.h"

#include <stdio.h>
#include <string.h>

#include "base/json.h"
#include "doors/mcp/message.h"

/* ---- its end ---- */

static void call_free(struct mcp_call *c)
{
	mcp_session_unref(c->session);
	json_free(c->message);
	sse_reader_free(&c->events);
	buf_free(&c->body);
	buf_free(&c->content);
	buf_free(&c->out);
	free(c->id);
	free(c->progress_token);
	free(c->path);
	free(c);
}

/* The request and the session have no call any more. A question under way keeps the object until it has closed. */
static void call_close(struct mcp_call *c)
{
	list_del(&c->node);
	c->session->calls_n--;
	loop_timer_stop(&c->tick);
	loop_timer_stop(&c->deadline);
	daemon_request_release(c->request);
	c->request = NULL;
	if (c->http)
		http_call_cancel(c->http);
	else
		call_free(c);
}

static void answer(struct mcp_call *c, struct str message)
{
	struct daemon_request *r = c->request;
	if (!r->x)
		return;
	if (!c->stream)
		return daemon_request_json(r, 200, message);
	sse_send(r->x, "message", STR_NULL, message);
	http_respond_end(r->x);
	daemon_request_answered(r, 200);
}

void mcp_call_answer(struct mcp_call *c, struct str message)
{
	answer(c, message);
	call_close(c);
}

void mcp_call_finish(struct mcp_call *c)
{
	auto_buf struct buf out = {0};
	struct json_writer w = json_writer(&out);
	json_object_begin(&w);
	json_member_cstr(&w, "jsonrpc", "2.0");
	json_key(&w, "id");
	json_raw(&w, str_of(c->id));
	json_key(&w, "result");
	json_object_begin(&w);
	json_key(&w, c->resource ? "contents" : "content");
	buf_add_byte(&out, '[');
	buf_add_str(&out, buf_str(&c->content));
	buf_add_byte(&out, ']');
	w.comma = true;
	if (!c->resource)
		json_member_bool(&w, "isError", c->is_error);
	json_object_end(&w);
	json_object_end(&w);
	mcp_call_answer(c, buf_str(&out));
}

/* A resource has no result that is an error. */
static void fail(struct mcp_call *c, const char *text)
{
	if (c->resource) {
		auto_buf struct buf out = {0};
		mcp_error_write(&out, str_of(c->id), MCP_RESOURCE_NOT_FOUND, text);
		return mcp_call_answer(c, buf_str(&out));
	}
	mcp_text(c, str_of(text));
	c->is_error = true;
	mcp_call_finish(c);
}

void mcp_call_fail(struct mcp_call *c, const struct err *e)
{
	fail(c, e->msg);
}

/* The API's advice is for HTTP clients; these codes have one for models. */
static struct str advice(struct str code, struct str message, struct str suggestion)
{
	if (str_eq_c(code, "SANDBOX_NOT_FOUND"))
		return STR("list_sandboxes shows all; create_sandbox makes one.");
	if (str_eq_c(code, "SNAPSHOT_NOT_FOUND"))
		return STR("snapshot_sandbox makes one and answers with its id.");
	if (str_eq_c(code, "PROCESS_NOT_FOUND"))
		return STR("list_processes shows all.");
	if (str_eq_c(code, "INVALID_STATE") && str_ends(message, STR(" exists already")))
		return STR("Choose another id; list_sandboxes shows those that are taken.");
	if (str_eq_c(code, "FILE_TOO_LARGE"))
		return STR("Read a part of it with run_command, as in head, tail or sed.");
	if (str_eq_c(code, "INVALID_LIMITS") || str_eq_c(code, "NOT_FOUND"))
		return STR_NULL;
	return suggestion;
}

void mcp_call_fail_api(struct mcp_call *c, int status, struct str body)
{
	struct err e;
	auto_buf struct buf text = {0};
	auto_json struct json_doc *doc = json_parse(body, &e);
	struct str code = STR(""), message = STR_NULL, suggestion = STR_NULL;
	json_read_str(doc ? json_root(doc) : NULL, "code", &code, &e);
	json_read_str(doc ? json_root(doc) : NULL, "message", &message, &e);
	json_read_str(doc ? json_root(doc) : NULL, "suggestion", &suggestion, &e);
	if (message.p)
		buf_printf(&text, "%.*s", STR_ARG(message));
	else
		buf_printf(&text, "the daemon answered %d: %.*s", status, (int)(body.n < 300 ? body.n : 300), body.p);
	suggestion = advice(code, message, suggestion);
	if (suggestion.n)
		buf_printf(&text, "\n%.*s", STR_ARG(suggestion));
	fail(c, buf_cstr(&text));
}

/* An event stream that has begun ends without a message. */
void mcp_call_cancel(struct mcp_call *c)
{
	struct daemon_request *r = c->request;
	if (r->x && c->stream) {
		http_respond_end(r->x);
		daemon_request_answered(r, 200);
	} else if (r->x) {
		daemon_request_json(r, 200, STR("{}"));
	}
	call_close(c);
}

/* ---- questions ---- */

static void on_head(struct http_call *h, const struct http_response *r)
{
	struct mcp_call *c = http_call_arg(h);
	c->status = r->status;
}

static void on_sse(void *arg, const struct sse_event *ev)
{
	struct mcp_call *c = arg;
	auto_json struct json_doc *doc = json_parse(ev->data, NULL);
	if (doc && c->request)
		c->on_event(c, json_root(doc));
}

static void on_body(struct http_call *h, struct str chunk)
{
	struct mcp_call *c = http_call_arg(h);
	struct err e;
	bool events = c->on_event && c->status == 200;
	if ((events && sse_feed(&c->events, chunk, &e) < 0) || (!events && !buf_add_str(&c->body, chunk)))
		http_call_cancel(h);
}

static void on_closed(struct http_call *h, const struct http_failure *f)
{
	struct mcp_call *c = http_call_arg(h);
	c->http = NULL;
	if (!c->request)
		return call_free(c);
	if (!c->on_reply)
		return; /* mcp_ask_stop: another function of the tool goes on */
	struct buf body = c->body;
	const char *why = body.failed ? "the answer is too long" : f ? f->err.msg : "";
	mcp_on_reply on_reply = c->on_reply;
	c->body = (struct buf){0};
	c->on_reply = NULL;
	if (f)
		on_reply(c, 0, str_of(why));
	else
		on_reply(c, c->status, buf_str(&body));
	buf_free(&body);
}

void mcp_follow(struct mcp_call *c, const char *method, struct str target, struct str body, mcp_on_event on_event,
	mcp_on_reply on_reply)
{
	static const struct http_call_ops ops = {.on_head = on_head, .on_body = on_body, .on_close = on_closed};
	const struct http_header json = {STR("Content-Type"), STR("application/json")};
	const struct http_call_options o = {
		.method = str_of(method),
		.target = target,
		.headers = &json,
		.headers_n = body.n > 0,
		.content_length = (int64_t)body.n,
		.head_ms = MCP_ASK_TIMEOUT,
		.fresh = on_event != NULL,
	};
	INVARIANT(!c->http);
	c->on_reply = on_reply;
	c->on_event = on_event;
	c->status = 0;
	c->body = (struct buf){.max = MCP_ANSWER_MAX};
	sse_reader_free(&c->events);
	sse_reader_init(&c->events, on_sse, c);
	c->events.max = MCP_ANSWER_MAX;
	c->http = http_call_start(c->session->mcp->daemon->client, &c->session->mcp->api, &o, &ops, c);
	if (body.n)
		http_call_write(c->http, body);
	http_call_end(c->http);
}

void mcp_ask(struct mcp_call *c, const char *method, struct str target, struct str body, mcp_on_reply on_reply)
{
	mcp_follow(c, method, target, body, NULL, on_reply);
}

void mcp_ask_stop(struct mcp_call *c)
{
	c->on_reply = NULL;
	if (c->http)
		http_call_cancel(c->http);
}

void mcp_percent_encode(struct buf *ret, struct str text)
{
	static const char plain[] = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789-._~";
	for (size_t i = 0; i < text.n; i++)
		if (text.p[i] && strchr(plain, text.p[i]))
			buf_add_byte(ret, text.p[i]);
		else
			buf_printf(ret, "%%%02X", (unsigned char)text.p[i]);
}

void mcp_box_path(struct buf *ret, const struct mcp_call *c, const char *rest)
{
	buf_add_c(ret, "/v1/sandboxes/");
	mcp_percent_encode(ret, str_of(c->box));
	buf_add_c(ret, rest);
}

/* ---- progress ---- */

void mcp_progress(struct mcp_call *c, struct str message)
{
	uint64_t now = loop_now(c->session->mcp->daemon->loop);
	if (!c->progress_token || !c->stream || !c->request->x || now < c->progress_at)
		return;
	auto_buf struct buf out = {0};
	struct json_writer w = json_writer(&out);
	json_object_begin(&w);
	json_member_cstr(&w, "jsonrpc", "2.0");
	json_member_cstr(&w, "method", "notifications/progress");
	json_key(&w, "params");
	json_object_begin(&w);
	json_key(&w, "progressToken");
	json_raw(&w, str_of(c->progress_token));
	json_member_u64(&w, "progress", ++c->progress);
	json_member_str(&w, "message", message);
	json_object_end(&w);
	json_object_end(&w);
	sse_send(c->request->x, "message", STR_NULL, buf_str(&out));
	c->progress_at = now + MCP_PROGRESS_EVERY;
}
