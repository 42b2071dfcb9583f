#include "gate/windows.h"

#include "base/log.h"
#include "gate/gate.h"
#include "gate/web.h"

#define END "too many bytes wait for their readers in this sandbox"

/* ---- windows ---- */

void windows_set(const struct gate_box *b, int fd)
{
	if (b->memory.window)
		tcp_window_set(fd, b->memory.window);
}

/* The socket to the server: of HTTP by name the one that requests went over last. */
static int server_of(const struct passage *c)
{
	return c->web ? web_server(c->web) : c->server;
}

void windows_changed(struct gate_box *b)
{
	if (!tcp_owner_window(&b->memory, &b->gate->windows.host, b->conns_n))
		return;
	list_each(it, &b->conns)
	{
		const struct passage *c = list_entry(it, struct passage, node);
		tcp_window_set(c->client, b->memory.window);
		tcp_window_set(server_of(c), b->memory.window);
	}
}

/* ---- what waits ---- */

/* A connection that moves nothing and held nothing is not asked about: most of them are idle. */
static void look_at(struct passage *c, uint64_t now)
{
	struct tcp_conn *m = &c->memory;
	bool moves = c->state == PASSAGE_MOVING;
	if (c->state == PASSAGE_DEAD || (moves && !m->held && c->relay.moved + 2 * TCP_LOOK < now))
		return;
	int server = server_of(c);
	m->held = tcp_held(c->client) + tcp_held(server) + (c->web ? tcp_held(c->server) : 0);
	tcp_way_look_at(&m->down, now, relay_holds(&c->relay.down), c->client);
	if (moves)
		tcp_way_look_at(&m->up, now, relay_holds(&c->relay.up), server);
	else /* what it has sent already waits for us */
		tcp_way_look(&m->up, now, m->held >= TCP_UNSENT_MIN, 0);
}

static void look_at_box(struct gate_box *b, uint64_t now)
{
	b->memory.held = 0;
	list_each(it, &b->conns)
	{
		struct passage *c = list_entry(it, struct passage, node);
		look_at(c, now);
		b->memory.held += c->memory.held;
	}
	tcp_owner_judge(&b->memory, now);
	windows_changed(b);
}

/* ---- who gives it back ---- */

static void reset(void *arg, struct tcp_conn *c)
{
	const struct gate_box *b = arg;
	log_limited(LOG_WARN, "a connection whose reader has stopped is reset", "id=%s bytes=%zu", LOG_Q(box_id(b)),
		b->memory.held);
	passage_shed(container_of(c, struct passage, memory), END);
}

static size_t shed(struct gate_box *b, size_t most, uint64_t patience)
{
	uint64_t now = loop_now(b->gate->loop);
	struct tcp_doomed d = {0};
	list_each(it, &b->conns)
	{
		struct passage *c = list_entry(it, struct passage, node);
		if (tcp_conn_is_stuck(&c->memory, now, patience))
			tcp_doomed_add(&d, &c->memory);
	}
	return tcp_doomed_end(&d, &b->memory, most, reset, b);
}

static struct gate_box *largest_below(const struct gate *g, size_t limit)
{
	struct gate_box *most = NULL;
	size_t it = 0;
	void *v;
	while (map_next(&g->boxes, &it, &(struct str){0}, &v)) {
		struct gate_box *b = v;
		if (b->memory.held < limit && (!most || b->memory.held > most->memory.held))
			most = b;
	}
	return most;
}

static size_t count_large(const struct gate *g)
{
	size_t it = 0, n = 0;
	void *v;
	while (map_next(&g->boxes, &it, &(struct str){0}, &v))
		n += ((struct gate_box *)v)->memory.held > TCP_OWNER_KEPT;
	return n;
}

/* While the host is short. */
static void relieve(struct gate *g)
{
	uint64_t freed = 0;
	size_t limit = SIZE_MAX;
	if (!tcp_host_needs(&g->windows.host))
		return;
	size_t part = tcp_host_part(&g->windows.host, count_large(g));
	while (freed < g->windows.host.over) {
		struct gate_box *b = largest_below(g, limit);
		if (!b || b->memory.held <= part)
			return;
		limit = b->memory.held;
		freed += shed(b, part, TCP_STUCK_SHORT);
	}
}

static void on_look(struct loop_timer *t)
{
	struct gate *g = container_of(t, struct gate, windows.look);
	uint64_t now = loop_now(g->loop);
	size_t it = 0;
	void *v;
	if (tcp_host_look(&g->windows.host))
		log_limited(LOG_INFO, "the host's memory for TCP", "short=%d", g->windows.host.is_short);
	while (map_next(&g->boxes, &it, &(struct str){0}, &v)) {
		struct gate_box *b = v;
		look_at_box(b, now);
		if (b->memory.held > TCP_OWNER_MAX)
			shed(b, TCP_OWNER_MAX, tcp_owner_patience(&b->memory, now));
	}
	relieve(g);
	loop_timer_set(g->loop, t, TCP_LOOK, on_look);
}

void windows_open(struct gate *g)
{
	tcp_host_open(&g->windows.host, TCP_HOST_SHARE);
	loop_timer_set(g->loop, &g->windows.look, TCP_LOOK, on_look);
}
