#include "agent/command/kept.h"

#include <stdio.h>

#include "agent/agent.h"
#include "agent/limits.h"
#include "agent/proc/spool.h"
#include "base/list.h"
#include "base/map.h"
#include "http/sse.h"

enum { ID_DIGITS = 16, PIECE = 32768 };

struct part {
	struct spool spool;
	uint64_t base; /* offset of its first byte */
};

enum kept_state {
	KEPT_OPEN,  /* no event yet: the exchange may still get another answer */
	KEPT_BEGUN, /* events are sent */
	KEPT_ENDED  /* the last event has come */
};

struct kept {
	struct list node; /* of all, oldest first */
	char id[KEPT_ID_MAX + 1];
	struct http_exchange *x; /* NULL: nobody is connected */
	const struct kept_ops *ops;
	void *arg;
	struct part old, recent; /* when `new` has half of the cap, it becomes `old` and the old part goes */
	uint64_t at;		 /* offset behind the last byte that `x` was given */
	enum kept_state state;	 /* only grows */
	bool waiting;		 /* the owner was told to stop */
	bool closing;		 /* `x` was given the end */
	struct loop_timer timer;
};

static struct map by_id;
static struct list all;

static const struct http_exchange_ops no_ops;

bool kept_id_ok(struct str id)
{
	for (size_t i = 0; i < id.n; i++) {
		char c = id.p[i];
		if (!((c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') || c == '_' ||
			    c == '-'))
			return false;
	}
	return id.n && id.n <= KEPT_ID_MAX;
}

struct kept *kept_find(struct str id)
{
	return map_get(&by_id, id);
}

static void kept_free(struct kept *k)
{
	loop_timer_stop(&k->timer);
	map_del(&by_id, str_of(k->id));
	list_del(&k->node);
	spool_free(&k->old.spool);
	spool_free(&k->recent.spool);
	free(k);
}

static void kept_gone(struct kept *k)
{
	const struct kept_ops *ops = k->ops;
	void *arg = k->arg;
	if (k->x) {
		http_exchange_set(k->x, &no_ops, NULL);
		http_abort(k->x);
	}
	kept_free(k);
	ops->on_gone(arg);
}

static void on_grace_over(struct loop_timer *t)
{
	kept_gone(container_of(t, struct kept, timer));
}

/* ---- the bytes that were sent ---- */

static uint64_t size_of(const struct kept *k)
{
	return k->recent.base + k->recent.spool.size;
}

static uint64_t oldest(const struct kept *k)
{
	return k->old.spool.size ? k->old.base : k->recent.base;
}

static void kept_hold(struct kept *k, struct str bytes)
{
	struct err e;
	if (k->recent.spool.size >= KEPT_MAX_BYTES / 2) {
		uint64_t base = size_of(k);
		spool_free(&k->old.spool);
		k->old = k->recent;
		k->recent = (struct part){.spool = SPOOL_INIT, .base = base};
	}
	/* The box's disk is full: a client that lacks these bytes is cut off and cannot come back. */
	if (spool_add(&k->recent.spool, bytes, &e) < 0) {
		uint64_t base = size_of(k) + bytes.n;
		spool_free(&k->old.spool);
		spool_free(&k->recent.spool);
		k->old = k->recent = (struct part){.spool = SPOOL_INIT, .base = base};
	}
}

/* ---- the connection ---- */

static void on_beat(struct loop_timer *t)
{
	struct kept *k = container_of(t, struct kept, timer);
	if (k->at == size_of(k) && !k->closing) /* never inside an event */
		sse_comment(k->x);
	loop_timer_set(agent.loop, t, SSE_BEAT, on_beat);
}

static ssize_t read_at(const struct kept *k, char *piece)
{
	const struct part *p = k->at >= k->recent.base ? &k->recent : &k->old;
	return k->at < p->base ? -1 : spool_read(&p->spool, k->at - p->base, piece, PIECE);
}

/* Sends the client the bytes that it lacks. True when it lacks none any more. */
static bool kept_pour(struct kept *k)
{
	char piece[PIECE];
	while (k->x && k->state != KEPT_OPEN && k->at < size_of(k)) {
		ssize_t n = read_at(k, piece);
		if (n <= 0) {
			http_abort(k->x);
			return false;
		}
		k->at += (uint64_t)n;
		if (!http_respond_write(k->x, str_n(piece, (size_t)n)))
			return false;
	}
	if (!k->x || k->state == KEPT_OPEN)
		return false;
	if (k->state == KEPT_ENDED && !k->closing) {
		k->closing = true;
		http_respond_end(k->x);
	}
	return true;
}

static void go_on(struct kept *k)
{
	if (!kept_pour(k) || !k->waiting)
		return;
	k->waiting = false;
	k->ops->on_drained(k->arg);
}

static void on_writable(struct http_exchange *x)
{
	go_on(http_exchange_arg(x));
}

static void kept_client_gone(struct http_exchange *x, bool complete)
{
	(void)complete;
	struct kept *k = http_exchange_arg(x);
	k->x = NULL;
	loop_timer_set(agent.loop, &k->timer, KEPT_GRACE, on_grace_over);
}

static const struct http_exchange_ops exchange_ops = {.on_writable = on_writable, .on_close = kept_client_gone};

static void connect_to(struct kept *k, struct http_exchange *x, uint64_t at)
{
	k->x = x;
	k->at = at;
	k->closing = false;
	http_exchange_set(x, &exchange_ops, k);
	loop_timer_set(agent.loop, &k->timer, SSE_BEAT, on_beat);
}

/* ---- for the owner ---- */

/* Makes room: frees a stream that has ended and has no client. */
static bool kept_evict(void)
{
	list_each(it, &all)
	{
		struct kept *k = list_entry(it, struct kept, node);
		if (k->x || k->state != KEPT_ENDED)
			continue;
		kept_gone(k);
		return true;
	}
	return false;
}

struct kept *kept_open(struct str id, struct http_exchange *x, const struct kept_ops *ops, void *arg)
{
	if (!all.next)
		list_init(&all);
	if (kept_find(id) || (by_id.count >= KEPT_STREAMS_MAX && !kept_evict()))
		return NULL;
	struct kept *k = xcalloc(1, sizeof *k);
	*k = (struct kept){.ops = ops, .arg = arg, .old.spool = SPOOL_INIT, .recent.spool = SPOOL_INIT};
	memcpy(k->id, id.p, id.n);
	map_put(&by_id, id, k);
	list_push(&all, &k->node);
	http_exchange_set(x, &exchange_ops, k);
	k->x = x;
	return k;
}

void kept_begin(struct kept *k)
{
	if (k->state != KEPT_OPEN)
		return;
	k->state = KEPT_BEGUN;
	if (!k->x)
		return;
	sse_begin(k->x);
	loop_timer_set(agent.loop, &k->timer, SSE_BEAT, on_beat);
}

bool kept_send(struct kept *k, struct str data)
{
	char head[64];
	auto_buf struct buf room = {0};
	if (k->x)
		data = http_respond_with_extra(k->x, data, &room);
	/* "id: " and digits, "data: ", the text, two line ends: the length is known before it is written. */
	uint64_t behind = size_of(k) + 4 + ID_DIGITS + 1 + 6 + data.n + 2;
	snprintf(head, sizeof head, "id: %016llx\ndata: ", (unsigned long long)behind);
	auto_buf struct buf frame = {0};
	buf_add_c(&frame, head);
	buf_add_str(&frame, data);
	buf_add_c(&frame, "\n\n");
	kept_hold(k, buf_str(&frame));
	k->waiting = !kept_pour(k);
	return !k->waiting;
}

void kept_end(struct kept *k)
{
	INVARIANT(k->state == KEPT_BEGUN);
	k->state = KEPT_ENDED;
	kept_pour(k);
}

struct http_exchange *kept_take_back(struct kept *k)
{
	struct http_exchange *x = k->state == KEPT_OPEN ? k->x : NULL;
	if (!x)
		return NULL;
	http_exchange_set(x, &no_ops, NULL);
	kept_free(k);
	return x;
}

/* ---- for a client that comes back ---- */

static bool offset_of(struct str id, uint64_t *ret)
{
	uint64_t n = 0;
	for (size_t i = 0; i < id.n; i++) {
		char c = id.p[i];
		if (!((c >= '0' && c <= '9') || (c >= 'a' && c <= 'f')))
			return false;
		n = n << 4 | (uint64_t)(c <= '9' ? c - '0' : c - 'a' + 10);
	}
	*ret = n;
	return id.n == 0 || id.n == ID_DIGITS;
}

/* An event ends there: a client may send any number back. */
static bool is_boundary(const struct kept *k, uint64_t at)
{
	char end[2];
	const struct part *p = at > k->recent.base ? &k->recent : &k->old;
	return at == 0 || at == oldest(k) ||
	       (at >= p->base + 2 && spool_read(&p->spool, at - p->base - 2, end, 2) == 2 && end[0] == '\n' &&
		       end[1] == '\n');
}

int kept_attach(struct kept *k, struct http_exchange *x, struct str id, struct err *e)
{
	uint64_t at;
	if (!offset_of(id, &at) || at < oldest(k) || at > size_of(k) || !is_boundary(k, at))
		return err_set(e, ERRC_PROCESS_NOT_FOUND,
			"What follows event '%.*s' of this stream is not kept any more", (int)(id.n < 20 ? id.n : 20),
			id.p);
	if (k->x) {
		http_exchange_set(k->x, &no_ops, NULL);
		http_abort(k->x);
	}
	connect_to(k, x, at);
	if (k->state == KEPT_OPEN)
		k->state = KEPT_BEGUN;
	sse_begin(x);
	go_on(k);
	return 0;
}

void kept_cancel(struct kept *k)
{
	kept_gone(k);
}
