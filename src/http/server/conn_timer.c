/*
 * Time limits of a connection. Each connection has one timer, set lazily: a limit that moves into the future, as
 * happens with every request, only changes a number. A timer that fires too early is set again.
 */
#include "http/server/conn.h"

enum { PROBE_GAP_MAX = 30000, ZEROS_MAX = 6 };

void conn_due_in(struct http_conn *c, uint32_t ms)
{
	c->in_due = ms ? loop_now(c->s->loop) + ms : 0;
}

static void refuse_late(struct http_conn *c, const char *what)
{
	struct err e;
	err_set(&e, ERRC_REQUEST_TIMEOUT, "%s", what);
	conn_refuse(c, &e);
}

static void input_late(struct http_conn *c)
{
	c->in_due = 0;
	switch (c->state) {
	case CONN_HEAD:
		if (list_empty(&c->idle))
			refuse_late(c, "the head of the request did not come in time");
		else
			conn_gone(c);
		break;
	case CONN_OPEN:
		refuse_late(c, "the body of the request did not come in time");
		break;
	case CONN_DRAIN:
	case CONN_CLOSING:
	case CONN_LINGER:
		conn_gone(c);
		break;
	case CONN_DEAD:
		break;
	}
}

static bool can_probe(const struct http_conn *c)
{
	if (c->state != CONN_OPEN || !c->half || !c->tcp)
		return false;
	if (!exchange_begun(&c->x))
		return c->prefix < sizeof HTTP_PREFIX - 1;
	return c->x.out == OUT_CHUNKED && !exchange_ended(&c->x) && c->zeros < ZEROS_MAX;
}

/* See server.h: makes a vanished TCP client show itself. */
static void probe(struct http_conn *c)
{
	if (!wire_pending(&c->w) && !exchange_begun(&c->x))
		wire_put(&c->w, str_n(&HTTP_PREFIX[c->prefix++], 1));
	else if (!wire_pending(&c->w) && c->zeros++ < ZEROS_MAX)
		wire_put(&c->w, STR("0"));
	c->probe_gap = c->probe_gap * 2 < PROBE_GAP_MAX ? c->probe_gap * 2 : PROBE_GAP_MAX;
	c->probe_due = loop_now(c->s->loop) + c->probe_gap;
}

static void on_due(struct loop_timer *t)
{
	struct http_conn *c = container_of(t, struct http_conn, timer);
	uint64_t now = loop_now(c->s->loop);
	turn_bill(c->seat.party);
	if (c->probe_due && c->probe_due <= now && can_probe(c))
		probe(c);
	if (c->out_due && c->out_due <= now)
		conn_gone(c);
	else if (c->in_due && c->in_due <= now)
		input_late(c);
	conn_step(c);
}

static uint64_t sooner(uint64_t a, uint64_t b)
{
	return !a || (b && b < a) ? b : a;
}

void conn_arm(struct http_conn *c)
{
	uint64_t now = loop_now(c->s->loop);
	if (!wire_pending(&c->w))
		c->out_due = 0;
	else if (!c->out_due || c->w.sent != c->sent_seen)
		c->out_due = now + c->s->config.send_stall;
	c->sent_seen = c->w.sent;
	if (!can_probe(c))
		c->probe_due = 0;
	else if (!c->probe_due)
		c->probe_due = now + (c->probe_gap = c->s->config.gone_probe);
	uint64_t due = sooner(sooner(c->in_due, c->out_due), c->probe_due);
	if (due && (!c->timer.pos || c->timer.due > due))
		loop_timer_set(c->s->loop, &c->timer, due > now ? due - now : 0, on_due);
}
