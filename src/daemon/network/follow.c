#include "daemon/network/follow.h"

#include "http/sse.h"
#include "proto/errc.h"

enum { KEEP_ALIVE_MS = 15000 };

struct follower {
	struct list node;
	struct followers *of; /* NULL: the followed object is gone */
	struct follow f;
	struct loop_timer timer;
	bool full;
};

void followers_init(struct followers *fs, size_t max)
{
	*fs = (struct followers){.max = max};
	list_init(&fs->list);
}

static void on_writable(struct http_exchange *x)
{
	((struct follower *)http_exchange_arg(x))->full = false;
}

static void on_close(struct http_exchange *x, bool complete)
{
	struct follower *f = http_exchange_arg(x);
	if (f->of)
		f->of->n--;
	list_del(&f->node);
	loop_timer_stop(&f->timer);
	f->f.on_close(f->f.arg, complete);
	free(f);
}

static void on_keep_alive(struct loop_timer *t)
{
	struct follower *f = container_of(t, struct follower, timer);
	if (!f->full)
		f->full = !sse_comment(f->f.x);
	loop_timer_set(f->f.loop, t, KEEP_ALIVE_MS, on_keep_alive);
}

struct follower *followers_add(struct followers *fs, const struct follow *given, struct err *e)
{
	static const struct http_exchange_ops ops = {.on_writable = on_writable, .on_close = on_close};
	if (fs->n >= fs->max) {
		err_set(e, ERRC_LIMIT_REACHED, "%zu clients follow this already", fs->max);
		return NULL;
	}
	struct follower *f = xcalloc(1, sizeof *f);
	f->of = fs;
	f->f = *given;
	fs->n++;
	list_push(&fs->list, &f->node);
	http_exchange_set(f->f.x, &ops, f);
	sse_begin(f->f.x);
	loop_timer_set(f->f.loop, &f->timer, KEEP_ALIVE_MS, on_keep_alive);
	return f;
}

void follower_send(struct follower *f, struct str data)
{
	if (!f->full)
		f->full = !sse_send(f->f.x, NULL, STR_NULL, data);
}

void followers_send(struct followers *fs, struct str data)
{
	list_each(it, &fs->list) follower_send(list_entry(it, struct follower, node), data);
}

void followers_end(struct followers *fs)
{
	while (!list_empty(&fs->list)) {
		struct follower *f = list_entry(list_pop(&fs->list), struct follower, node);
		f->of = NULL;
		http_respond_end(f->f.x);
	}
}
