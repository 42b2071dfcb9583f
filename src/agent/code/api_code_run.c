#include <stdio.h>

#include "agent/agent.h"
#include "agent/api.h"
#include "agent/code/context.h"
#include "agent/limits.h"
#include "agent/request/events.h"
#include "agent/request/route.h"
#include "http/sse.h"

/*
 * POST /api/execute/code: runs code in a context and sends its output and results as events while it runs.
 *
 *	{"type":"stdout"|"stderr","text":…}* {"type":"result",…}* {"type":"error","ename","evalue","traceback"}?
 *	{"type":"execution_complete","execution_count":n}
 *
 * execution_complete comes if and only if the worker is still there. All events are ASCII, because upstream's client
 * decodes the pieces of the stream one by one. Errors before the stream have this route's own shape, {error, code,
 * details}.
 *
 * The stream begins with the run. If the run has to wait in its context's queue, the stream begins after SSE_BEAT with
 * comments, so that no proxy takes it for dead. A client that goes away drops its run.
 */

struct code_stream {
	struct http_exchange *x;
	struct code_run *run; /* NULL: over */
	char *context;
	struct events_tail tail[2];
	struct loop_timer beat;
	bool inside; /* part of an event has been sent */
};

/* ---- errors before the stream ---- */

/* Upstream's layout: `error` and `details` beside the envelope's members, and a suggestion even when it is empty. Its
 * client reads either. */
static bool put_member(struct json_writer *w, const char *member, const void *arg)
{
	const struct error_json *j = arg;
	if (strcmp(member, "error") == 0) {
		json_member_cstr(w, member, j->err->msg);
	} else if (strcmp(member, "details") == 0) {
		json_key(w, member);
		json_raw(w, j->context);
	} else if (strcmp(member, "suggestion") == 0) {
		json_member_cstr(w, member, errc_info(j->err->code)->suggestion);
	} else {
		return false;
	}
	return true;
}

static void fail_code(struct http_exchange *x, const struct err *e, struct str context)
{
	static const char *const members[] = {
		"error", "code", "details", "message", "httpStatus", "context", "suggestion", "timestamp", NULL};
	auto_buf struct buf about = {0};
	struct json_writer w = json_writer(&about);
	json_object_begin(&w);
	if (context.n)
		json_member_str(&w, "contextId", context);
	json_object_end(&w);
	struct error_json j = {.err = e, .context = buf_str(&about), .members = members, .put = put_member};
	j.arg = &j;
	if (e->code == ERRC_INTERPRETER_NOT_READY)
		http_respond_header(x, STR("Retry-After"), STR(CODE_RETRY_AFTER));
	http_respond_error_json(x, &j);
}

/* ---- events ---- */

static void begin(struct code_stream *s)
{
	if (!http_respond_begun(s->x))
		sse_begin(s->x);
}

static bool send_ascii(struct code_stream *s, struct str json)
{
	auto_buf struct buf ascii = {0};
	begin(s);
	json_put_ascii(&ascii, json);
	return sse_send(s->x, NULL, STR_NULL, buf_str(&ascii));
}

static bool send_text(struct code_stream *s, int stream, struct str bytes, bool last)
{
	auto_buf struct buf mem = {0}, b = {0};
	struct str piece = events_next(&s->tail[stream - 1], bytes, last, &mem);
	if (!piece.n)
		return true;
	struct json_writer w = json_writer(&b);
	json_object_begin(&w);
	json_member_cstr(&w, "type", stream == CMD_STDOUT ? "stdout" : "stderr");
	json_member_str(&w, "text", piece);
	json_member_now(&w);
	json_object_end(&w);
	return send_ascii(s, buf_str(&b));
}

/* Sends incomplete characters that will not be completed. */
static void send_tails(struct code_stream *s)
{
	for (int stream = CMD_STDOUT; stream <= CMD_STDERR; stream++)
		send_text(s, stream, STR_NULL, true);
}

static bool send_error(
	struct code_stream *s, const char *name, const char *value, const struct json *from, const char *outcome)
{
	auto_buf struct buf b = {0};
	struct json_writer w = json_writer(&b);
	const struct json *trace = json_get(from, "traceback");
	json_object_begin(&w);
	json_member_cstr(&w, "type", "error");
	json_member_cstr(&w, "ename", name);
	json_member_cstr(&w, "evalue", value);
	json_key(&w, "traceback");
	if (trace)
		json_put_tree(w.out, trace);
	else
		buf_add_c(w.out, "[]");
	w.comma = true;
	if (json_get(from, "lineNumber")) {
		json_key(&w, "lineNumber");
		json_put_tree(w.out, json_get(from, "lineNumber"));
		w.comma = true;
	}
	if (outcome)
		json_member_cstr(&w, "outcome", outcome);
	json_member_now(&w);
	json_object_end(&w);
	return send_ascii(s, buf_str(&b));
}

static void on_beat(struct loop_timer *t)
{
	struct code_stream *s = container_of(t, struct code_stream, beat);
	if (!s->inside) {
		begin(s);
		sse_comment(s->x);
	}
	loop_timer_set(agent.loop, &s->beat, SSE_BEAT, on_beat);
}

/* ---- the run's side ---- */

static void on_begin(struct code_run *r)
{
	struct code_stream *s = r->arg;
	begin(s);
}

static bool on_output(struct code_run *r, int stream, struct str bytes)
{
	return send_text(r->arg, stream, bytes, false);
}

/* The beginning of an event that comes in pieces. Warnings about the request become its first member. */
static struct str write_head(struct code_stream *s, struct str piece)
{
	auto_buf struct buf room = {0};
	http_respond_write(s->x, STR("data: "));
	if (!str_starts(piece, STR("{\"")))
		return piece;
	struct str extra = http_respond_with_extra(s->x, STR("{}"), &room);
	if (extra.n <= 2)
		return piece;
	http_respond_write(s->x, str_n(extra.p, extra.n - 1));
	http_respond_write(s->x, STR(","));
	return str_skip(piece, 1);
}

static bool on_event(struct code_run *r, struct str piece, bool first, bool last)
{
	struct code_stream *s = r->arg;
	begin(s);
	if (first)
		piece = write_head(s, piece);
	bool more = http_respond_write(s->x, piece);
	if (last)
		more = http_respond_write(s->x, STR("\n\n"));
	s->inside = !last;
	return more;
}

static void timeout_text(const struct code_run *r, const char *what, char ret[160])
{
	snprintf(ret, 160, "Execution timed out after %llu ms%s", (unsigned long long)r->timeout_ms, what);
}

/* Passes the worker's error on. Only the agent knows why a run was interrupted, so it names and words that error itself: a child of the
 * worker gets the signal too, and the run may fail because of that before the worker knows of the interrupt. */
static bool on_error(struct code_run *r, struct str json)
{
	struct code_stream *s = r->arg;
	struct err e;
	if (r->stop != STOP_TIMEOUT)
		return sse_send(s->x, NULL, STR_NULL, json);
	char why[160];
	auto_json struct json_doc *doc = json_parse(json, &e);
	timeout_text(r, " and was interrupted; the context's state is kept", why);
	return send_error(s, "KeyboardInterrupt", why, doc ? json_root(doc) : NULL, "timeout");
}

static void send_complete(struct code_stream *s, struct str json)
{
	auto_buf struct buf b = {0};
	struct err e;
	uint64_t count = 0;
	auto_json struct json_doc *doc = json_parse(json, &e);
	struct json_writer w = json_writer(&b);
	if (doc)
		json_read_u64(json_root(doc), "execution_count", 0, UINT32_MAX, &count, &e);
	json_object_begin(&w);
	json_member_cstr(&w, "type", "execution_complete");
	json_member_u64(&w, "execution_count", count);
	json_member_now(&w);
	json_object_end(&w);
	send_ascii(s, buf_str(&b));
}

static void send_end(struct code_stream *s, const struct code_run *r, enum code_run_over how, struct str json)
{
	char why[160];
	if (s->inside)
		return http_abort(s->x); /* half a result: no honest end is possible */
	switch (how) {
	case RUN_DONE:
		timeout_text(r, "; the code caught the interrupt and ended by itself", why);
		if (r->stop == STOP_TIMEOUT && !r->failed)
			send_error(s, "TimeoutError", why, NULL, "timeout");
		send_complete(s, json);
		break;
	case RUN_ENDED:
		send_error(s, r->c->outcome == OUTCOME_TIMEOUT ? "TimeoutError" : "ContextEnded", r->c->ended.msg, NULL,
			outcome_name(r->c->outcome));
		break;
	case RUN_DELETED:
		send_error(s, "ContextDeleted", "The context was deleted while this code ran or waited", NULL, "lost");
		break;
	case RUN_REFUSED:
		send_error(s, "ContextEnded", r->c->ended.msg, NULL, "lost");
		break;
	}
	http_respond_end(s->x);
}

static void on_over(struct code_run *r, enum code_run_over how, struct str json)
{
	struct code_stream *s = r->arg;
	loop_timer_stop(&s->beat);
	s->run = NULL;
	if (how == RUN_REFUSED && !http_respond_begun(s->x))
		return fail_code(s->x, &r->c->ended, str_of(s->context));
	if (!s->inside)
		send_tails(s);
	send_end(s, r, how, json);
}

static const struct code_run_ops run_events = {
	.on_begin = on_begin, .on_output = on_output, .on_event = on_event, .on_error = on_error, .on_over = on_over};

/* ---- the client's side ---- */

static void on_writable(struct http_exchange *x)
{
	struct code_stream *s = http_exchange_arg(x);
	if (s->run)
		context_run_resume(s->run);
}

static void code_client_gone(struct http_exchange *x, bool complete)
{
	(void)complete;
	struct code_stream *s = http_exchange_arg(x);
	loop_timer_stop(&s->beat);
	if (s->run)
		context_run_drop(s->run);
	free(s->context);
	free(s);
}

static const struct http_exchange_ops exchange_ops = {.on_writable = on_writable, .on_close = code_client_gone};

/* ---- start ---- */

/* The default context of this language; created if there is none or it has ended. */
static struct context *need_default(enum language l, struct err *e)
{
	struct env none = {0};
	struct context *c = context_default(l);
	if (c && c->state == CONTEXT_ENDED) {
		context_delete(c, NULL, NULL);
		c = NULL;
	}
	struct context_spec spec = {.language = l, .cwd = agent.workdir, .env = &none, .is_default = true};
	return c ? c : context_create(&spec, NULL, NULL, e);
}

static struct context *need_context(const struct json *body, struct str id, struct err *e)
{
	struct str name = STR("python");
	enum language l;
	if (id.n) {
		struct context *c = context_find(id);
		if (!c)
			err_set(e, ERRC_CONTEXT_NOT_FOUND, "Context %.*s not found", (int)(id.n < 100 ? id.n : 100),
				id.p);
		if (c && c->state == CONTEXT_ENDED && !c->is_default) {
			*e = c->ended;
			err_wrap(e, "Context %.60s has ended; delete it and create another", c->id);
			return NULL;
		}
		return c && c->is_default ? need_default(c->language, e) : c;
	}
	if (json_read_str(body, "language", &name, e) < 0)
		return NULL;
	if (!language_of(name, &l)) {
		err_field(e, "language", "field 'language' must be python, javascript or typescript");
		return NULL;
	}
	return need_default(l, e);
}

static struct code_run *read_run(const struct json *body, struct str *ret_context, struct err *e)
{
	struct str code = STR_NULL;
	struct code_run *r = xcalloc(1, sizeof *r);
	if (json_read_str(body, "code", &code, e) < 0 || json_read_str(body, "context_id", ret_context, e) < 0 ||
		env_read(body, "env_vars", &r->env, e) < 0 ||
		json_read_u64(body, "timeout_ms", 0, CMD_TIMEOUT_MAX, &r->timeout_ms, e) < 0)
		goto fail;
	if (!code.p) {
		err_field(e, "code", "field 'code' must be a string");
		goto fail;
	}
	r->code = str_dup(code);
	r->code_n = code.n;
	r->ops = &run_events;
	return r;
fail:
	env_free(&r->env);
	free(r);
	return NULL;
}

void api_execute_code(struct agent_request *r)
{
	struct str id = STR_NULL;
	struct err e;
	struct code_run *run = read_run(r->body, &id, &e);
	if (!run)
		return fail_code(r->x, &e, id);
	struct code_stream *s = xcalloc(1, sizeof *s);
	*s = (struct code_stream){.x = r->x, .run = run};
	run->arg = s;
	struct context *c = need_context(r->body, id, &e);
	if (c) {
		s->context = xstrdup(c->id);
		http_exchange_set(r->x, &exchange_ops, s);
		loop_timer_set(agent.loop, &s->beat, SSE_BEAT, on_beat);
	}
	if (c && context_run(c, run, &e) == 0)
		return;
	loop_timer_stop(&s->beat);
	s->run = NULL;
	env_free(&run->env);
	free(run->code);
	free(run);
	if (!c)
		free(s); /* else the exchange frees it */
	fail_code(r->x, &e, id);
}
