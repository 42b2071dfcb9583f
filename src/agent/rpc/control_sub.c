#include <stdlib.h>

#include "agent/limits.h"
#include "agent/rpc/control.h"
#include "proto/errc.h"

/*
 * Subscriptions. The client gets an object and asks it once for its stream; until then the source waits. The object
 * lives until the client lets go of it, and that ends the source, as cancel() and a stream that is not wanted do.
 */

struct control_sub {
	struct rpc_object object;
	struct rpc *rpc;
	const struct control_source *source; /* NULL: over, or stopped */
	void *arg;
	struct capnweb_stream *stream; /* NULL: not asked for yet, or over */
	bool opened;
	char *error; /* why the source broke off before the stream was asked for */
};

static void stop(struct control_sub *s)
{
	const struct control_source *source = take_ptr(&s->source);
	struct capnweb_stream *stream = take_ptr(&s->stream);
	if (source)
		source->on_cancel(s->arg);
	if (stream)
		capnweb_stream_end(stream, NULL);
}

static void on_ready(void *arg)
{
	struct control_sub *s = arg;
	if (s->source)
		s->source->on_ready(s->arg);
}

static void on_cancel(void *arg)
{
	struct control_sub *s = arg;
	s->stream = NULL;
	stop(s);
}

static void answer_stream(struct control_sub *s, struct capnweb_call *call)
{
	static const struct capnweb_stream_ops ops = {.on_ready = on_ready, .on_cancel = on_cancel};
	struct capnweb_answer a = {0};
	if (s->opened)
		return capnweb_reject(
			call, "Error", STR("the stream of this subscription was opened before"), STR_NULL);
	s->opened = true;
	s->stream = capnweb_stream_new(s->rpc->session, &ops, s);
	capnweb_answer_stream(&a, s->stream);
	if (!s->source)
		capnweb_stream_end(take_ptr(&s->stream), s->error);
	capnweb_resolve_answer(call, &a);
}

static void on_call(struct rpc_object *o, struct capnweb_call *call, const char *method)
{
	struct control_sub *s = container_of(o, struct control_sub, object);
	if (strcmp(method, "stream") == 0)
		return answer_stream(s, call);
	if (strcmp(method, "cancel") != 0)
		return rpc_reject_unknown(call, method);
	stop(s);
	capnweb_resolve(call, CAPNWEB_UNDEFINED);
}

static void on_drop(struct rpc_object *o)
{
	struct control_sub *s = container_of(o, struct control_sub, object);
	stop(s);
	s->rpc->subs--;
	free(s->error);
	free(s);
}

int control_sub_open(struct rpc *r, struct capnweb_call *call, const struct control_source *source, void *arg,
	struct control_sub **ret)
{
	struct err e;
	if (r->subs >= CONTROL_SUBS_MAX) {
		err_set(&e, ERRC_INVALID_REQUEST, "a client can hold %d subscriptions", CONTROL_SUBS_MAX);
		rpc_reject(call, &e);
		return -1;
	}
	struct control_sub *s = xcalloc(1, sizeof *s);
	struct capnweb_answer a = {0};
	*s = (struct control_sub){
		.object = {.on_call = on_call, .on_drop = on_drop}, .rpc = r, .source = source, .arg = arg};
	*ret = s;
	r->subs++;
	capnweb_answer_object(&a, r->session, &s->object);
	capnweb_resolve_answer(call, &a);
	return 0;
}

bool control_sub_put(struct control_sub *s, struct str expression)
{
	return s->stream && capnweb_stream_put(s->stream, expression);
}

bool control_sub_write(struct control_sub *s, struct str bytes)
{
	return s->stream && capnweb_stream_write(s->stream, bytes);
}

void control_sub_end(struct control_sub *s, const char *error)
{
	s->source = NULL;
	if (s->stream)
		capnweb_stream_end(take_ptr(&s->stream), error);
	else if (error && !s->error)
		s->error = xstrdup(error);
}

/* ---- the agent's own port, which always answers ---- */

struct self {
	struct control_sub *sub;
};

static void self_ready(void *arg)
{
	struct self *self = arg;
	(void)control_sub_put(self->sub, STR("{\"type\":\"watching\",\"port\":" CONTROL_PORT "}"));
	(void)control_sub_put(self->sub, STR("{\"type\":\"ready\",\"port\":" CONTROL_PORT "}"));
	control_sub_end(self->sub, NULL);
	free(self);
}

void control_watch_self(struct rpc *r, struct capnweb_call *call)
{
	static const struct control_source source = {.on_ready = self_ready, .on_cancel = free};
	struct self *self = xcalloc(1, sizeof *self);
	if (control_sub_open(r, call, &source, self, &self->sub) < 0)
		free(self);
}

/* ---- sources that are streams of HTTP ---- */

static void call_ready(void *arg)
{
	struct rpc_call *c = arg;
	if (c->http)
		http_call_resume(c->http);
}

static void call_cancel(void *arg)
{
	struct rpc_call *c = arg;
	c->sub = NULL;
	if (c->http)
		http_call_cancel(c->http);
}

static const struct control_source call_source = {.on_ready = call_ready, .on_cancel = call_cancel};

static void on_event(void *arg, const struct sse_event *ev)
{
	struct rpc_call *c = arg;
	auto_buf struct buf b = {0};
	capnweb_put_json(&b, ev->data);
	if (c->sub && !control_sub_put(c->sub, buf_str(&b)) && c->http)
		http_call_pause(c->http);
}

void control_call_head(struct rpc_call *c)
{
	http_call_pause(c->http); /* until the client has the stream */
	if (c->method->kind == RPC_EVENTS) {
		c->events = xcalloc(1, sizeof *c->events);
		sse_reader_init(c->events, on_event, c);
	}
	struct http_call *http = c->http;
	if (control_sub_open(c->rpc, take_ptr(&c->call), &call_source, c, &c->sub) < 0)
		http_call_cancel(http);
}

void control_call_body(struct rpc_call *c, struct str chunk)
{
	struct err e;
	if (!c->events) {
		if (!control_sub_write(c->sub, chunk) && c->http)
			http_call_pause(c->http);
	} else if (sse_feed(c->events, chunk, &e) < 0 && c->http) {
		http_call_cancel(c->http);
	}
}

void control_stop(struct rpc *r)
{
	list_each(it, &r->calls)
	{
		struct rpc_call *c = list_entry(it, struct rpc_call, node);
		if (!c->sub)
			continue;
		control_sub_end(take_ptr(&c->sub), "the sandbox stops");
		if (c->http)
			http_call_cancel(c->http);
	}
}

void control_call_close(struct rpc_call *c, const struct http_failure *failure)
{
	if (c->sub)
		control_sub_end(take_ptr(&c->sub), failure ? failure->err.msg : NULL);
	if (c->events)
		sse_reader_free(c->events);
	free(take_ptr(&c->events));
}
