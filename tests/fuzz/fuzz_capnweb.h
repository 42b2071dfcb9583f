/*
 * fuzz_capnweb.h - the application of both fuzz targets of capnweb: it answers some calls at once, some later and some
 * never, streams both ways and calls back. Nothing may crash, leak, hang or pass a limit; after the end of the session
 * no frame is sent. Every frame that we send is JSON.
 */
#pragma once

#include "capnweb/capnweb.h"
#include "capnweb/limits.h"
#include "fuzz.h"

enum { HELD = 16 };

struct app {
	struct capnweb *s;
	struct capnweb_call *held[HELD];
	struct capnweb_stream *stream;
	struct capnweb_pipe *pipe;
	size_t n;
	bool over;
};

static bool on_send(void *arg, struct str frame)
{
	struct app *a = arg;
	MUST(!a->over);
	struct json_parser p;
	json_parser_init(&p, NULL, NULL);
	/* A frame that nests deeper than the reader allows can only be one whose parts did. */
	(void)json_feed(&p, frame, NULL);
	return frame.n % 7 != 0;
}

static void on_ready(void *arg)
{
	struct app *a = arg;
	if (a->stream)
		(void)capnweb_stream_write(a->stream, STR("some bytes"));
}

static void on_cancel(void *arg)
{
	((struct app *)arg)->stream = NULL;
}

static bool on_chunk(void *arg, struct str bytes)
{
	(void)arg;
	return bytes.n % 2 == 0;
}

static void on_done(void *arg, bool complete)
{
	(void)complete;
	((struct app *)arg)->pipe = NULL;
}

static void on_reply(void *arg, bool ok, const struct json *value)
{
	(void)arg;
	(void)ok;
	(void)value;
}

static const struct capnweb_stream_ops stream_ops = {.on_ready = on_ready, .on_cancel = on_cancel};
static const struct capnweb_pipe_ops pipe_ops = {.on_chunk = on_chunk, .on_done = on_done};

static void answer_with(struct app *a, struct capnweb_call *c, char kind)
{
	struct capnweb_answer out = {0};
	auto_buf struct buf plain = {0}, wire = {0};
	if (kind == 'o') {
		capnweb_answer_object(&out, a->s, a);
		return capnweb_resolve_answer(c, &out);
	}
	if (kind == 's' && !a->stream) {
		a->stream = capnweb_stream_new(a->s, &stream_ops, a);
		buf_add_c(&out.text, "{\"s\":");
		capnweb_answer_stream(&out, a->stream);
		buf_add_c(&out.text, "}");
		return capnweb_resolve_answer(c, &out);
	}
	capnweb_plain(&plain, capnweb_call_arg(c, 0));
	capnweb_put_json(&wire, buf_str(&plain));
	capnweb_resolve(c, buf_str(&wire));
}

static void on_call(void *arg, struct capnweb_call *c, void *object, const char *method)
{
	struct app *a = arg;
	(void)object;
	int64_t stub = capnweb_take_stub(c, capnweb_call_arg(c, 0));
	if (stub) {
		capnweb_call_peer(a->s, stub, method, STR("1"), on_reply, a);
		capnweb_release_stub(a->s, stub);
	}
	struct capnweb_pipe *pipe = capnweb_take_pipe(c, capnweb_call_arg(c, 0));
	if (pipe && !a->pipe) {
		a->pipe = pipe;
		capnweb_pipe_start(pipe, &pipe_ops, a);
	} else if (pipe) {
		capnweb_pipe_stop(pipe, "one is enough");
	}
	if (method[0] == 'h' && a->n < HELD)
		a->held[a->n++] = c;
	else if (method[0] == 'e')
		capnweb_reject(c, "Error", STR("no"), STR_NULL);
	else
		answer_with(a, c, method[0]);
}

static bool has_object(void *arg, const char *path)
{
	(void)arg;
	return path[0] == 'r';
}

static void on_end(void *arg, const char *reason)
{
	MUST(reason[0]);
	((struct app *)arg)->over = true;
}

static const struct capnweb_ops ops = {.send = on_send, .on_call = on_call, .has_object = has_object, .on_end = on_end};

static void turn(struct app *a, size_t i)
{
	capnweb_writable(a->s);
	if (a->n && i % 3 == 0)
		capnweb_resolve(a->held[--a->n], STR("{\"a\":[[1,2]],\"b\":\"x\"}"));
	if (a->pipe && i % 4 == 0)
		capnweb_pipe_resume(a->pipe);
	if (a->stream && i % 5 == 0) {
		struct capnweb_stream *st = a->stream;
		a->stream = NULL;
		capnweb_stream_end(st, i % 2 ? "broken" : NULL);
	}
	MUST(capnweb_calls(a->s) <= CAPNWEB_CALLS_MAX);
}

/* The i-th frame of the peer, from 1 on. */
static void frame_in(struct app *a, struct str frame, size_t i)
{
	capnweb_frame(a->s, frame);
	if (!a->over)
		turn(a, i);
}
