#include "daemon/pass/ask.h"

#include <stdio.h>

#include "base/json.h"
#include "daemon/op/op.h"

struct pass_question {
	struct pass_what what; /* target and body are ours */
	struct caller caller;
	char id[BOX_ID_MAX + 1];
	char *target, *body;
	struct sandbox_waiter waiter;
	struct sandbox *sandbox; /* entered while the call runs */
	struct http_call *call;
	struct loop_timer later; /* on_close never comes from inside */
	struct buf early;	 /* of the body, before the box is there */
	struct err err;
	bool tried, cancelled, ended; /* ended: pass_end was called */
};

void pass_explain(const struct sandbox *s, const struct http_failure *f, struct err *e)
{
	bool ended = s->state != SB_RUNNING || s->op == OP_DESTROY;
	switch (f->fail) {
	case HTTP_FAIL_CONNECT:
		err_set(e, ERRC_CONTAINER_UNAVAILABLE, "sandbox '%s' cannot be reached now; nothing was sent to it",
			s->id);
		break;
	case HTTP_FAIL_PROTOCOL:
		err_set(e, ERRC_BAD_GATEWAY, "sandbox '%s' gave no acceptable answer: %s", s->id, f->err.msg);
		break;
	case HTTP_FAIL_NONE:
	case HTTP_FAIL_CLOSED:
	case HTTP_FAIL_TIMEOUT:
	case HTTP_FAIL_CANCELLED:
		err_set(e, ERRC_CONTAINER_LOST, "sandbox '%s' %s while it worked on this request", s->id,
			s->op == OP_DESTROY || s->state == SB_DESTROYED ? "was destroyed"
			: ended						? "ended"
									: "closed the connection");
		break;
	}
}

/* ---- its end ---- */

static void question_free(struct pass_question *q)
{
	loop_timer_stop(&q->later);
	buf_free(&q->early);
	free(q->target);
	free(q->body);
	free(q);
}

static void question_close(struct pass_question *q, const struct err *e)
{
	const struct pass_ops *ops = q->what.ops;
	void *arg = q->what.arg;
	struct err copy = e ? *e : (struct err){0};
	question_free(q);
	ops->on_close(arg, e ? &copy : NULL);
}

static void on_later(struct loop_timer *t)
{
	struct pass_question *q = container_of(t, struct pass_question, later);
	question_close(q, &q->err);
}

static void fail_later(struct pass_question *q, const struct err *e)
{
	q->err = *e;
	loop_timer_set(q->what.daemon->loop, &q->later, 0, on_later);
}

/* ---- the call ---- */

static void wait_for_box(struct pass_question *q);

static void on_head(struct http_call *c, const struct http_response *r)
{
	struct pass_question *q = http_call_arg(c);
	q->what.ops->on_head(q->what.arg, r);
}

static void on_body(struct http_call *c, struct str chunk)
{
	struct pass_question *q = http_call_arg(c);
	if (!q->cancelled)
		q->what.ops->on_body(q->what.arg, chunk);
}

static void on_writable(struct http_call *c)
{
	struct pass_question *q = http_call_arg(c);
	if (!q->cancelled && q->what.ops->on_writable)
		q->what.ops->on_writable(q->what.arg);
}

/* A box whose agent does not listen has ended, though the warden may not have said so yet: it is started again, once. */
static bool try_again(struct pass_question *q, const struct http_failure *f)
{
	if (f->fail != HTTP_FAIL_CONNECT || q->tried || q->cancelled || q->what.stream ||
		!warden_client_is_up(q->what.daemon->warden))
		return false;
	q->tried = true;
	return true;
}

static void on_close(struct http_call *c, const struct http_failure *f)
{
	struct pass_question *q = http_call_arg(c);
	struct sandbox *s = q->sandbox;
	struct err e;
	q->call = NULL;
	if (f) {
		pass_explain(s, f, &e);
		if (!q->cancelled)
			sandbox_suspect(s, f->fail == HTTP_FAIL_CONNECT);
	}
	q->sandbox = NULL;
	sandbox_leave(s);
	if (f && try_again(q, f))
		return wait_for_box(q);
	question_close(q, f ? &e : NULL);
}

static void send_to(struct pass_question *q, struct sandbox *s)
{
	static const struct http_call_ops ops = {
		.on_head = on_head, .on_body = on_body, .on_writable = on_writable, .on_close = on_close};
	struct str body = q->body ? str_of(q->body) : STR("");
	const struct http_header headers[] = {
		{STR("X-Sandbox-Id"), str_of(s->id)}, {STR("Content-Type"), STR("application/json")}};
	const struct http_call_options o = {.method = str_of(q->what.method),
		.target = str_of(q->target),
		.headers = headers,
		.headers_n = body.n ? 2 : 1,
		.content_length = q->what.stream ? HTTP_CALL_CHUNKED : (int64_t)body.n,
		.head_ms = q->what.head_ms};
	q->sandbox = s;
	sandbox_enter(s);
	q->call = http_call_start(q->what.daemon->client, &s->agent, &o, &ops, q);
	if (body.n)
		http_call_write(q->call, body);
	if (buf_size(&q->early))
		http_call_write(q->call, buf_str(&q->early));
	buf_free(&q->early);
	if (!q->what.stream || q->ended)
		http_call_end(q->call);
	else if (q->what.ops->on_writable)
		q->what.ops->on_writable(q->what.arg);
}

static void on_there(struct sandbox_waiter *w, struct sandbox *s, const struct err *e)
{
	struct pass_question *q = container_of(w, struct pass_question, waiter);
	if (e)
		fail_later(q, e);
	else
		send_to(q, s);
}

static void wait_for_box(struct pass_question *q)
{
	struct err e;
	q->waiter = (struct sandbox_waiter){.goal = WAIT_RUNNING, .on_done = on_there};
	if (sandbox_wait_id(q->what.daemon, q->id, &q->waiter, &e) < 0)
		fail_later(q, &e);
}

struct pass_question *pass_ask(const struct pass_what *what)
{
	struct err e;
	struct pass_question *q = xcalloc(1, sizeof *q);
	q->what = *what;
	q->caller = *what->caller;
	q->target = str_dup(what->target);
	q->body = what->stream ? NULL : str_dup(what->body);
	snprintf(q->id, sizeof q->id, "%s", what->id);
	struct sandbox *s = sandbox_find(what->daemon, q->id);
	if (op_may_make(what->daemon, &q->caller, q->id, &e) < 0)
		fail_later(q, &e);
	else if (s && sandbox_is_ready(s) && list_empty(&s->waiters))
		send_to(q, s);
	else
		wait_for_box(q);
	return q;
}

bool pass_write(struct pass_question *q, struct str bytes)
{
	INVARIANT(q->what.stream);
	if (q->call)
		return http_call_write(q->call, bytes);
	buf_add_str(&q->early, bytes);
	return false;
}

void pass_end(struct pass_question *q)
{
	q->ended = true;
	if (q->call)
		http_call_end(q->call);
}

void pass_pause(struct pass_question *q)
{
	if (q->call)
		http_call_pause(q->call);
}

void pass_resume(struct pass_question *q)
{
	if (q->call)
		http_call_resume(q->call);
}

void pass_cancel(struct pass_question *q)
{
	static const struct err cancelled = {.code = ERRC_CONTAINER_UNAVAILABLE, .msg = "cancelled"};
	q->cancelled = true;
	if (q->call)
		return http_call_cancel(q->call);
	sandbox_wait_cancel(&q->waiter);
	fail_later(q, &cancelled);
}

/* ---- whole answers ---- */

struct pass_whole {
	struct pass_question *question;
	struct buf body;
	int status;
	pass_on_reply on_reply;
	void *arg;
};

void pass_reply_read(struct pass_reply *reply)
{
	struct str code = STR_NULL, message = STR_NULL;
	if (reply->status >= 200 && reply->status < 300)
		return;
	auto_json struct json_doc *doc = json_parse(reply->body, NULL);
	const struct json *root = doc && json_root(doc)->type == JSON_T_OBJECT ? json_root(doc) : NULL;
	json_read_str(root, "code", &code, NULL);
	json_read_str(root, "message", &message, NULL);
	if (!message.p)
		message = reply->body;
	err_set(&reply->err, errc_from_name(code), "%.*s", (int)(message.n < 230 ? message.n : 230), message.p);
}

static void on_whole_head(void *arg, const struct http_response *r)
{
	((struct pass_whole *)arg)->status = r->status;
}

static void on_whole_body(void *arg, struct str chunk)
{
	struct pass_whole *w = arg;
	if (!buf_add_str(&w->body, chunk))
		pass_cancel(w->question);
}

static void on_whole_close(void *arg, const struct err *e)
{
	struct pass_whole *w = arg;
	struct pass_reply reply = {.status = w->status, .body = buf_str(&w->body)};
	if (w->body.failed)
		err_set(&reply.err, ERRC_BAD_GATEWAY, "the answer is too long");
	else if (e)
		reply.err = *e;
	else
		pass_reply_read(&reply);
	if (e || w->body.failed)
		reply.status = 0, reply.body = str_of(reply.err.msg);
	if (w->on_reply)
		w->on_reply(w->arg, &reply);
	buf_free(&w->body);
	free(w);
}

void pass_ask_whole(const struct pass_what *what, size_t max, pass_on_reply on_reply)
{
	static const struct pass_ops ops = {
		.on_head = on_whole_head, .on_body = on_whole_body, .on_close = on_whole_close};
	struct pass_whole *w = xcalloc(1, sizeof *w);
	*w = (struct pass_whole){.body = {.max = max}, .on_reply = on_reply, .arg = what->arg};
	struct pass_what inner = *what;
	inner.ops = &ops;
	inner.arg = w;
	w->question = pass_ask(&inner);
}
