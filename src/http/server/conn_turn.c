/* How a connection shares the turns of the loop with the others (base/turn.h). */
#include "http/limits.h"
#include "http/server/conn.h"

/* Behind a trusted proxy's connection are many clients, one after the other: it is never closed for one of them. */
static bool is_stranger(const struct http_conn *c)
{
	return c->rank == HTTP_STRANGER && !c->proxied;
}

void conn_turn_choose(struct http_conn *c)
{
	turn_move(&c->seat, is_stranger(c) ? &c->s->strangers_party : c->joined ? c->joined : &c->own);
}

void conn_turn_begin(struct http_conn *c, struct turn_party *joined, void (*run)(struct turn_seat *, uint32_t))
{
	turn_party_init(&c->own, c->s->loop, false);
	c->joined = turn_party_ref(joined);
	c->adopted = joined != NULL;
	c->seat = (struct turn_seat){.party = &c->own, .io = &c->w.io, .run = run};
}

bool conn_turn_admit(struct http_conn *c, uint32_t events)
{
	if (!turn_waits(&c->seat))
		c->seat.ahead = is_stranger(c) && !c->answers && c->waits < HTTP_STRANGER_WAITS;
	if (turn_admit(&c->seat, events))
		return true;
	c->waits++;
	return false;
}

void conn_turn_end(struct http_conn *c)
{
	turn_leave(&c->seat);
	c->seat.party = &c->own;
	turn_party_leave(&c->own);
	turn_party_unref(take_ptr(&c->joined));
}

static void join(struct http_conn *c, struct turn_party *party)
{
	struct turn_party *before = c->joined;
	if (before == party)
		return;
	c->joined = turn_party_ref(party);
	conn_turn_choose(c);
	turn_party_unref(before);
}

void http_exchange_join(struct http_exchange *x, struct turn_party *party)
{
	struct http_conn *c = conn_of(x);
	x->joined = true;
	join(c, party);
}

void conn_turn_asked(struct http_conn *c)
{
	if (c->joined && !c->x.joined && !c->adopted)
		join(c, NULL);
}

void conn_count_answer(struct http_conn *c, int status)
{
	if (!conn_is_strange(c) || c->proxied)
		return;
	c->seat.ahead = false;
	if (++c->answers >= HTTP_STRANGER_REQUESTS || status == 401)
		exchange_end_at_least(&c->x, END_CLOSE);
}
