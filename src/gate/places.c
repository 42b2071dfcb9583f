#include "gate/places.h"

#include "base/log.h"
#include "gate/gate.h"
#include "gate/spare.h"

void places_init(struct gate *g, size_t files)
{
	g->places = (struct places){.files = files};
	for (size_t i = 0; i < GATE_HOLDER_RANKS; i++)
		list_init(&g->places.holders[i]);
	list_init(&g->places.waiting);
	spare_init(gate_connections(files, 0) * GATE_CONN_SPARE);
}

size_t places_max(const struct gate *g)
{
	return gate_connections(g->places.files, g->boxes.count * GATE_FDS_MAX + g->places.flows);
}

static size_t reserve(const struct gate *g)
{
	return places_max(g) / GATE_PLACES_RESERVE;
}

static bool is_tight(const struct gate *g)
{
	return g->conns + reserve(g) >= places_max(g);
}

/* ---- who holds how many ---- */

static size_t rank_of(size_t n)
{
	size_t rank = 0;
	for (; n && rank < GATE_HOLDER_RANKS - 1; n /= 2)
		rank++;
	return rank;
}

void places_held(struct gate_box *b, size_t before)
{
	size_t rank = rank_of(b->conns_n);
	if (rank == rank_of(before))
		return;
	list_del(&b->holder);
	if (rank)
		list_push(&b->gate->places.holders[rank], &b->holder);
}

/* NULL: no box has a connection. */
static struct gate_box *largest(const struct gate *g)
{
	struct gate_box *found = NULL;
	size_t rank = GATE_HOLDER_RANKS - 1, looked = 0;
	while (rank && list_empty(&g->places.holders[rank]))
		rank--;
	list_each(it, &g->places.holders[rank])
	{
		struct gate_box *b = list_entry(it, struct gate_box, holder);
		if (!found || b->conns_n > found->conns_n)
			found = b;
		if (++looked == GATE_HOLDERS_LOOK)
			break;
	}
	return found;
}

/* The box that is to give up a place for one of `b`, or NULL. */
static struct gate_box *giver(const struct gate_box *b)
{
	struct gate_box *most = largest(b->gate);
	return most && most->conns_n > b->conns_n + 1 ? most : NULL;
}

bool places_has_room(const struct gate_box *b)
{
	const struct gate *g = b->gate;
	if (!is_tight(g) || giver(b))
		return true;
	return b->conns_n < GATE_PLACES_FEW && g->conns < places_max(g);
}

/* Where boxes have come since, there may be more connections than places: two go for one that comes. */
void places_make_room(struct gate_box *b)
{
	struct gate *g = b->gate;
	size_t n = g->conns < places_max(g) ? 1 : 2;
	for (size_t i = 0; i < n && is_tight(g); i++) {
		struct gate_box *from = giver(b);
		if (!from)
			return;
		log_limited(LOG_WARN, "a box with many connections loses its longest idle one to another box",
			"id=%s connections=%zu all=%zu", LOG_Q(box_id(from)), from->conns_n, g->conns);
		box_shed(from);
	}
}
