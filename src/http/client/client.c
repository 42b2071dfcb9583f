#include "http/client/call.h"

struct http_client *http_client_new(struct loop *l)
{
	struct http_client *cl = xcalloc(1, sizeof *cl);
	cl->loop = l;
	list_init(&cl->calls);
	return cl;
}

static void free_client(struct loop_task *t)
{
	struct http_client *cl = container_of(t, struct http_client, free_task);
	map_free(&cl->pools);
	free(cl);
}

void http_client_free(struct http_client *cl)
{
	if (!cl)
		return;
	while (!list_empty(&cl->calls)) {
		struct http_call *c = list_entry(cl->calls.next, struct http_call, node);
		call_fail(c, HTTP_FAIL_CANCELLED, "the client ends");
		call_close(c);
	}
	link_free_idle(cl);
	loop_defer(cl->loop, &cl->free_task, free_client);
}

uint64_t http_client_heard(const struct http_client *cl)
{
	return cl->heard;
}

/* ---- whole calls ---- */

struct whole {
	http_on_reply on_reply;
	void *arg;
	struct buf body;
	struct http_reply reply;
};

static void on_head(struct http_call *c, const struct http_response *r)
{
	struct whole *w = http_call_arg(c);
	w->reply.status = r->status;
	w->reply.headers = r->headers;
}

static void on_body(struct http_call *c, struct str chunk)
{
	struct whole *w = http_call_arg(c);
	if (!buf_add_str(&w->body, chunk))
		call_fail(c, HTTP_FAIL_PROTOCOL, "the response is larger than expected");
}

static void on_close(struct http_call *c, const struct http_failure *failure)
{
	struct whole *w = http_call_arg(c);
	w->reply.body = buf_str(&w->body);
	if (!failure || failure->fail != HTTP_FAIL_CANCELLED)
		w->on_reply(w->arg, failure ? NULL : &w->reply, failure);
	buf_free(&w->body);
	free(w);
}

static const struct http_call_ops whole_ops = {.on_head = on_head, .on_body = on_body, .on_close = on_close};

struct http_call *http_call_whole(struct http_client *cl, const struct http_endpoint *ep, const struct http_question *q)
{
	struct http_call_options own = q->options;
	own.content_length = (int64_t)q->body.n;
	struct whole *w = xcalloc(1, sizeof *w);
	*w = (struct whole){.on_reply = q->on_reply, .arg = q->arg, .body.max = q->max ? q->max : 1};
	struct http_call *c = http_call_start(cl, ep, &own, &whole_ops, w);
	http_call_write(c, q->body);
	http_call_end(c);
	return c;
}
