#include "base/tcp_owner.h"

#include <stdlib.h>

#include "base/base.h"

bool tcp_owner_window(struct tcp_owner *o, const struct tcp_host *h, size_t n)
{
	uint32_t before = o->window;
	if (h->is_short || o->over)
		o->window = TCP_WINDOW_MIN;
	else
		o->window = tcp_window_for(n, TCP_WINDOW_FEW, TCP_WINDOW_MIN, before);
	return o->window != before;
}

void tcp_owner_judge(struct tcp_owner *o, uint64_t now)
{
	if (o->held > TCP_OWNER_MAX && !o->over)
		o->over = now;
	else if (o->held <= TCP_OWNER_MAX / 2)
		o->over = 0;
}

size_t tcp_host_part(const struct tcp_host *h, size_t n)
{
	size_t part = n ? h->mark * 4096 / 2 / n : SIZE_MAX;
	return part > TCP_OWNER_KEPT ? part : TCP_OWNER_KEPT;
}

/* Less than that may be on its way to a reader that is well. */
void tcp_way_look_at(struct tcp_way *w, uint64_t now, bool holds, int to)
{
	bool waits = holds || tcp_unsent(to) >= TCP_UNSENT_MIN;
	tcp_way_look(w, now, waits, waits ? tcp_taken(to) : 0);
}

uint64_t tcp_owner_patience(const struct tcp_owner *o, uint64_t now)
{
	return o->over && now - o->over >= TCP_OWNER_PATIENCE ? TCP_ANY : TCP_WAY_SPAN;
}

bool tcp_conn_is_stuck(const struct tcp_conn *c, uint64_t now, uint64_t patience)
{
	if (!c->held)
		return false;
	if (patience == TCP_ANY)
		return c->up.since || c->down.since;
	return tcp_way_is_stuck(&c->up, now, patience) || tcp_way_is_stuck(&c->down, now, patience);
}

void tcp_doomed_add(struct tcp_doomed *d, struct tcp_conn *c)
{
	if (d->n == d->room) {
		d->room = d->room ? 2 * d->room : 64;
		d->conns = xrealloc(d->conns, d->room * sizeof *d->conns);
	}
	d->conns[d->n++] = c;
}

static int by_size(const void *a, const void *b)
{
	const struct tcp_conn *x = *(struct tcp_conn *const *)a, *y = *(struct tcp_conn *const *)b;
	return x->held < y->held ? 1 : x->held > y->held ? -1 : 0;
}

size_t tcp_doomed_end(
	struct tcp_doomed *d, struct tcp_owner *o, size_t most, void (*reset)(void *arg, struct tcp_conn *c), void *arg)
{
	size_t freed = 0;
	if (d->n)
		qsort(d->conns, d->n, sizeof *d->conns, by_size);
	for (size_t i = 0; i < d->n && o->held > most; i++) {
		size_t held = d->conns[i]->held;
		d->conns[i]->held = 0;
		o->held -= held < o->held ? held : o->held;
		freed += held;
		reset(arg, d->conns[i]);
	}
	free(d->conns);
	*d = (struct tcp_doomed){0};
	return freed;
}
