#include "gate/windows.h"

#include <stdlib.h>

#include "base/log.h"
#include "gate/gate.h"
#include "gate/web.h"

#define END "too many bytes wait for their readers in this sandbox"

/* ---- windows ---- */

static uint32_t window_for(const struct gate_box *b)
{
	if (b->gate->windows.host.is_short || b->over)
		return GATE_WINDOW_MIN;
	return tcp_window_for(b->conns_n, GATE_WINDOW_FEW, GATE_WINDOW_MIN, b->window);
}

void windows_set(const struct gate_box *b, int fd)
{
	if (b->window)
		tcp_window_set(fd, b->window);
}

/* The socket to the server: of HTTP by name the one that requests went over last. */
static int server_of(const struct passage *c)
{
	return c->web ? web_server(c->web) : c->server;
}

void windows_changed(struct gate_box *b)
{
	uint32_t window = window_for(b);
	if (window == b->window)
		return;
	b->window = window;
	list_each(it, &b->conns)
	{
		const struct passage *c = list_entry(it, struct passage, node);
		tcp_window_set(c->client, window);
		tcp_window_set(server_of(c), window);
	}
}

/* ---- what waits ---- */

static void look_at_way(struct tcp_way *w, uint64_t now, const struct relay_way *way, int to)
{
	bool waits = relay_holds(way) || tcp_unsent(to) >= GATE_STUCK_UNSENT;
	tcp_way_look(w, now, waits, waits ? tcp_taken(to) : 0);
}

/* A connection that moves nothing and held nothing is not asked about: most of them are idle. */
static void look_at(struct passage *c, uint64_t now)
{
	bool moves = c->state == PASSAGE_MOVING;
	if (c->state == PASSAGE_DEAD || (moves && !c->held && c->relay.moved + 2 * GATE_WINDOWS_LOOK < now))
		return;
	int server = server_of(c);
	c->held = tcp_held(c->client) + tcp_held(server) + (c->web ? tcp_held(c->server) : 0);
	look_at_way(&c->down, now, &c->relay.down, c->client);
	if (moves)
		look_at_way(&c->up, now, &c->relay.up, server);
	else /* what it has sent already waits for us */
		tcp_way_look(&c->up, now, c->held >= GATE_STUCK_UNSENT, 0);
}

static size_t look_at_box(struct gate_box *b, uint64_t now)
{
	size_t held = 0;
	list_each(it, &b->conns)
	{
		struct passage *c = list_entry(it, struct passage, node);
		look_at(c, now);
		held += c->held;
	}
	return held;
}

/* ---- who gives it back ---- */

static int by_size(const void *a, const void *b)
{
	const struct passage *x = *(struct passage *const *)a, *y = *(struct passage *const *)b;
	return x->held < y->held ? 1 : x->held > y->held ? -1 : 0;
}

/* `patience` 0: whatever waits. */
static bool is_stuck(const struct passage *c, uint64_t now, uint64_t patience)
{
	if (!patience)
		return c->down.since || c->up.since;
	return tcp_way_is_stuck(&c->down, now, patience) || tcp_way_is_stuck(&c->up, now, patience);
}

/* Resets those that stand still, the largest first, until the box holds no more than that. Returns what is freed. */
static size_t shed(struct gate_box *b, size_t most, uint64_t patience)
{
	uint64_t now = loop_now(b->gate->loop);
	size_t n = 0, freed = 0;
	struct passage **stuck = xcalloc(b->conns_n + 1, sizeof *stuck);
	list_each(it, &b->conns)
	{
		struct passage *c = list_entry(it, struct passage, node);
		if (c->held && n < b->conns_n && is_stuck(c, now, patience))
			stuck[n++] = c;
	}
	qsort(stuck, n, sizeof *stuck, by_size);
	for (size_t i = 0; i < n && b->held - freed > most; i++) {
		freed += stuck[i]->held;
		log_limited(LOG_WARN, "a connection whose reader has stopped is reset", "id=%s bytes=%zu",
			LOG_Q(box_id(b)), b->held);
		passage_shed(stuck[i], END);
	}
	free(stuck);
	b->held -= freed;
	return freed;
}

/* A box that holds too much has small windows until it holds half of it. */
static void bound(struct gate_box *b, uint64_t now)
{
	bool over = b->held > GATE_UNREAD_MAX || (b->over && b->held > GATE_UNREAD_MAX / 2);
	if (!over != !b->over) {
		b->over = over ? now : 0;
		windows_changed(b);
	}
	if (b->held <= GATE_UNREAD_MAX)
		return;
	/* Readers that are just not slow enough hold it up as well. */
	bool long_over = now - b->over >= GATE_OVER;
	shed(b, GATE_UNREAD_MAX, long_over ? 0 : GATE_STUCK);
}

/* While the host is short: the boxes that hold most give back what is over, and the others keep what they have. */
static void relieve(struct gate *g)
{
	uint64_t over = g->windows.host.over, freed = 0, last = SIZE_MAX;
	while (freed < over) {
		struct gate_box *most = NULL;
		size_t it = 0;
		void *v;
		while (map_next(&g->boxes, &it, &(struct str){0}, &v)) {
			struct gate_box *b = v;
			if (b->held > GATE_UNREAD_PRESSED && b->held < last && (!most || b->held > most->held))
				most = b;
		}
		if (!most)
			return;
		last = most->held;
		freed += shed(most, GATE_UNREAD_PRESSED, GATE_STUCK_PRESSED);
	}
}

static void on_look(struct loop_timer *t)
{
	struct gate *g = container_of(t, struct gate, windows.look);
	uint64_t now = loop_now(g->loop);
	size_t it = 0;
	void *v;
	bool changed = tcp_host_look(&g->windows.host);
	if (changed)
		log_limited(LOG_INFO, "the host's memory for TCP", "short=%d", g->windows.host.is_short);
	while (map_next(&g->boxes, &it, &(struct str){0}, &v)) {
		struct gate_box *b = v;
		if (changed)
			windows_changed(b);
		b->held = b->conns_n ? look_at_box(b, now) : 0;
		bound(b, now);
	}
	relieve(g);
	loop_timer_set(g->loop, t, GATE_WINDOWS_LOOK, on_look);
}

void windows_open(struct gate *g)
{
	tcp_host_open(&g->windows.host, GATE_TCP_SHARE);
	loop_timer_set(g->loop, &g->windows.look, GATE_WINDOWS_LOOK, on_look);
}
