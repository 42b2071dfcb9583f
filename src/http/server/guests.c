/* The memory of TCP that guests hold, for who divides it by owners (base/tcp_owner.h). */
#include <sys/socket.h>

#include "http/server/conn.h"

void http_server_each_guest(struct http_server *s,
	void (*each)(void *arg, struct http_exchange *x, const struct turn_party *party), void *arg)
{
	list_each(it, &s->conns)
	{
		struct http_conn *c = list_entry(it, struct http_conn, node);
		if (c->rank == HTTP_GUEST && c->joined)
			each(arg, &c->x, c->joined);
	}
}

void http_guest_look(struct http_exchange *x, uint64_t now, uint32_t window)
{
	struct http_conn *c = conn_of(x);
	wire_window(&c->w, window);
	c->memory.held = tcp_held(c->w.fd);
	tcp_way_look_at(&c->memory.down, now, wire_pending(&c->w), c->w.fd);
	/* Between two requests no server takes anything from it. */
	if (c->state != CONN_OPEN)
		c->memory.up = (struct tcp_way){0};
}

struct tcp_conn *http_guest_memory(struct http_exchange *x)
{
	return &conn_of(x)->memory;
}

struct http_exchange *http_guest_of(struct tcp_conn *m)
{
	return &container_of(m, struct http_conn, memory)->x;
}

void http_guest_window(struct http_exchange *x, uint32_t window)
{
	wire_window(&conn_of(x)->w, window);
}

void http_guest_reset(struct http_exchange *x)
{
	struct http_conn *c = conn_of(x);
	setsockopt(c->w.fd, SOL_SOCKET, SO_LINGER, &(struct linger){1, 0}, sizeof(struct linger));
	conn_gone(c);
}
