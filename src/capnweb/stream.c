#include <stdio.h>
#include <stdlib.h>

#include "capnweb/impl.h"

/*
 * Streams to the peer. A stream lives from capnweb_stream_new until its last write was acknowledged or refused; the
 * application lets go earlier. The pipe is made when the answer that holds the stream is sent.
 *
 * Bytes are sent at once while little is on its way (CAPNWEB_EAGER), so a quiet stream waits for nothing. Otherwise
 * they are gathered until they are a piece (CAPNWEB_PIECE) or the peer has caught up: it spends more on a frame than on
 * the bytes in it. No write has more than a piece, because a peer in V8 spends twice as much on the bytes of frames
 * past 128 KiB. Gathered bytes imply a write that is not acknowledged; its acknowledgement sends them.
 */

struct capnweb_stream {
	struct list node;
	struct capnweb *s;
	const struct capnweb_stream_ops *ops; /* NULL: the application has let go */
	void *arg;
	int64_t pipe; /* 0: not sent yet */
	size_t in_flight;
	struct buf gathered; /* bytes that are not sent yet */
	unsigned writes;     /* that are not acknowledged */
	bool waits;	     /* the application was told to wait */
	bool ended;	     /* close or abort was sent */
	bool refused;
	char *error; /* ended before the pipe was there */
	bool early;
};

struct capnweb_stream *capnweb_stream_new(struct capnweb *s, const struct capnweb_stream_ops *ops, void *arg)
{
	struct capnweb_stream *st = xcalloc(1, sizeof *st);
	*st = (struct capnweb_stream){.s = s, .ops = ops, .arg = arg, .waits = true};
	list_push(&s->streams, &st->node);
	return st;
}

static void stream_delete(struct capnweb_stream *st)
{
	buf_free(&st->gathered);
	free(st->error);
	free(st);
}

static void stream_free(struct capnweb_stream *st)
{
	struct imported *i = st->pipe ? cw_import(st->s, st->pipe) : NULL;
	list_del(&st->node);
	if (i) {
		i->stream = NULL;
		cw_import_gone(st->s, i);
	}
	stream_delete(st);
}

static void cancel(struct capnweb_stream *st)
{
	const struct capnweb_stream_ops *ops = st->ops;
	st->ops = NULL;
	if (ops)
		ops->on_cancel(st->arg);
}

/* Frees it when neither side needs it any more. */
static void settle(struct capnweb_stream *st)
{
	if (!st->ops && !st->writes)
		stream_free(st);
}

static struct buf *begin_part(struct capnweb_stream *st, const char *method)
{
	return cw_call_begin(st->s, "stream", st->pipe, method);
}

static void send_part(struct capnweb_stream *st, bool last)
{
	size_t n = buf_size(&st->s->call);
	struct imported *i = cw_call_send(st->s);
	i->stream = st;
	i->ack = true;
	i->last = last;
	i->bytes = n;
	st->in_flight += n;
	st->writes++;
}

static void send_gathered(struct capnweb_stream *st)
{
	if (!buf_size(&st->gathered))
		return;
	capnweb_put_bytes(begin_part(st, "write"), buf_str(&st->gathered));
	send_part(st, false);
	buf_truncate(&st->gathered, 0);
}

/* Whether the application may write on. */
static bool has_room(struct capnweb_stream *st)
{
	st->waits = st->in_flight >= CAPNWEB_WINDOW || st->s->full;
	return !st->waits;
}

static bool is_open(const struct capnweb_stream *st)
{
	return !st->s->ended && st->pipe && !st->ended;
}

bool capnweb_stream_put(struct capnweb_stream *st, struct str expression)
{
	if (!is_open(st))
		return false;
	send_gathered(st);
	buf_add_str(begin_part(st, "write"), expression);
	send_part(st, false);
	return has_room(st);
}

bool capnweb_stream_write(struct capnweb_stream *st, struct str bytes)
{
	if (!is_open(st))
		return false;
	bool eager = st->in_flight < CAPNWEB_EAGER;
	while (bytes.n) {
		size_t room = CAPNWEB_PIECE - buf_size(&st->gathered);
		size_t n = bytes.n < room ? bytes.n : room;
		buf_add(&st->gathered, bytes.p, n);
		bytes = str_skip(bytes, n);
		if (eager || n == room)
			send_gathered(st);
	}
	return has_room(st);
}

static void send_end(struct capnweb_stream *st)
{
	send_gathered(st);
	st->ended = true;
	struct buf *b = begin_part(st, st->error ? "abort" : "close");
	if (st->error) {
		buf_add_c(b, "[\"error\",\"Error\",");
		json_put_cstr(b, st->error);
		buf_add_byte(b, ']');
	}
	send_part(st, true);
}

void capnweb_stream_end(struct capnweb_stream *st, const char *error)
{
	st->ops = NULL;
	st->early = !st->pipe;
	st->error = error ? xstrdup(error) : NULL;
	if (st->s->ended || (st->early && st->refused))
		return; /* freed with the session, or with the answer that holds it */
	if (!st->early)
		send_end(st);
}

void stream_open(struct capnweb_stream *st, int64_t id)
{
	st->pipe = id;
	if (st->early)
		return send_end(st);
	st->waits = true; /* on_ready comes from cw_run */
}

void stream_dropped(struct capnweb_stream *st)
{
	/* The peer released the answer without asking for it. */
	cancel(st);
	stream_free(st);
}

void stream_acked(struct capnweb_stream *st, const struct imported *i, bool ok)
{
	st->in_flight -= i->bytes;
	st->writes--;
	if (!ok && !st->refused) {
		st->refused = true;
		st->ended = true;
		cancel(st);
	}
	if (i->last)
		st->ended = true;
	if (st->in_flight < CAPNWEB_EAGER && is_open(st))
		send_gathered(st);
	settle(st);
}

void stream_wake_all(struct capnweb *s)
{
	list_each(it, &s->streams)
	{
		struct capnweb_stream *st = list_entry(it, struct capnweb_stream, node);
		if (!st->waits || !st->ops || !st->pipe || s->full || s->ended ||
			st->in_flight > CAPNWEB_WINDOW / 4 * 3)
			continue;
		st->waits = false;
		st->ops->on_ready(st->arg);
	}
}

void stream_cancel_all(struct capnweb *s)
{
	list_each(it, &s->streams) cancel(list_entry(it, struct capnweb_stream, node));
}

void stream_free_all(struct capnweb *s)
{
	while (!list_empty(&s->streams))
		stream_delete(list_entry(list_pop(&s->streams), struct capnweb_stream, node));
}
