#include "agent/agent.h"
#include "agent/rpc/rpc.h"
#include "base/clock.h"
#include "proto/errc.h"

/* Streams: the bytes of an answer to the client, and the client's bytes into a request. */

/* ---- to the client ---- */

static void on_ready(void *arg)
{
	struct rpc_call *c = arg;
	if (c->http)
		http_call_resume(c->http);
}

static void on_cancel(void *arg)
{
	struct rpc_call *c = arg;
	c->stream = NULL;
	if (c->http)
		http_call_cancel(c->http);
}

static const struct capnweb_stream_ops stream_ops = {.on_ready = on_ready, .on_cancel = on_cancel};

/* What readFile answers with `encoding: 'none'`. */
static void put_file(struct rpc_call *c, const struct http_response *r, struct capnweb_answer *a)
{
	struct json_writer w = json_writer(&a->text);
	char iso[CLOCK_ISO_LEN];
	json_object_begin(&w);
	json_member_bool(&w, "success", true);
	json_member_cstr(&w, "path", c->path);
	json_member_i64(&w, "size", r->content_length);
	json_member_str(&w, "mimeType", http_header_value(&r->headers, STR("Content-Type")));
	json_member_cstr(&w, "timestamp", clock_iso(clock_wall_ms(), iso));
	json_key(&w, "content");
	capnweb_answer_stream(a, c->stream);
	json_object_end(&w);
}

void rpc_stream_head(struct rpc_call *c, const struct http_response *r)
{
	struct capnweb_answer a = {0};
	c->stream = capnweb_stream_new(c->rpc->session, &stream_ops, c);
	http_call_pause(c->http); /* until the client has the stream */
	if (c->method->kind == RPC_FILE)
		put_file(c, r, &a);
	else
		capnweb_answer_stream(&a, c->stream);
	capnweb_resolve_answer(take_ptr(&c->call), &a);
}

void rpc_stream_body(struct rpc_call *c, struct str chunk)
{
	if (!capnweb_stream_write(c->stream, chunk) && c->http)
		http_call_pause(c->http);
}

void rpc_stream_close(struct rpc_call *c, const struct http_failure *failure)
{
	capnweb_stream_end(take_ptr(&c->stream), failure ? failure->err.msg : NULL);
}

/* ---- from the client ---- */

static bool on_chunk(void *arg, struct str bytes)
{
	struct rpc_call *c = arg;
	c->piped += bytes.n;
	return !c->http || http_call_write(c->http, bytes);
}

static void on_done(void *arg, bool complete)
{
	struct rpc_call *c = arg;
	c->pipe = NULL;
	if (!c->http)
		return;
	if (complete)
		return http_call_end(c->http);
	c->failed = true;
	err_set(&c->error, ERRC_INTERNAL_ERROR, "the stream ended before it was complete; the file is unchanged");
	http_call_cancel(c->http);
}

int rpc_upload_start(struct rpc_call *c, struct err *e)
{
	c->pipe = capnweb_take_pipe(c->call, capnweb_call_arg(c->call, 1));
	return c->pipe ? 0 : err_set(e, ERRC_VALIDATION_FAILED, "argument 2 must be a ReadableStream of bytes");
}

/* Also starts it: the first chunk is taken when the request is on its way. */
void rpc_upload_writable(struct rpc_call *c)
{
	static const struct capnweb_pipe_ops ops = {.on_chunk = on_chunk, .on_done = on_done};
	if (!c->pipe)
		return;
	if (c->started)
		return capnweb_pipe_resume(c->pipe);
	c->started = true;
	capnweb_pipe_start(c->pipe, &ops, c);
}

void rpc_upload_close(struct rpc_call *c)
{
	capnweb_pipe_stop(take_ptr(&c->pipe), "the file cannot be written");
}
