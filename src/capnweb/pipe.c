#include <stdio.h>
#include <stdlib.h>

#include "capnweb/impl.h"

/*
 * Streams from the peer. Its writes wait in a queue until the application takes them; taking one acknowledges it, which
 * is what lets the peer send more. The hook of the writable end and the application own the pipe together.
 */

enum write_kind { WRITE_CHUNK, WRITE_CLOSE, WRITE_ABORT };

struct written {
	struct list node;
	enum write_kind kind;
	struct payload *args;
	struct cw_hook *result;
};

struct capnweb_pipe {
	struct list node; /* of the session's pipes */
	struct capnweb *s;
	unsigned refs;
	bool taken, open;    /* open: the application wants the next chunk */
	bool stopped, ended; /* the application is through with it; the peer is */
	bool busy;
	const struct capnweb_pipe_ops *ops; /* NULL: not started, or over */
	void *arg;
	struct list queue;
	struct written *held; /* taken, but not acknowledged until the application resumes */
	char why[CAPNWEB_ERROR_MAX];
};

struct capnweb_pipe *pipe_new(struct capnweb *s)
{
	struct capnweb_pipe *p = xcalloc(1, sizeof *p);
	*p = (struct capnweb_pipe){.s = s, .refs = 1};
	list_init(&p->queue);
	list_push(&s->pipes, &p->node);
	return p;
}

struct capnweb_pipe *pipe_take(struct capnweb_pipe *p)
{
	if (!p || p->taken)
		return NULL;
	p->taken = true;
	p->refs++;
	return p;
}

static struct cw_hook *undefined_value(struct capnweb *s)
{
	struct buf text = {0};
	buf_add_str(&text, CAPNWEB_UNDEFINED);
	return hook_value(s, payload_of_text(s, &text, NULL, 0), NULL);
}

/* Answers a write; `why` refuses it. */
static void written_end(struct capnweb_pipe *p, struct written *w, const char *why)
{
	hook_become(w->result, why ? hook_error(p->s, "Error", "%s", why) : undefined_value(p->s));
	hook_unref(w->result);
	payload_unref(w->args);
	free(w);
}

static void pipe_unref(struct capnweb_pipe *p)
{
	if (--p->refs)
		return;
	while (!list_empty(&p->queue))
		written_end(p, list_entry(list_pop(&p->queue), struct written, node), "the stream is gone");
	if (p->held)
		written_end(p, p->held, "the stream is gone");
	list_del(&p->node);
	free(p);
}

static void done(struct capnweb_pipe *p, bool complete)
{
	const struct capnweb_pipe_ops *ops = p->ops;
	p->ops = NULL;
	p->stopped = true;
	if (ops) {
		ops->on_done(p->arg, complete);
		pipe_unref(p);
	}
}

/* True: the chunk was handed over. False: its value is no chunk. */
static bool hand_over(struct capnweb_pipe *p, struct written *w)
{
	const struct json *value = w->args->root->first;
	auto_buf struct buf bytes = {0};
	struct str chunk;
	if (value && value->type == JSON_T_STRING)
		chunk = value->text;
	else if (value && capnweb_bytes(&bytes, value))
		chunk = buf_str(&bytes);
	else
		return false;
	p->open = !chunk.n || p->ops->on_chunk(p->arg, chunk);
	return true;
}

static void deliver_one(struct capnweb_pipe *p)
{
	struct written *w = list_entry(list_pop(&p->queue), struct written, node);
	if (p->stopped) {
		written_end(p, w, p->why[0] ? p->why : "the stream is closed");
	} else if (w->kind != WRITE_CHUNK) {
		bool complete = w->kind == WRITE_CLOSE;
		written_end(p, w, NULL);
		done(p, complete);
	} else if (!hand_over(p, w)) {
		written_end(p, w, "a chunk must be bytes or text");
		done(p, false);
	} else if (p->open || !p->ops) {
		written_end(p, w, NULL);
	} else {
		p->held = w;
	}
}

static void deliver(struct capnweb_pipe *p)
{
	if (p->busy)
		return;
	INVARIANT(p->refs > 0); /* the caller's */
	p->busy = true;
	p->refs++;
	while (!list_empty(&p->queue) && (p->stopped || (p->ops && p->open)))
		deliver_one(p);
	/* The peer released the writable end without closing it. */
	if (p->ended && list_empty(&p->queue) && p->ops && !p->held)
		done(p, false);
	p->busy = false;
	pipe_unref(p);
}

struct cw_hook *pipe_call(struct cw_hook *h, const struct json *path, struct payload *args)
{
	static const char *const names[] = {"write", "close", "abort"};
	size_t kind = 0;
	while (kind < ARRAY_LEN(names) && !(path && !path->next && str_eq_c(path->text, names[kind])))
		kind++;
	/* A reference could be to this pipe: that would be a cycle. */
	if (kind == ARRAY_LEN(names) || args->n) {
		payload_unref(args);
		return hook_error(h->s, "Error", "a WritableStream has write, close and abort, with plain arguments");
	}
	struct written *w = xcalloc(1, sizeof *w);
	*w = (struct written){.kind = (enum write_kind)kind, .args = args, .result = hook_new(h->s, HOOK_PENDING)};
	struct cw_hook *result = hook_ref(w->result);
	list_push(&h->pipe->queue, &w->node);
	deliver(h->pipe);
	return result;
}

void pipe_drop(struct capnweb_pipe *p)
{
	p->ended = true;
	deliver(p);
	pipe_unref(p);
}

void pipe_end_all(struct capnweb *s)
{
	/* Each one goes with its last owner, which is the application. */
	while (!list_empty(&s->pipes)) {
		struct capnweb_pipe *p = list_entry(s->pipes.next, struct capnweb_pipe, node);
		list_del(&p->node);
		if (p->ops)
			done(p, false);
	}
}

void capnweb_pipe_start(struct capnweb_pipe *p, const struct capnweb_pipe_ops *ops, void *arg)
{
	p->ops = ops;
	p->arg = arg;
	p->open = true;
	deliver(p);
	cw_run(p->s);
}

void capnweb_pipe_resume(struct capnweb_pipe *p)
{
	struct capnweb *s = p->s;
	struct written *held = take_ptr(&p->held);
	if (held)
		written_end(p, held, NULL);
	p->open = true;
	deliver(p);
	cw_run(s);
}

void capnweb_pipe_stop(struct capnweb_pipe *p, const char *why)
{
	struct capnweb *s = p->s;
	p->ops = NULL;
	p->stopped = true;
	snprintf(p->why, sizeof p->why, "%s", why);
	struct written *held = take_ptr(&p->held);
	if (held)
		written_end(p, held, p->why);
	p->refs++; /* what is delivered may drop the others */
	INVARIANT(p->refs > 1);
	deliver(p);
	p->refs--;
	pipe_unref(p);
	cw_run(s);
}
